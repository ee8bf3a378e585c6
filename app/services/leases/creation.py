"""POST /v1/leases: lease, secret, first event, idempotency record, quota and claims in one transaction.

Quota comes last. All leases of a tenant wait for its row, so the lock is held for one statement and the commit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import asyncpg
import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.engine import fetch
from app.db.core.ids import new_id
from app.db.leases import reads, statements
from app.domain.events import LeaseQueued
from app.domain.ids import LeaseId, TenantId
from app.domain.rates import Rate, rate_at
from app.domain.ssh_keys import describe as describe_ssh_key
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.errors import (
    Conflict,
    FieldError,
    NameTaken,
)
from app.services.idempotency import IdempotencyKey, Reply, repeatable, replay
from app.services.leases.admission import (
    CHANGED_MEANWHILE,
    Admission,
    BudgetsChanged,
    Needs,
    NoRoom,
    admit_lease,
    check_terms,
    needs_of,
)
from app.services.leases.refusals import no_offering
from app.services.leases.requests import CreateLease
from app.services.leases.ssh_keys import with_ssh_keys
from app.services.leases.volumes import claim_volumes, find_volumes, with_volume_place
from app.services.offering_cache import OfferingCache
from app.services.ops.audit import record_lease
from app.services.principal import Principal, Role
from app.services.request_checks import CheckedRequest, check_request

_TRIES = 5
_ACCOUNTABLE = frozenset({Role.ADMIN, Role.OPERATOR})
"""Roles whose creations are in the audit trail. Members are mostly programs; the events of a lease record those."""


class _NameInUse(Exception):
    """A live lease of the tenant has the name. The transaction rolls back, and the caller finds that lease."""


class LeaseCreation:
    """Admits leases."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._context = context
        self._catalogue = catalogue
        self._admission = Admission(context)

    async def create(
        self,
        principal: Principal,
        new: CreateLease,
        key: IdempotencyKey | None,
        render: Callable[[Any], bytes],
    ) -> Reply:
        """The lease in `queued`, which `render` writes from a row of reads.CREATE, or the response to this key's first request.

        Raises TenantSuspended, TermExceeded, NameTaken, NoOffering, VolumeInUse, QuotaExceeded, BudgetExceeded, an error of
        `check_request`, and what `repeatable` raises.
        """
        tenant_id = whose(principal, new.tenant_id)
        new.check_differences()
        new = await with_volume_place(self._context.database, new, tenant_id=tenant_id, within=principal.tenant_id)
        checked = check_request(await self._catalogue.snapshot(), tenant_id, new)
        needs = needs_of(principal, tenant_id, checked)
        for _ in range(_TRIES):
            lease_id = LeaseId(new_id("lease"))
            try:
                reply = await self._try(_Work(principal, checked, needs, lease_id), key, render)
            except BudgetsChanged as changed:
                await self._admission.roll_budgets(principal, tenant_id, due=changed.due)
            except NoRoom:
                await self._admission.make_room_or_refuse(principal, needs, new.request.ttl_seconds, key)
            except (_NameInUse, asyncpg.UniqueViolationError):
                await self._refuse_name(principal, tenant_id, new.request.name, key)
            else:
                if not reply.replayed:
                    self._context.hints.wake(lease_id)
                return reply
        raise Conflict(CHANGED_MEANWHILE, retryable=True, headers={"Retry-After": "1"})

    async def _try(self, work: "_Work", key: IdempotencyKey | None, render: Callable[[Any], bytes]) -> Reply:
        async with self._context.database.transaction(work.principal.tenant_id) as connection:
            async with repeatable(connection, key, 201) as reply:
                if not reply.replayed:
                    reply.content = render(await work.create(connection))
                    reply.location = f"/v1/leases/{work.lease_id}"
            if not reply.replayed:
                await admit_lease(connection, work.needs, work.lease_id)
        return reply

    async def _refuse_name(
        self, principal: Principal, tenant_id: TenantId, name: str | None, key: IdempotencyKey | None
    ) -> None:
        """Returns when another try may succeed: the lease with the name has ended, or is a twin's, or it was generated."""
        async with self._context.database.transaction(principal.tenant_id, read_only=True) as connection:
            if await replay(connection, key) is None:
                await check_name(connection, tenant_id, name)


