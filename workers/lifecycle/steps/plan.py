"""The intent, stored before any side effect: the attempt with token and exact parameters, its quota held."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.events.events import NewEvent
from app.db.leases import attempts, launches
from app.db.leases.transitions import NOW, locked
from app.domain import placed
from app.domain import quotas as quota_rules
from app.domain.event_parts import EventOffering
from app.domain.events import AttemptPlanned, LeaseProvisioning
from app.domain.gpus.proofs import awaited
from app.domain.ids import AttemptId, LeaseId
from app.domain.lease_offerings import quote_objection
from app.domain.lease_requests import ProofMode
from app.domain.leases import LeaseState
from app.domain.lifecycle import deadline
from app.domain.money import format_money
from app.domain.offerings import Offering, OfferingKey
from app.domain.rates import Rate, disk_gib_at, list_price, rate_at
from workers.lifecycle.steps.batch_plan import most_together, own_hashes, shared_key
from workers.lifecycle.steps.context import (
    ClaimLostError,
    OwnChange,
    StepContext,
    change_each,
    must_hold,
    reserve_quota,
)
from workers.lifecycle.steps.launch_spec import LaunchDetails, facts, launch_spec
from workers.lifecycle.steps.reservation_slot import ReservationSlot, lease_term, take_slot
from workers.providers.types import Image, LaunchSpec, Params


class DoesNotFitError(Exception):
    """The tenant's quota or a budget does not cover the offering: nothing is stored, try the next."""

    def __init__(self, *, over_budget: bool) -> None:
        super().__init__("over budget" if over_budget else "over quota")
        self.over_budget = over_budget


class DearerThanQuotedError(Exception):
    """The VM would cost more than the lease's quote: nothing is stored, try the next. The message is for the tenant."""


def store_attempts(leases: Sequence[StepContext], offering: Offering, image: Image) -> list[StepContext]:
    """Plans an attempt of each lease, in one transaction. Returns the leases of which one is stored.

    Several leases are alike (`place_together.Alike`), and the offering is no reservation. A lease is left out when its
    startup script differs from that of the first one, or when it is no longer ours or wanted. Raises DoesNotFitError
    when there is no room for all of them, DearerThanQuotedError, NoSlotError, and ClaimLostError when no lease is left.
    """
    first = leases[0]
    offering = first.runtime.accounts.with_image(offering, first.lease.request.image, image)
    for ctx in leases:
        objection = quote_objection(offering, lease_term(ctx))
        if objection is not None:
            raise DearerThanQuotedError(objection)
    rate = rate_at(offering, first.lease.request.parts)
    prices = _price_columns(first, offering, rate)
    with first.runtime.database.begin() as connection:
        slot = _slot(connection, first, offering)
        if len(leases) > 1:
            connection.execute(*locked(ctx.lease.id for ctx in leases))
        specs = _specs(connection, leases, offering, image, slot)
        equal = [ctx for ctx in leases if ctx.lease.id in specs]
        entered = _enter_provisioning(connection, equal, offering, rate, image, slot, specs[first.lease.id])
        if not entered:
            raise ClaimLostError
        _reserve(connection, entered, offering, rate)
        batch_key = _batch_key(first, offering.key, specs[first.lease.id])
        planned = [_planned(ctx, offering.key, specs[ctx.lease.id], batch_key) for ctx in entered]
        hardware = {**_offering_columns(offering, slot), "offering": facts(offering, image)}
        owner = {"tenant_id": first.lease.tenant_id, "n": first.lease.attempts_count + 1}
        connection.execute(*attempts.plan(planned, {**owner, **hardware, **prices, "batch_key": batch_key}))
    return entered


def _slot(connection: Connection, ctx: StepContext, offering: Offering) -> ReservationSlot | None:
    slot = take_slot(connection, ctx, offering)
    if slot is not None or not ctx.runtime.accounts.is_extendable(offering.key.account):
        # the parameters hold the end of the VM: nobody may have extended the lease since it was loaded
        must_hold(connection.execute(*launches.unextended(ctx.lease.id, ctx.lease.expires_at)))
    return slot


