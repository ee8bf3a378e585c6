"""Who did what: written in the transaction of the change itself, and read by operators and admins."""

from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.tenancy import audit as statements
from app.domain.list_filters import AuditFilter
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.principal import Principal, Role
from app.services.totals import total_count

_KIND = "audit"


async def record(
    connection: AsyncConnection,
    principal: Principal,
    action: str,
    *,
    target: str | None,
    tenant_id: str | None,
    before: Any = None,
    after: Any = None,
) -> None:
    """One entry. `action` such as `tenant.create`; `before` and `after` hold what changed and never a secret."""
    values = {
        "id": new_id("audit"),
        "tenant_id": tenant_id,
        "principal": principal.key_id,
        "role": str(principal.role),
        "action": action,
        "target": target,
        "before": to_jsonable_python(before),
        "after": to_jsonable_python(after),
        "address": principal.address,
        "request_id": principal.request_id,
    }
    await connection.execute(statements.append(values))


async def record_lease(
    connection: AsyncConnection, principal: Principal, action: str, row: Any, *, before: Any = None, after: Any = None
) -> None:
    """One entry about a lease, of which `row` has at least id and tenant_id."""
    await record(connection, principal, action, target=row.id, tenant_id=row.tenant_id, before=before, after=after)


class AuditService:
    """Reads the trail."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def entries(self, principal: Principal, criteria: AuditFilter, page: PageRequest) -> RowPage:
        """Entries that match, newest first: operators see all, the others their tenant's.

        Tenants learn neither the key nor the address of an operator.
        """
        mine = principal.tenant_id
        statement = partial(statements.page, tenant_id=mine, criteria=criteria)
        after = last_id(page, _KIND, "audit")
        rows = await self._database.rows(mine, statement(after=after, limit=page.limit + 1))
        total = await total_count(self._database, mine, page, partial(statement, after=None, limit=1))
        return cut(rows if mine is None else [_without_operator(row) for row in rows], page, _KIND, total)


def _without_operator(row: Any) -> dict[str, Any]:
    hidden = (
        {"principal": "operator", "principal_name": None, "address": None, "request_id": None}
        if row["role"] == Role.OPERATOR
        else {}
    )
    return {**row, **hidden}