@dataclass(frozen=True, slots=True)
class _Work:
    """What one try writes, without its quota."""

    principal: Principal
    checked: CheckedRequest
    needs: Needs
    lease_id: LeaseId

    async def create(self, connection: AsyncConnection) -> Any:
        checked, tenant_id, new = self.checked, self.needs.tenant_id, self.checked.new
        new.check_quote()
        if new.request.volumes and new.volume_place is None:
            await find_volumes(connection, new, tenant_id=tenant_id)
        if checked.refusal is not None or checked.best is None:
            await check_terms(connection, tenant_id, new.request.ttl_seconds)
            raise checked.refusal or no_offering(checked, operator=self.principal.is_operator)
        new = await with_ssh_keys(connection, new, tenant_id=tenant_id, key_id=self.principal.key_id)
        values = self._values(new, rate_at(checked.best, new.request.parts))
        rows = await fetch(connection, reads.CREATE, values)
        if not rows:
            await check_terms(connection, tenant_id, new.request.ttl_seconds)
            raise _NameInUse
        await claim_volumes(connection, new, self.lease_id, tenant_id=tenant_id)
        row = SimpleNamespace(**rows[0])
        if self.principal.role in _ACCOUNTABLE:
            keys = [describe_ssh_key(key) for key in new.request.ssh_public_keys]
            request = {**new.request.as_json(), "ssh_public_keys": keys}
            after = {"name": values["name"], "request": request, "expires_at": row.expires_at}
            await record_lease(connection, self.principal, "lease.create", row, after=after)
        return row

    def _values(self, new: CreateLease, rate: Rate) -> dict[str, Any]:
        name = new.request.name or f"lease-{self.lease_id[-8:]}"
        return {
            "lease_id": self.lease_id,
            "tenant_id": self.needs.tenant_id,
            "name": name,
            "labels": _text(new.request.labels),
            "request": _text(replace(new.request, name=name).as_json()),
            "estimated_price_per_hour": rate.total,
            "minimum_rate": self.needs.budgets["rate"],
            "max_rate": new.max_rate,
            "max_cost": new.max_cost,
            "key_id": self.principal.key_id,
            "volume_place": None if new.volume_place is None else _text(new.volume_place.as_json()),
            "quote_id": None if new.quote is None else new.quote.id,
            "expiry_warnings": None if new.expiry_warnings is None else _text(list(new.expiry_warnings)),
            "on_interruption": str(new.request.on_interruption),
            "minimum_claim": _text({resource: str(amount) for resource, amount in self.needs.minimum.items()}),
            "ttl_seconds": new.request.ttl_seconds,
            "ttl": timedelta(seconds=new.request.ttl_seconds),
            "wait": timedelta(seconds=new.request.wait_seconds),
            "startup_script": new.startup_script,
            "event_id": new_id("event"),
            "event_data": _text(LeaseQueued(name=name, reason=None).as_json()),
            "request_id": self.principal.request_id,
        }


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


async def check_name(
    connection: AsyncConnection, tenant_id: TenantId, name: str | None, *, besides: str | None = None
) -> None:
    """Raises NameTaken when a live lease of the tenant other than `besides` has the name."""
    if name is None:
        return
    result = await connection.execute(statements.NAMED_LIVE, {"tenant_id": tenant_id, "name": name, "besides": besides})
    holder = result.scalar_one_or_none()
    if holder is not None:
        raise name_taken(name, holder)


def name_taken(name: str, lease_id: str | None) -> NameTaken:
    """The refusal of a lease's name. `lease_id`: the live lease that has it."""
    detail = f"is taken: the live lease {lease_id} is named {name!r}"
    return NameTaken(errors=[FieldError("#/body/name", detail)], extra={"lease_id": lease_id})