def _specs(
    connection: Connection,
    leases: Sequence[StepContext],
    offering: Offering,
    image: Image,
    slot: ReservationSlot | None,
) -> dict[LeaseId, LaunchSpec]:
    """By lease: of the first one, and of those with the same startup script."""
    n = leases[0].lease.attempts_count + 1
    known = {row.lease_id: row for row in connection.execute(*_known(*leases))}
    script = known[leases[0].lease.id].startup_script
    return {
        ctx.lease.id: launch_spec(ctx, offering, image, n, LaunchDetails.of(ctx, known[ctx.lease.id], n, slot))
        for ctx in leases
        if known[ctx.lease.id].startup_script == script
    }


def _reserve(connection: Connection, leases: Sequence[StepContext], offering: Offering, rate: Rate) -> None:
    lease = leases[0].lease
    amounts, ids = quota_rules.amounts(offering, lease.request.parts), [ctx.lease.id for ctx in leases]
    reserved = reserve_quota(connection, lease.tenant_id, ids, amounts, rate=rate.total)
    if not reserved.fits:
        raise DoesNotFitError(over_budget=reserved.over_budget)


def _planned(ctx: StepContext, key: OfferingKey, spec: LaunchSpec, batch_key: str | None) -> attempts.PlannedAttempt:
    hashes = own_hashes(spec)
    return attempts.PlannedAttempt(
        id=AttemptId(new_id("attempt")),
        lease_id=ctx.lease.id,
        token=spec.token,
        params=_params(ctx, key, spec, batch_key),
        params_hash=spec.owner.params_hash,
        host_key_hash=hashes.host_key,
        agent_hash=hashes.agent,
    )


def _offering_columns(offering: Offering, slot: ReservationSlot | None) -> dict[str, Any]:
    return {
        **_place_columns(offering),
        "zone": offering.key.zone,
        "instance_type": offering.key.instance_type,
        "market": str(offering.key.market),
        "reservation": offering.key.reservation,
        "reserved_until": slot.until if slot is not None else None,
    }


def _params(ctx: StepContext, key: OfferingKey, spec: LaunchSpec, batch_key: str | None) -> Params | None:
    """The parameters of the attempt's own create call. None: the attempt is expected to be launched with others.

    The first attempt of a batch key in this process is planned in full, so that the adapter refuses what it cannot launch.
    The others would be planned in vain: the call of a batch has parameters of its own.
    """
    known = ctx.runtime.batch_keys
    if batch_key is not None and known.is_planned(batch_key):
        return None
    params = ctx.runtime.accounts.provider(key.account).plan(spec)
    if batch_key is not None:
        known.planned(batch_key)
    return params


def _batch_key(ctx: StepContext, key: OfferingKey, spec: LaunchSpec) -> str | None:
    """None: the attempt is launched alone."""
    if most_together(ctx.runtime, key) == 1 or ctx.lease.request.volumes:
        return None
    return shared_key(spec, ctx.lease, key.account, ctx.row.lease_key_id)


def planned_spec(connection: Connection, ctx: StepContext, offering: Offering, image: Image) -> LaunchSpec | None:
    """The spec of the newest attempt, which was planned for launch in a batch. None: the spec is not the same any more."""
    spec = _spec_now(ctx, offering, image, connection.execute(*_known(ctx)).one())
    return spec if _batch_key(ctx, offering.key, spec) == ctx.row.attempt_batch_key else None


def params_alone(ctx: StepContext, offering: Offering, image: Image) -> Params:
    """The parameters of the own create call of the newest attempt. Raises ProviderError when the adapter refuses them."""
    spec = _spec_now(ctx, offering, image, ctx.runtime.database.all(_known(ctx))[0])
    return ctx.provider.plan(spec)


def _known(*leases: StepContext) -> Bound[AnySelect]:
    return launches.private(ctx.lease.id for ctx in leases)


