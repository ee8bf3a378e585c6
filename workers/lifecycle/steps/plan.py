"""T2: the intent, stored before any side effect: the attempt with token and exact parameters, its quota held."""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.events.events import NewEvent
from app.db.leases import attempts, launches
from app.db.leases.transitions import NOW
from app.domain import placed
from app.domain import quotas as quota_rules
from app.domain.billing import SECONDS_PER_HOUR
from app.domain.event_parts import EventOffering
from app.domain.events import AttemptPlanned, LeaseProvisioning
from app.domain.ids import AttemptId
from app.domain.lease_requests import BenchmarkWish, ProofWish
from app.domain.leases import LeaseState
from app.domain.lifecycle import deadline
from app.domain.money import format_money
from app.domain.offerings import Offering, OfferingKey
from app.domain.proofs import ProofRecord, awaited
from app.domain.rates import list_price, rate_at
from app.domain.tags import OwnerTags
from app.domain.tokens import agent_token, host_key_token, launch_token, params_hash
from workers.lifecycle.steps.batch_plan import most_together, own_hashes, shared_key
from workers.lifecycle.steps.context import StepContext, change, must_hold, reserve_quota
from workers.lifecycle.steps.group_spec import group_spec
from workers.lifecycle.steps.reservation_slot import ReservationSlot, take_slot
from workers.providers.types import AgentConfig, GroupSpec, HostKeyReport, Image, LaunchSpec, Params


class DoesNotFitError(Exception):
    """The tenant's quota or a budget does not cover the offering: nothing is stored, try the next."""

    def __init__(self, *, over_budget: bool) -> None:
        super().__init__("over budget" if over_budget else "over quota")
        self.over_budget = over_budget


def store_attempt(ctx: StepContext, offering: Offering, image: Image) -> None:
    """One transaction. Raises DoesNotFitError, NoSlotError, or ClaimLostError when the lease is no longer ours or wanted."""
    prices = _price_columns(ctx, offering, image)
    with ctx.runtime.database.begin() as connection:
        slot = take_slot(connection, ctx, offering)
        if slot is not None or not ctx.runtime.accounts.is_extendable(offering.key.account):
            # the parameters hold the end of the VM: nobody may have extended the lease since it was loaded
            must_hold(connection.execute(*launches.unextended(ctx.lease.id, ctx.lease.expires_at)))
        known = connection.execute(*launches.private(ctx.lease.id, ctx.lease.tenant_id)).one()
        n = ctx.lease.attempts_count + 1
        private = _Private(known.startup_script, known.max_total_seconds, group_spec(ctx, known, n), slot)
        spec = _spec(ctx, offering, image, n, private)
        batch_key = _batch_key(ctx, offering.key, spec)
        params = _params(ctx, offering.key, spec, batch_key)
        attempt_id = AttemptId(new_id("attempt"))
        awaits_proof = spec.agent is not None and ctx.lease.request.proof is not ProofWish.OFF
        _enter_provisioning(connection, ctx, offering, image, slot, awaited(n) if awaits_proof else None)
        rate = rate_at(offering, disk_gib=ctx.lease.request.disk_gib, public_ip=ctx.lease.request.public_ip).total
        amounts = quota_rules.amounts(offering)
        reserved = reserve_quota(connection, ctx.lease.tenant_id, ctx.lease.id, amounts, rate=rate)
        if not reserved.fits:
            raise DoesNotFitError(over_budget=reserved.over_budget)
        sent = {"token": spec.token, "params": params, "params_hash": spec.owner.params_hash}
        shared = {"batch_key": batch_key}
        hashes = own_hashes(spec)
        reported = {"host_key_hash": hashes.host_key, "agent_hash": hashes.agent}
        owner = {"id": attempt_id, "lease_id": ctx.lease.id, "tenant_id": ctx.lease.tenant_id, "n": n}
        hardware = {**_offering_columns(offering, slot), "offering": _facts(offering, image)}
        connection.execute(*attempts.plan({**owner, **hardware, **prices, **sent, **shared, **reported}))


def _offering_columns(offering: Offering, slot: "ReservationSlot | None") -> dict[str, Any]:
    return {
        **_place_columns(offering),
        "zone": offering.key.zone,
        "instance_type": offering.key.instance_type,
        "market": str(offering.key.market),
        "reservation": offering.key.reservation,
        "reserved_until": slot.until if slot is not None else None,
    }


