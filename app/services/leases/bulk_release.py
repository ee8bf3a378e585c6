"""Releasing many leases in one call: by id, by label, or all of a tenant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from app.db.leases import lists, transitions
from app.domain.ids import LeaseId
from app.domain.leases import TERMINAL, Desired, LeaseState
from app.domain.list_filters import LeaseFilter
from app.services.acting_tenant import known_tenant
from app.services.context import ServiceContext
from app.services.leases.changes import end_lease
from app.services.principal import Principal

MOST = 1000
"""Leases of one call."""
_BATCH = 100
"""Leases of one transaction: their rows stay locked until it ends."""
_LIVE = frozenset(LeaseState) - TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The leases to release: either `ids`, or those with all `labels`, or all of the tenant."""

    ids: tuple[str, ...] = ()
    labels: Mapping[str, str] | None = None
    tenant_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedLease:
    """A selected lease. `released`: this call releases it, or would do so without `dry_run`."""

    id: str
    tenant_id: str
    name: str
    state: LeaseState
    released: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReleaseResult:
    """The result of a call. `more`: further leases match, since one call takes MOST of them."""

    leases: tuple[SelectedLease, ...]
    not_found: tuple[str, ...]
    more: bool


class BulkRelease:
    """Releases the leases of a selection, each as LeaseChanges.release does."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    async def release(self, principal: Principal, selection: Selection) -> BulkReleaseResult:
        """The leases are released in batches: a call that fails has released some of them, and may be repeated.

        Raises InvalidRequest.
        """
        query, parameters = lists.selected(
            await self._filter(principal, selection), MOST + 1, running=not selection.ids
        )
        rows = await self._context.database.fetch(principal.tenant_id, query, **parameters)
        leases = [SimpleNamespace(**row) for row in rows[:MOST]]
        running = [row for row in leases if row.desired == Desired.RUN]
        ended = {row.id for row in running} if selection.dry_run else await self._end(principal, running)
        return BulkReleaseResult(
            leases=tuple(_selected(row, released=row.id in ended, dry_run=selection.dry_run) for row in leases),
            not_found=tuple(sorted(set(selection.ids) - {row.id for row in leases})),
            more=len(rows) > MOST,
        )

    async def _filter(self, principal: Principal, selection: Selection) -> LeaseFilter:
        """An operator names the tenant, except for a selection by ids."""
        tenant_id = selection.tenant_id
        if not selection.ids or tenant_id is not None or principal.tenant_id is not None:
            tenant_id = await known_tenant(self._context.database, principal, tenant_id)
        criteria = LeaseFilter(tenant_id=tenant_id, ids=selection.ids, labels=selection.labels or {})
        return criteria if selection.ids else replace(criteria, states=_LIVE)

    async def _end(self, principal: Principal, rows: Sequence[Any]) -> set[str]:
        """The ids of the leases that this call has released."""
        ended: set[str] = set()
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            async with self._context.database.transaction(principal.tenant_id) as connection:
                await connection.execute(*transitions.locked(row.id for row in batch))
                done = [row.id for row in batch if await end_lease(connection, principal, row)]
            for lease_id in done:
                self._context.hints.wake(LeaseId(lease_id))
            ended |= set(done)
        return ended


def _selected(row: Any, *, released: bool, dry_run: bool) -> SelectedLease:
    state = LeaseState.RELEASING if released and not dry_run else LeaseState(row.state)
    return SelectedLease(id=row.id, tenant_id=row.tenant_id, name=row.name, state=state, released=released)
