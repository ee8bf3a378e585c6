"""Changing a group: its size, its term, and its end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.events.events import NewEvent, append
from app.db.groups import lists, writes
from app.db.groups.members import NewMembers, insert_members, lock_members, member_name, template
from app.db.leases import statements, transitions
from app.domain.event_parts import EventReason
from app.domain.groups.events import GroupReleasing, GroupResized
from app.domain.groups.groups import GroupState, Pool
from app.domain.ids import GroupId, LeaseId, TenantId
from app.domain.lease_actions import LaterExpiry
from app.domain.leases import Desired
from app.domain.reasons import Reason, ReasonCode
from app.services.context import ServiceContext
from app.services.errors import Conflict, GroupEnding, ResourceNotFound, TenantSuspended
from app.services.groups.creation import ACCOUNTABLE, NameConflict, check_member_names, name_conflicts
from app.services.groups.groups import free_ranks, group_key, read_group
from app.services.groups.requests import check_growth
from app.services.idempotency import IdempotencyKey, Reply, repeatable
from app.services.leases.admission import (
    CHANGED_MEANWHILE,
    Admission,
    BudgetsChanged,
    Needs,
    NoRoom,
    budget_parameters,
    reserve,
)
from app.services.leases.changes import check_extension, move_expiry, recommit, released_by
from app.services.money.cost_owners import check_cost_owner
from app.services.offering_cache import CatalogueSnapshot, OfferingCache
from app.services.ops import audit
from app.services.preconditions import IfMatch
from app.services.principal import Principal

_TRIES = 5
_TERM_OVER = "The term of the group's members has ended."


class _NoRoomFor(Exception):
    """The new members have no room."""

    def __init__(self, needs: Needs) -> None:
        super().__init__()
        self.needs = needs


class GroupChanges:
    """Each call returns the group after the change, as `GroupService.get` does."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._context = context
        self._catalogue = catalogue
        self._admission = Admission(context)

    async def resize(self, principal: Principal, group_id: str, size: int, if_match: IfMatch) -> Any:
        """New members join at ranks without a member, then at the next ranks. A smaller group releases its last ranks.

        Raises ResourceNotFound, VersionConflict, GroupEnding, TenantSuspended, QuotaExceeded, BudgetExceeded, KeyHasBudget,
        InvalidRequest for more members than the provider places together, and Conflict when a lease has the name of a
        new member.
        """
        snapshot = await self._catalogue.snapshot()
        for _ in range(_TRIES):
            released: list[LeaseId] = []
            try:
                async with (
                    name_conflicts(),
                    self._context.database.transaction(principal.tenant_id) as connection,
                ):
                    row = await _locked(connection, principal, group_id, if_match)
                    released = await _resize(connection, principal, row, size, snapshot)
                    group = await read_group(connection, principal, row.id)
            except BudgetsChanged as changed:
                tenant_id = await self._tenant_of(principal, group_id)
                await self._admission.roll_budgets(principal, tenant_id, due=changed.due)
            except _NoRoomFor as short:
                await self._admission.make_room_or_refuse(principal, short.needs, None, None)
            except NameConflict:  # the next try names who has it
                continue
            else:
                self._wake(released)
                return group
        raise Conflict(CHANGED_MEANWHILE, retryable=True, headers={"Retry-After": "1"})

    @asynccontextmanager
    async def extend(
        self, principal: Principal, group_id: str, later: LaterExpiry, *, if_match: IfMatch, key: IdempotencyKey | None
    ) -> AsyncIterator[Reply]:
        """Extends all members whose term is not over, or none. Afterwards none of them expires before the new time.

        A duration is added to the latest expiry of a member. Raises GroupEnding, and what `LeaseChanges.extend` raises.
        """
        await self._admission.begin_periods(principal, group_key(group_id))
        extended: list[LeaseId] = []
        async with (
            self._context.database.transaction(principal.tenant_id) as connection,
            repeatable(connection, key, 200) as reply,
        ):
            if not reply.replayed:
                row = await _locked(connection, principal, group_id, if_match)
                extended = await _extend(connection, principal, row, later)
                reply.row = await read_group(connection, principal, row.id)
            yield reply
        self._wake(extended)

    async def release(self, principal: Principal, group_id: str, if_match: IfMatch) -> Any:
        """Ends the group and every member. A group that ends or has ended is answered as it is.

        Raises ResourceNotFound, VersionConflict.
        """
        released: list[LeaseId] = []
        async with self._context.database.transaction(principal.tenant_id) as connection:
            row = await _locked(connection, principal, group_id, if_match)
            if row.desired == Desired.RUN:
                released = await _release(connection, principal, row)
            group = await read_group(connection, principal, row.id)
        self._wake(released)
        return group

    async def _tenant_of(self, principal: Principal, group_id: str) -> TenantId:
        async with self._context.database.transaction(principal.tenant_id, read_only=True) as connection:
            return TenantId((await read_group(connection, principal, group_id)).tenant_id)

    def _wake(self, lease_ids: list[LeaseId]) -> None:
        for lease_id in lease_ids:
            self._context.hints.wake(lease_id)