class _Private(NamedTuple):
    """What only a launch needs to know: the tenant's script, the seconds that a lease may last at most, its group and its slot."""

    script: str | None
    longest: int
    group: GroupSpec | None = None
    slot: ReservationSlot | None = None


def _spec(ctx: StepContext, offering: Offering, image: Image, n: int, private: _Private) -> LaunchSpec:
    """The spec of a launch. The tagged hash is over what the tenant chose and where, without the tags."""
    lease, runtime, request = ctx.lease, ctx.runtime, ctx.lease.request
    chosen = {"request": request.as_stored(), "script": private.script}
    basis = {**chosen, "offering": _facts(offering, image), "zone": offering.key.zone}
    owner = OwnerTags(
        installation=runtime.installation.id,
        lease_id=lease.id,
        n=n,
        tenant_id=lease.tenant_id,
        params_hash=params_hash(basis),
        deadline_at=deadline(lease, runtime.timing),
    )
    return LaunchSpec(
        token=launch_token(runtime.installation.token_key, runtime.installation.id, lease.id, n),
        owner=owner,
        name=ctx.row.lease_name,
        region=offering.key.region,
        zone=offering.key.zone,
        instance_type=offering.key.instance_type,
        market=offering.key.market,
        image=image,
        disk_gib=request.disk_gib,
        public_ip=request.public_ip,
        ssh_public_keys=request.ssh_public_keys,
        startup_script=private.script,
        labels=ctx.row.lease_labels,
        allowed_cidrs=request.allowed_cidrs or (),
        ssh_port=runtime.accounts.ssh_port(offering.key.account),
        host_keys=_host_keys(ctx, n),
        agent=_agent(ctx, n),
        max_seconds=_longest_run(ctx, offering, private) + int(runtime.timing.deadline_grace),
        reservation=offering.key.reservation,
        queue_seconds=_queue_seconds(ctx, private.slot),
        group=private.group,
    )


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
    return shared_key(spec, ctx.lease, key.account) if most_together(ctx.runtime, key) > 1 else None


def planned_spec(connection: Connection, ctx: StepContext, offering: Offering, image: Image) -> LaunchSpec | None:
    """The spec of the newest attempt, which was planned for launch in a batch. None: the spec is not the same any more."""
    spec = _spec_now(ctx, offering, image, connection.execute(*_known(ctx)).one())
    return spec if _batch_key(ctx, offering.key, spec) == ctx.row.attempt_batch_key else None


def params_alone(ctx: StepContext, offering: Offering, image: Image) -> Params:
    """The parameters of the own create call of the newest attempt. Raises ProviderError when the adapter refuses them."""
    spec = _spec_now(ctx, offering, image, ctx.runtime.database.all(_known(ctx))[0])
    return ctx.provider.plan(spec)


def _known(ctx: StepContext) -> Bound[Select[Any]]:
    return launches.private(ctx.lease.id, ctx.lease.tenant_id)


def _spec_now(ctx: StepContext, offering: Offering, image: Image, known: Any) -> LaunchSpec:
    private = _Private(known.startup_script, known.max_total_seconds, group_spec(ctx, known, ctx.attempt.n))
    return _spec(ctx, offering, image, ctx.attempt.n, private)


def _queue_seconds(ctx: StepContext, slot: ReservationSlot | None) -> int | None:
    """Seconds that the launch may wait in the provider's queue: what is left of the lease's wait, and the least allowed."""
    if slot is None or slot.reservation.shortest_wait is None:
        return None
    return max(slot.reservation.shortest_wait, int((ctx.lease.wait_until - ctx.now).total_seconds()))


def _longest_run(ctx: StepContext, offering: Offering, private: _Private) -> int:
    """Seconds that the VM may be needed: of all extensions together, or of the present term where there are none.

    No extension passes the end of a reservation. Where nobody can extend the term, the spend cap limits it too.
    """
    if ctx.runtime.accounts.is_extendable(offering.key.account):
        until = private.slot.until if private.slot is not None else None
        reserved = private.longest if until is None else int((until - ctx.now).total_seconds())
        return min(private.longest, reserved)
    term = max(0, int((ctx.lease.expires_at - ctx.now).total_seconds()))
    rate = rate_at(offering, disk_gib=ctx.lease.request.disk_gib, public_ip=ctx.lease.request.public_ip).total
    if ctx.lease.spendable is None or not rate:
        return term
    return min(term, int(ctx.lease.spendable * SECONDS_PER_HOUR / rate))


