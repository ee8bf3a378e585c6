"""POST /v1/groups: quota and budgets of all members, the group, its members and its first event in one transaction."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.events.events import NewEvent, append
from app.db.groups import writes
from app.db.groups.members import NewMembers, insert_members, member_name
from app.domain.groups.events import GroupQueued
from app.domain.groups.groups import GroupState
from app.domain.ids import GroupId, TenantId
from app.domain.rates import rate_at
from app.domain.ssh_keys import describe as describe_ssh_key
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.errors import Conflict, FieldError, NameTaken
from app.services.groups.groups import read_group
from app.services.groups.requests import CreateGroup, about_lease, check_group
from app.services.idempotency import IdempotencyKey, Reply, repeatable, replay
from app.services.leases.admission import (
    CHANGED_MEANWHILE,
    Admission,
    BudgetsChanged,
    Needs,
    NoRoom,
    check_terms,
    needs_of,
    reserve,
)
from app.services.leases.refusals import no_offering
from app.services.leases.ssh_keys import with_ssh_keys
from app.services.offering_cache import OfferingCache
from app.services.ops import audit
from app.services.principal import Principal, Role
from app.services.request_checks import CheckedRequest, check_request

_TRIES = 5
ACCOUNTABLE = frozenset({Role.ADMIN, Role.OPERATOR})
"""Roles whose changes are in the audit trail. The events of a group record those of members, which are mostly programs."""


class NameConflict(Exception):
    """Another request took a name at the same time. The transaction rolls back, and the caller finds who has it."""


class GroupCreation:
    """Admits groups."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._context = context
        self._catalogue = catalogue
        self._admission = Admission(context)

    @asynccontextmanager
    async def create(self, principal: Principal, new: CreateGroup, key: IdempotencyKey | None) -> AsyncIterator[Reply]:
        """The group in `queued`, as `GroupService.get` returns it, or the response to this key's first request.

        All members are admitted, or none. Raises what `LeaseCreation.create` raises, about fields below `lease`.
        """
        tenant_id = whose(principal, new.tenant_id)
        snapshot = await self._catalogue.snapshot()
        with about_lease():
            member = check_request(snapshot, tenant_id, new.lease)
        checked = check_group(snapshot, new, member)
        needs = needs_of(principal, tenant_id, checked, members=new.size)
        for _ in range(_TRIES):
            try:
                async with (
                    name_conflicts(),
                    self._context.database.transaction(principal.tenant_id) as connection,
                    repeatable(connection, key, 201) as reply,
                ):
                    if not reply.replayed:
                        reply.row = await _create(connection, principal, new, checked, needs)
                        reply.location = f"/v1/groups/{reply.row.id}"
                    yield reply
            except BudgetsChanged as changed:
                await self._admission.roll_budgets(principal, tenant_id, due=changed.due)
            except NoRoom:
                with about_lease():
                    ttl = new.lease.request.ttl_seconds
                    await self._admission.make_room_or_refuse(principal, needs, ttl, key)
            except NameConflict:
                await self._refuse_name(principal, tenant_id, new, key)
            else:
                return
        raise Conflict(CHANGED_MEANWHILE, retryable=True, headers={"Retry-After": "1"})

    async def _refuse_name(
        self, principal: Principal, tenant_id: TenantId, new: CreateGroup, key: IdempotencyKey | None
    ) -> None:
        """Returns when another try may succeed: what has the name has ended, or is a twin's."""
        async with self._context.database.transaction(principal.tenant_id, read_only=True) as connection:
            if await replay(connection, key) is None:
                await check_names(connection, tenant_id, new)


@asynccontextmanager
async def name_conflicts() -> AsyncIterator[None]:
    """Around a transaction. Raises NameConflict when a live group or lease has a name that it wrote."""
    try:
        yield
    except IntegrityError as error:
        if any(index in str(error.orig) for index in ("ix_lease_group_tenant_id_name", "ix_lease_live_name")):
            raise NameConflict from None
        raise