async def _locked(connection: AsyncConnection, principal: Principal, group_id: str, if_match: IfMatch) -> Any:
    """The row of the group. Locks in this order: tenant, members, group."""
    mine = principal.tenant_id
    seen = (await connection.execute(lists.get(group_key(group_id), within=mine))).first()
    if seen is None:
        raise ResourceNotFound
    await connection.execute(writes.share_tenant(TenantId(seen.tenant_id)))
    await connection.execute(*lock_members(GroupId(seen.id)))
    row = (await connection.execute(lists.lock(group_id, within=mine))).one()
    if_match.check(row.id, row.version)
    return row


async def _resize(
    connection: AsyncConnection, principal: Principal, row: Any, size: int, snapshot: CatalogueSnapshot
) -> list[LeaseId]:
    """Returns the released members. Raises GroupEnding."""
    released: list[LeaseId] = []
    if row.desired == Desired.END:
        raise GroupEnding
    if size == row.size:
        return released
    if size > row.size:
        await check_cost_owner(connection, principal, row.key_id)
        check_growth(snapshot, row, size)
        await _grow(connection, principal, row, size)
    else:
        reason = Reason(
            ReasonCode.GROUP_SHRUNK, f"the group was made smaller: {size} members", released_by(principal).origin
        )
        released = await _end_members(connection, principal, row.id, reason, first_rank=size)
    values = {"size": size, "min_size": min(size, row.min_size)}
    await connection.execute(writes.change(row.id, values))
    resized = GroupResized(group_id=row.id, size=size, previous_size=row.size)
    await _tell(connection, row, NewEvent(resized, principal.request_id))
    if principal.role in ACCOUNTABLE:
        before = {"size": row.size, "min_size": row.min_size}
        await _record(connection, principal, row, "group.resize", before=before, after=values)
    return released


async def _grow(connection: AsyncConnection, principal: Principal, row: Any, size: int) -> None:
    """Admits members for the free ranks, or none: with the terms and the expiry that the others have."""
    terms = (await connection.execute(*template(row.id))).one()
    if terms.ttl <= timedelta(0):
        raise GroupEnding(_TERM_OVER)
    names = {rank: member_name(row.name, rank) for rank in await free_ranks(connection, row, size)}
    await check_member_names(connection, row.tenant_id, list(names.values()))
    minimum = {resource: Decimal(amount) for resource, amount in terms.minimum_claim.items()}
    about = {"rate": terms.minimum_rate, "max_cost": terms.max_cost, "ttl": terms.ttl}
    budgets = budget_parameters(row.tenant_id, key_id=terms.key_id, labels=terms.labels, **about)
    needs = Needs(tenant_id=row.tenant_id, minimum=minimum, budgets=budgets, members=len(names))
    try:
        claims = await reserve(connection, needs)
    except NoRoom:
        raise _NoRoomFor(needs) from None
    new = NewMembers(
        tenant_id=row.tenant_id,
        group_id=row.id,
        names=names,
        request=terms.request,
        labels=terms.labels,
        on_interruption=terms.on_interruption,
        minimum=terms.minimum_claim,
        claims=claims,
        minimum_rate=terms.minimum_rate,
        estimated_price_per_hour=terms.estimated_price_per_hour,
        ttl=terms.ttl,
        wait=timedelta(seconds=terms.request["wait_seconds"]),
        expires_at=terms.expires_at,
        max_cost=terms.max_cost,
        key_id=terms.key_id,
        expiry_warnings=terms.expiry_warnings,
        startup_script=terms.startup_script,
        pool=None if row.pool is None else Pool.from_json(row.pool),
        request_id=principal.request_id,
    )
    if not (await connection.execute(*insert_members(new))).all():
        raise TenantSuspended