def _host_keys(ctx: StepContext, n: int) -> HostKeyReport | None:
    url, installation = ctx.runtime.settings.public_url, ctx.runtime.installation
    if url is None:
        return None
    token = host_key_token(installation.token_key, installation.id, ctx.lease.id, n)
    return HostKeyReport(url=f"{url}/v1/host-keys", token=token)


def _agent(ctx: StepContext, n: int) -> AgentConfig | None:
    settings, installation, request = ctx.runtime.settings, ctx.runtime.installation, ctx.lease.request
    wanted = request.wants_agent or ctx.lease.idle_floor is not None
    if settings.agent == "off" or not wanted:
        return None
    return AgentConfig(
        token=agent_token(installation.token_key, installation.id, ctx.lease.id, n),
        url=settings.public_url,
        benchmark=request.benchmark is not BenchmarkWish.OFF,
        sample_seconds=settings.sample_seconds,
    )


def _enter_provisioning(
    connection: Connection,
    ctx: StepContext,
    offering: Offering,
    image: Image,
    slot: ReservationSlot | None,
    proof: ProofRecord | None,
) -> None:
    queued = ctx.lease.state is LeaseState.QUEUED
    extendable = ctx.runtime.accounts.is_extendable(offering.key.account)
    at, price = _where(offering), offering.price_per_hour
    assert price is not None  # placement leaves out what has no price
    placement = placed.placement(at, _facts(offering, image), price, None, extendable=extendable)
    planned = LeaseProvisioning if queued else AttemptPlanned
    event = NewEvent(
        planned(n=ctx.lease.attempts_count + 1, offering=EventOffering(**at, price_per_hour=format_money(price)))
    )
    values = {
        "attempts_count": ctx.lease.attempts_count + 1,
        "first_attempt_at": launches.FIRST_ATTEMPT_AT,
        "pass_started_at": ctx.lease.pass_started_at or NOW,
        "reason": None,
        "placement": placement | (slot.placement() if slot is not None else {}),
        "launched_at": None,
        **_place_columns(offering),
        "gpu_model": offering.type.gpu.model,
        "gpu_count": offering.type.gpu.count,
        "slot_bucket": None,
        "slot_at": None,
        "ssh_host_keys": None,
        "proof": None if proof is None else proof.as_json(),
        "gpu_health": None,
        "deadline_applied": deadline(ctx.lease, ctx.runtime.timing),
    }
    to = LeaseState.PROVISIONING if queued else None
    where, given = _still_in_pool(ctx)
    change(connection, ctx, event, to=to, wanted=True, where=where, given=given, values=values)


def _still_in_pool(ctx: StepContext) -> tuple[list[ColumnElement[bool]], dict[str, Any]]:
    """Guards that still find a member of a group placed in the same pool, and their parameters."""
    membership = ctx.lease.membership
    if membership is None or membership.pool is None:
        return [], {}
    return [launches.STILL_IN_POOL], {"pool": membership.pool.as_json()}


def _price_columns(ctx: StepContext, offering: Offering, image: Image) -> dict[str, Any]:
    """What the VM costs an hour by its parts, and what the same machine costs on demand."""
    disk_gib = ctx.runtime.accounts.disk_gib(offering.key.account, ctx.lease.request.disk_gib, image)
    public_ip = ctx.runtime.accounts.has_public_address(offering.key.account, requested=ctx.lease.request.public_ip)
    rate = rate_at(offering, disk_gib=disk_gib, public_ip=public_ip)
    return {
        "price_per_hour": rate.compute,
        "price_source": offering.price_source,
        "price_as_of": offering.price_as_of,
        "list_price_per_hour": list_price(offering, ctx.runtime.catalogue.offerings()),
        "disk_gib": disk_gib,
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


def _facts(offering: Offering, image: Image) -> dict[str, Any]:
    known = {"id": image.id, "name": image.name, "driver_version": image.driver_version}
    return placed.hardware(offering.type, known)
