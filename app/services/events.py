"""What happened, in the order of the events' numbers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.events import reads
from app.db.leases import statements as lease_statements
from app.domain.list_filters import EventFilter, EventRange, EventSort
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cursor
from app.services.errors import CursorExpired, ResourceNotFound
from app.services.leases.leases import lease_key
from app.services.principal import Principal
from app.services.totals import total_count


def cursor_kind(sort: EventSort) -> str:
    """The kind of the cursors of a list in this order."""
    return f"events {sort}"


class EventService:
    """Numbered events only: nothing ever appears below a number that was shown."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def of_tenant(
        self, principal: Principal, criteria: EventFilter, *, span: EventRange, page: PageRequest
    ) -> RowPage:
        """Of the caller's tenant; of all tenants, or the tenant of `criteria`, for operators. Raises CursorExpired."""
        await self.require_kept(span.after)
        criteria = replace(criteria, tenant_id=principal.tenant_id or criteria.tenant_id)
        statement = reads.in_range(span, limit=page.limit + 1, criteria=criteria)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            rows = (await connection.execute(statement)).all()
        return await self._page(principal, criteria, rows, page, span.sort)

    async def require_kept(self, after: int | None) -> None:
        """Raises CursorExpired when what came after `after` is no longer kept, or `after` is of an undone history."""
        if after is not None and not (await self._position(after)).is_position:
            raise CursorExpired

    async def of_lease(
        self, principal: Principal, lease_id: str, criteria: EventFilter, *, span: EventRange, page: PageRequest
    ) -> RowPage:
        """Of one lease. Raises ResourceNotFound, CursorExpired."""
        expired = undone = False
        if span.after is not None:
            position = await self._position(span.after)
            expired, undone = not position.is_position, span.after > position.newest
        mine = principal.tenant_id
        criteria = replace(criteria, tenant_id=mine, lease_id=lease_key(lease_id))
        statement = reads.in_range(span, limit=page.limit + 1, criteria=criteria)
        async with self._database.transaction(mine, read_only=True) as connection:
            known = await connection.execute(lease_statements.VERSION, lease_statements.named(lease_id, mine))
            if known.first() is None:
                raise ResourceNotFound
            if undone or (expired and await _lost_its_beginning(connection, lease_id, mine)):
                raise CursorExpired
            rows = (await connection.execute(statement)).all()
        return await self._page(principal, criteria, rows, page, span.sort)

    async def _page(
        self, principal: Principal, criteria: EventFilter, rows: Sequence[Row[Any]], page: PageRequest, sort: EventSort
    ) -> RowPage:
        """The page out of `limit + 1` rows. `total_count` counts all stored events that match."""
        first = partial(reads.numbered, after=0, limit=1, criteria=criteria)
        total = await total_count(self._database, principal.tenant_id, page, first)
        more = len(rows) > page.limit
        rows = rows[: page.limit]
        return RowPage(rows, cursor(cursor_kind(sort), str(rows[-1].sequence)) if more else None, total)

    async def _position(self, after: int) -> Row[Any]:
        """See `reads.is_position`. Looks over all tenants, for only there numbers have no gaps."""
        async with self._database.transaction(None, read_only=True) as connection:
            return (await connection.execute(reads.is_position(after))).one()


async def _lost_its_beginning(connection: AsyncConnection, lease_id: str, within: str | None) -> bool:
    """A young lease has lost nothing, however old the cursor."""
    first: int | None = (await connection.execute(reads.first_of_lease(lease_id, within=within))).scalar_one()
    return first != 1