def _spec_now(ctx: StepContext, offering: Offering, image: Image, known: Any) -> LaunchSpec:
    offering = ctx.runtime.accounts.with_image(offering, ctx.lease.request.image, image)
    return launch_spec(ctx, offering, image, ctx.attempt.n, LaunchDetails.of(ctx, known, ctx.attempt.n))


def _enter_provisioning(
    connection: Connection,
    leases: Sequence[StepContext],
    offering: Offering,
    rate: Rate,
    image: Image,
    slot: ReservationSlot | None,
    spec: LaunchSpec,
) -> list[StepContext]:
    """The leases whose guards held."""
    lease, n = leases[0].lease, leases[0].lease.attempts_count + 1
    at = _where(offering)
    event = EventOffering(**at, price_per_hour=format_money(rate.total))
    planned = (LeaseProvisioning if lease.state is LeaseState.QUEUED else AttemptPlanned)(n=n, offering=event)
    awaits_proof = spec.agent is not None and lease.request.proof is not ProofMode.OFF
    values = {
        "attempts_count": n,
        "first_attempt_at": launches.FIRST_ATTEMPT_AT,
        "pass_started_at": lease.pass_started_at or NOW,
        "reason": None,
        "placement": _placement(leases[0], offering, rate, image, slot),
        "estimated_price_per_hour": rate.total,
        "launched_at": None,
        **_place_columns(offering),
        "gpu_model": offering.type.gpu.model,
        "gpu_count": offering.type.gpu.count,
        "slot_bucket": None,
        "slot_at": None,
        "ssh_host_keys": None,
        "proof": awaited(n).as_json() if awaits_proof else None,
        "gpu_health": None,
        "group_check": None,
    }
    where, bindings = _still_in_pool(leases[0])
    changes = [
        OwnChange(ctx, NewEvent(planned), {"deadline_applied": deadline(ctx.lease, ctx.runtime.timing)})
        for ctx in leases
    ]
    to = LeaseState.PROVISIONING if lease.state is LeaseState.QUEUED else None
    return change_each(connection, changes, to=to, where=where, bindings=bindings, values=values)


def _placement(
    ctx: StepContext, offering: Offering, rate: Rate, image: Image, slot: ReservationSlot | None
) -> dict[str, Any]:
    extendable = ctx.runtime.accounts.is_extendable(offering.key.account)
    chosen = facts(offering, image)
    placement = placed.placement(_where(offering), chosen, rate, None, extendable=extendable)
    return placement | (slot.placement() if slot is not None else {})


def _still_in_pool(ctx: StepContext) -> tuple[list[ColumnElement[bool]], dict[str, Any]]:
    """Guards that still find a member of a group placed in the same pool, and their parameters."""
    membership = ctx.lease.membership
    if membership is None or membership.pool is None:
        return [], {}
    return [launches.STILL_IN_POOL], {"pool": membership.pool.as_json()}


def _price_columns(ctx: StepContext, offering: Offering, rate: Rate) -> dict[str, Any]:
    """What the VM costs an hour by its parts, and what the same machine costs on demand."""
    return {
        "price_per_hour": rate.compute,
        "price_source": offering.price_source,
        "price_as_of": offering.price_as_of,
        "list_price_per_hour": list_price(offering, ctx.runtime.catalogue.offerings()),
        "disk_gib": disk_gib_at(offering, ctx.lease.request.parts),
        "disk_price_per_hour": rate.disk,
        "address_price_per_hour": rate.address,
    }


def _place_columns(offering: Offering) -> dict[str, Any]:
    return {"provider": offering.provider, "account": offering.key.account, "region": offering.key.region}


def _where(offering: Offering) -> dict[str, Any]:
    return {
        **_place_columns(offering),
        "zone": offering.key.zone,
        "instance_type": offering.key.instance_type,
        "market": str(offering.key.market),
        "reservation": offering.key.reservation,
    }