async def _create(
    connection: AsyncConnection, principal: Principal, new: CreateGroup, checked: CheckedRequest, needs: Needs
) -> Any:
    tenant_id, ttl = needs.tenant_id, new.lease.request.ttl_seconds
    best = checked.best
    with about_lease():
        if checked.refusal is not None or best is None:
            await check_terms(connection, tenant_id, ttl)
            raise checked.refusal or no_offering(checked, operator=principal.is_operator)
        lease = await with_ssh_keys(
            connection, checked.new, tenant_id=tenant_id, key_id=principal.key_id, in_group=True
        )
    await connection.execute(writes.share_tenant(tenant_id))  # its set of budgets then changes in no try
    claims = await reserve(connection, needs)
    with about_lease():
        await check_terms(connection, tenant_id, ttl)
    await check_names(connection, tenant_id, new)
    group_id = GroupId(new_id("group"))
    new = replace(new, lease=lease)
    await connection.execute(writes.add(_group_values(principal, tenant_id, group_id, new)))
    members = _members(principal, group_id, new, needs)
    await connection.execute(
        *insert_members(
            replace(members, claims=claims, estimated_price_per_hour=rate_at(best, lease.request.parts).total)
        )
    )
    queued = GroupQueued(group_id=group_id, name=new.name, size=new.size, min_size=new.min_size)
    await connection.execute(append(tenant_id, NewEvent(queued, principal.request_id)))
    if principal.role in ACCOUNTABLE:
        await _record(connection, principal, tenant_id, group_id, new)
    return await read_group(connection, principal, group_id)


def _members(principal: Principal, group_id: GroupId, new: CreateGroup, needs: Needs) -> NewMembers:
    """All members, without what each claims."""
    lease, request = new.lease, new.lease.request
    return NewMembers(
        tenant_id=needs.tenant_id,
        group_id=group_id,
        names={rank: member_name(new.name, rank) for rank in range(new.size)},
        request=request.as_json(),
        labels=request.labels,
        on_interruption=str(request.on_interruption),
        minimum={resource: str(amount) for resource, amount in needs.minimum.items()},
        claims={},
        minimum_rate=needs.budgets["rate"],
        estimated_price_per_hour=None,
        ttl=timedelta(seconds=request.ttl_seconds),
        wait=timedelta(seconds=request.wait_seconds),
        max_cost=lease.max_cost,
        key_id=principal.key_id,
        expiry_warnings=lease.expiry_warnings,
        startup_script=lease.startup_script,
        request_id=principal.request_id,
    )


async def _record(
    connection: AsyncConnection, principal: Principal, tenant_id: TenantId, group_id: GroupId, new: CreateGroup
) -> None:
    request = new.lease.request
    keys = [describe_ssh_key(ssh_key) for ssh_key in request.ssh_public_keys]
    after = {"name": new.name, "size": new.size, "lease": {**request.as_json(), "ssh_public_keys": keys}}
    await audit.record(connection, principal, "group.create", target=group_id, tenant_id=tenant_id, after=after)


def _group_values(principal: Principal, tenant_id: TenantId, group_id: GroupId, new: CreateGroup) -> dict[str, Any]:
    return {
        "id": group_id,
        "tenant_id": tenant_id,
        "key_id": principal.key_id,
        "name": new.name,
        "size": new.size,
        "min_size": new.min_size,
        "lease": new.lease.request.as_json(),
        "placement": str(new.placement),
        "interconnect": str(new.interconnect),
        "form_seconds": new.form_seconds,
        "on_member_loss": str(new.on_member_loss),
        "state": str(GroupState.QUEUED),
        "wait_until": func.now() + timedelta(seconds=new.lease.request.wait_seconds),
    }


async def check_names(connection: AsyncConnection, tenant_id: TenantId, new: CreateGroup) -> None:
    """Raises NameTaken when a live group has the name, or a live lease that of a member."""
    group_id = (await connection.execute(writes.group_named(tenant_id, new.name))).scalar_one_or_none()
    if group_id is not None:
        detail = f"is taken: the live group {group_id} is named {new.name!r}"
        raise NameTaken(errors=[FieldError("#/body/name", detail)], extra={"group_id": group_id})
    holder = await _first_named(connection, tenant_id, [member_name(new.name, rank) for rank in range(new.size)])
    if holder is not None:
        detail = f"is taken: the live lease {holder.id} is named {holder.name!r}, as a member would be"
        raise NameTaken(errors=[FieldError("#/body/name", detail)], extra={"lease_id": holder.id})


async def check_member_names(connection: AsyncConnection, tenant_id: TenantId, names: Sequence[str]) -> None:
    """Raises Conflict when a live lease has the name of a member to add."""
    holder = await _first_named(connection, tenant_id, names)
    if holder is not None:
        detail = (
            f"The live lease {holder.id} is named {holder.name!r}, as a new member would be: wait until it has ended."
        )
        raise Conflict(detail, extra={"lease_id": holder.id}, retryable=True)


async def _first_named(connection: AsyncConnection, tenant_id: TenantId, names: Sequence[str]) -> Any:
    return (await connection.execute(writes.leases_named(tenant_id, names))).first()