async def _extend(connection: AsyncConnection, principal: Principal, row: Any, later: LaterExpiry) -> list[LeaseId]:
    """Returns the extended members: those that expire before the new time.

    A member whose term is over stays as it is: the group treats its end as the loss of a member.
    """
    running = () if row.desired == Desired.END else (await connection.execute(writes.running_members(row.id))).all()
    if not running:
        raise GroupEnding
    await check_cost_owner(connection, principal, row.key_id)
    named = [
        statements.named(member.id, principal.tenant_id) for member in sorted(running, key=lambda member: member.id)
    ]
    locked = [(await connection.execute(statements.LOCK, parameters)).one() for parameters in named]
    members = [member for member in locked if not member.over]
    if not members:
        raise GroupEnding(_TERM_OVER)
    latest = max(member.expires_at for member in members)
    until = later.after(latest)
    earlier = [member for member in members if member.expires_at < until]
    for member in earlier or members:
        check_extension(member, later, until)
    moved = [await move_expiry(connection, principal, member, until) for member in earlier]
    await recommit(connection, principal, row.tenant_id, [member.id for member in moved])
    await connection.execute(writes.change(row.id, {}))
    times = {"before": {"expires_at": latest}, "after": {"expires_at": max(latest, until)}}
    await _record(connection, principal, row, "group.extend", **times)
    return [LeaseId(member.id) for member in moved]


async def _release(connection: AsyncConnection, principal: Principal, row: Any) -> list[LeaseId]:
    reason = released_by(principal)
    released = await _end_members(connection, principal, row.id, reason)
    values = {
        "desired": str(Desired.END),
        "state": str(GroupState.RELEASING),
        "reason": reason.as_json(),
        "release_requested_at": func.now(),
    }
    await connection.execute(writes.change(row.id, values))
    releasing = GroupReleasing(group_id=row.id, reason=EventReason.of(reason))
    await _tell(connection, row, NewEvent(releasing, principal.request_id))
    after = {"state": str(GroupState.RELEASING), "reason": reason.as_json()}
    await _record(connection, principal, row, "group.release", before={"state": row.state}, after=after)
    return released


async def _end_members(
    connection: AsyncConnection, principal: Principal, group_id: GroupId, reason: Reason, *, first_rank: int = 0
) -> list[LeaseId]:
    """Requests the end of the members from a rank on. Returns those whose end was not requested before."""
    rows = (await connection.execute(writes.running_members(group_id, first_rank=first_rank))).all()
    for row in rows:
        end = transitions.request_end(row.id, reason, principal.request_id, within=principal.tenant_id)
        await connection.execute(*end)
    return [LeaseId(row.id) for row in rows]


async def _tell(connection: AsyncConnection, row: Any, new: NewEvent) -> None:
    await connection.execute(append(row.tenant_id, new))


async def _record(connection: AsyncConnection, principal: Principal, row: Any, action: str, **what: Any) -> None:
    await audit.record(connection, principal, action, target=row.id, tenant_id=row.tenant_id, **what)
