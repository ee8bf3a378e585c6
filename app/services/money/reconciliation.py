"""What leases cost by gpulease's clock, beside what providers charged. The route requires the role operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from app.db.operations import reconciliation as statements
from app.db.operations.reconciliation import Key
from app.domain.list_filters import ReconciliationFilter
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cursor
from app.services.errors import FieldError, InvalidRequest

_KIND = "reconciliation"
_KEY_PARTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """`page`: rows of statements.items. `totals`: rows of statements.totals. `imports`: files that the month is made of."""

    page: RowPage
    totals: Sequence[Any]
    imports: Sequence[Any]


class ReconciliationService:
    """Compares estimates and invoices."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def read(self, criteria: ReconciliationFilter, page: PageRequest) -> Reconciliation:
        """Rows by day, provider and resource. Raises InvalidRequest for a cursor of another list."""
        after = _after(page)
        async with self._database.transaction(None, read_only=True) as connection:
            items = (await connection.execute(*statements.items(criteria, after=after, limit=page.limit + 1))).all()
            totals = (await connection.execute(*statements.totals(criteria))).all()
            imports = (await connection.execute(*statements.imports(criteria))).all()
        rows = items[: page.limit]
        following = _cursor(rows[-1]) if len(items) > page.limit else None
        total_count = sum(row.items for row in totals) if page.count else None
        return Reconciliation(page=RowPage(rows, following, total_count), totals=totals, imports=imports)


def _cursor(row: Any) -> str:
    return cursor(_KIND, row.day.isoformat(), row.provider, row.resource_id, row.attempt_id, row.kind)


def _after(page: PageRequest) -> Key | None:
    parts = page.after(_KIND, _KEY_PARTS)
    if parts is None:
        return None
    day, provider, resource, attempt, kind = parts
    try:
        return date.fromisoformat(day), provider, resource, attempt, kind
    except ValueError:
        raise InvalidRequest(
            errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")]
        ) from None
