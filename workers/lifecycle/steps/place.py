"""Choosing the next offering: each candidate once a pass, until one can be planned or none is left."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn

from sqlalchemy import Row

from app.db.events.events import NewEvent
from app.db.fleet import offering_stats
from app.db.leases import attempts, launches
from app.domain.cool_off import CoolOffReason, after_problem
from app.domain.leases import LeaseState
from app.domain.lifecycle import Rest
from app.domain.offerings import Offering, OfferingKey
from app.domain.placement import Requirements, much_dearer
from app.domain.placement_failure import AUTH, NO_ANSWER, could_not_ask, not_listed, why_exhausted
from app.domain.reasons import Origin, Reason, ReasonCode
from workers.accounts import error_json
from workers.lifecycle.bulkheads import CrowdedError
from workers.lifecycle.steps.context import StepContext, change
from workers.lifecycle.steps.end import begin_release
from workers.lifecycle.steps.plan import DoesNotFitError, store_attempt
from workers.providers.errors import (
    CredentialsRejected,
    ImageMissing,
    InvalidSpec,
    NotOffered,
    OutcomeUnknown,
    ProviderError,
    Throttled,
    Unreachable,
)
from workers.providers.types import Image

_STOPPED_PAUSE = timedelta(seconds=5)
_RETRY_PAUSE = timedelta(seconds=2)
_LONGEST_RETRY_PAUSE = timedelta(seconds=10)
_UNLISTED_PAUSE = timedelta(seconds=0.5)
_UNLISTED_SHARE = 0.1
_SHOWN_AFTER = timedelta(seconds=5)
"""A process waits so long for the first listing of a region before leases say so: usually it takes a second or two."""
_LOOK_AGAIN = timedelta(seconds=30)
_PROBLEM_COOL_OFF = 60.0
_PATIENCE = timedelta(seconds=60)
"""So long even a lease that waits for no capacity waits for its accounts to be listed and in reach, and takes nothing much dearer."""


class _NotReadyError(Exception):
    """The account or region may not be used just now: others are tried, and this one again after `pause`."""

    def __init__(self, pause: timedelta, reason: Reason) -> None:
        super().__init__()
        self.pause = pause
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _NotReady:
    """An account and region that cannot be used: its best candidate, when to ask again, and why."""

    offering: Offering
    pause: timedelta
    reason: Reason

    @property
    def awaits_inventory(self) -> bool:
        """Nobody has tried to list it: the fault is neither the cloud's nor the request's."""
        return self.reason.code is ReasonCode.REGION_NOT_LISTED and self.reason.origin is Origin.SYSTEM


@dataclass(slots=True)
class _Pass:
    """One pass over the candidates: which were tried in it, why others were not, and whether it is the lease's first."""

    tried: dict[OfferingKey, dict[str, Any] | None]
    first: bool
    over_quota: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    not_ready: dict[tuple[str, str], _NotReady] = field(default_factory=dict)
    """By account and region. They stay so for the whole pass: one that gets ready during it would be left with its dearer
    offerings."""

    def ask_again(self, offering: Offering, pause: timedelta, reason: Reason) -> None:
        """Its account and region are not ready."""
        self.not_ready[_place(offering)] = _NotReady(offering=offering, pause=pause, reason=reason)


def place(ctx: StepContext) -> Rest | None:
    """Plans the next attempt. Without any candidate left the lease waits in the queue or begins to end."""
    if ctx.row.launches_stopped is not None:
        return Rest(ctx.now + _STOPPED_PAUSE)
    this_pass = _read_pass(ctx)
    ranking = ctx.runtime.catalogue.ranking(Requirements.of(ctx.lease.request), ctx.now)
    patient_until = ctx.lease.looking_since + _PATIENCE
    for offering in _untried(ctx, this_pass, ranking.candidates):
        if ctx.runtime.stopping.is_set():
            return Rest(ctx.now)
        if ctx.now < patient_until and much_dearer(
            offering, (better.offering for better in this_pass.not_ready.values())
        ):
            continue
        outcome = _plan_at(ctx, offering, this_pass)
        if outcome is not _NEXT:
            return outcome
    not_ready = list(this_pass.not_ready.values())
    if any(one.awaits_inventory for one in not_ready):
        return _await_listing(ctx, not_ready, patient=ctx.now < patient_until)
    if not_ready and ctx.now < max(ctx.lease.wait_until, patient_until):
        _show_unlisted(ctx, not_ready)
        return Rest(ctx.now + min(one.pause for one in not_ready))
    errors = [*this_pass.errors, *(error for error in this_pass.tried.values() if error is not None)]
    reason = why_exhausted(ranking, errors, this_pass.over_quota, [one.reason for one in not_ready])
    return _wait_or_give_up(ctx, ranking.candidates, reason)


_NEXT = Rest(None)
"""Outcome of an offering that could not be planned: go on with the next one."""


def _read_pass(ctx: StepContext) -> _Pass:
    lease = ctx.lease
    if lease.pass_started_at is None:
        return _Pass(tried={}, first=lease.attempts_count == 0)
    rows = ctx.runtime.database.all(attempts.tried_since(lease.id, lease.pass_started_at))
    tried = {_key(row): row.error for row in rows}
    return _Pass(tried=tried, first=lease.attempts_count == len(rows))


def _key(row: Row[Any]) -> OfferingKey:
    return OfferingKey(
        account=row.account, region=row.region, zone=row.zone, instance_type=row.instance_type, market=row.market
    )


def _untried(ctx: StepContext, this_pass: _Pass, candidates: tuple[Offering, ...]) -> Iterator[Offering]:
    """Each candidate once a pass. Offerings in cool-off are tried last, and only in the first pass."""
    for offering in candidates:
        if offering.key in this_pass.tried or (offering.cooling(ctx.now) and not this_pass.first):
            continue
        if _place(offering) not in this_pass.not_ready:
            yield offering


def _place(offering: Offering) -> tuple[str, str]:
    return offering.key.account, offering.key.region


def _plan_at(ctx: StepContext, offering: Offering, this_pass: _Pass) -> Rest | None:
    try:
        return _plan(ctx, offering)
    except DoesNotFitError:
        this_pass.over_quota += 1
    except _NotReadyError as error:
        this_pass.ask_again(offering, error.pause, error.reason)
    except CrowdedError as error:
        if not error.slow:
            return Rest(ctx.now + timedelta(seconds=error.pause))
        this_pass.ask_again(offering, timedelta(seconds=error.pause), NO_ANSWER)
    except (InvalidSpec, NotOffered, OutcomeUnknown, Unreachable) as error:
        this_pass.errors.append(dict(error_json(error)))
    return _NEXT


def _plan(ctx: StepContext, offering: Offering) -> Rest | None:
    with ctx.runtime.bulkheads.inside(offering.key.account):
        _require_trust(ctx, offering)
        wait = _launch_slot(ctx, offering)
        if wait is not None:
            return wait
        image = _image(ctx, offering)
    if not isinstance(image, Image):
        return image
    store_attempt(ctx, offering, image)
    return None


def _require_trust(ctx: StepContext, offering: Offering) -> None:
    """Nothing is launched where this process has not seen, since its start, who it is and what runs there already."""
    runtime, key = ctx.runtime, offering.key
    try:
        runtime.accounts.require_identity(key.account)
    except CredentialsRejected as error:
        runtime.catalogue.forget()
        raise _NotReadyError(_RETRY_PAUSE, AUTH) from error
    except (OutcomeUnknown, Unreachable) as error:
        _out_of_reach(ctx, offering, error)
    except ProviderError as error:
        raise _NotReadyError(_RETRY_PAUSE, could_not_ask(error.code)) from error
    if not runtime.first_listings.done(key.account, key.region):
        failed = runtime.first_listings.failed(key.account, key.region)
        raise _NotReadyError(_UNLISTED_PAUSE, not_listed(offering.provider, key.region, failed=failed))


def _out_of_reach(ctx: StepContext, offering: Offering, error: ProviderError) -> NoReturn:
    """The cloud may be back soon, the less so the longer it is away; after a while it is set aside, and the error told."""
    runtime, key = ctx.runtime, offering.key
    away = timedelta(seconds=runtime.accounts.out_of_reach(key.account))
    if away < timedelta(seconds=runtime.settings.unreachable_seconds):
        raise _NotReadyError(min(_LONGEST_RETRY_PAUSE, max(_RETRY_PAUSE, away / 2)), NO_ANSWER) from error
    if not offering.cooling(ctx.now):
        _set_aside(ctx, key, CoolOffReason.PROVIDER_ERROR, error)
    raise error


def _set_aside(ctx: StepContext, key: OfferingKey, reason: CoolOffReason, error: ProviderError) -> None:
    pause = after_problem(reason, _PROBLEM_COOL_OFF)
    ctx.runtime.database.run(offering_stats.cool_off(key, pause, code=error.code))
    ctx.runtime.catalogue.forget()


def _launch_slot(ctx: StepContext, offering: Offering) -> Rest | None:
    """Waits for the provider's request rate before anything is planned: None when the launch may go ahead."""
    runtime = ctx.runtime
    bucket = runtime.pacer.bucket(offering.key.account, offering.key.region, "launch")
    slot: datetime | None = ctx.row.lease_slot_at
    if ctx.row.lease_slot_bucket != bucket:
        slot = runtime.pacer.slot(runtime.accounts.provider(offering.key.account), bucket)
        if slot is not None and slot > ctx.now:
            traded = runtime.database.first(launches.trade_slot(ctx.lease.tenant_id, bucket, slot))
            slot = slot if traded is None else traded.slot_at
            runtime.database.run(launches.reserve_slot(ctx.lease.id, ctx.claim_id, bucket, slot))
    return Rest(slot) if slot is not None and slot > ctx.now else None


def _image(ctx: StepContext, offering: Offering) -> Image | Rest | None:
    """What is wrong with an image of a name sets nothing aside: leases that ask for another one go on there."""
    runtime, key, wanted = ctx.runtime, offering.key, ctx.lease.request.image
    try:
        return runtime.accounts.image(key.account, key.region, wanted)
    except (OutcomeUnknown, Unreachable) as error:
        _out_of_reach(ctx, offering, error)
    except Throttled:
        return Rest(ctx.now + _RETRY_PAUSE)
    except CredentialsRejected as error:
        runtime.accounts.set_aside(key.account, error)
        runtime.catalogue.forget()
        return None
    except InvalidSpec as error:
        if wanted is None:
            _set_aside(ctx, key, CoolOffReason.IMAGE_MISSING, error)
        raise ImageMissing(error.message, code=error.code) from error
    except ProviderError as error:
        _set_aside(ctx, key, CoolOffReason.PROVIDER_ERROR, error)
    return _NEXT


def _await_listing(ctx: StepContext, not_ready: Sequence[_NotReady], *, patient: bool) -> Rest:
    """A lease does not fail because the inventory is away, however short it waits for capacity: its owner sees why it waits.

    A lease with `wait_seconds` of 0 still ends with a VM or with the clouds' own answers.
    """
    if ctx.lease.state is LeaseState.PROVISIONING and not patient:
        _back_to_queue(ctx, next(one.reason for one in not_ready if one.awaits_inventory))
    else:
        _show_unlisted(ctx, not_ready)
    waited = ctx.now - ctx.runtime.first_listings.started_at
    pause = max(min(one.pause for one in not_ready), _UNLISTED_SHARE * waited)
    return Rest(ctx.now + min(_LONGEST_RETRY_PAUSE, pause))


def _show_unlisted(ctx: StepContext, not_ready: Sequence[_NotReady]) -> None:
    """A queued lease without a reason gets one, unless this process has only just started."""
    unlisted = next((one.reason for one in not_ready if one.reason.code is ReasonCode.REGION_NOT_LISTED), None)
    is_new = ctx.now - ctx.runtime.first_listings.started_at < _SHOWN_AFTER
    if unlisted is not None and not is_new and ctx.lease.state is LeaseState.QUEUED and ctx.lease.reason is None:
        _back_to_queue(ctx, unlisted)


def _wait_or_give_up(ctx: StepContext, candidates: tuple[Offering, ...], reason: Reason) -> Rest | None:
    if ctx.now >= ctx.lease.wait_until:
        begin_release(ctx, reason)
        return None
    outdated = ctx.lease.reason is None or ctx.lease.reason.code is ReasonCode.REGION_NOT_LISTED
    if ctx.lease.state is LeaseState.PROVISIONING or outdated:
        _back_to_queue(ctx, reason)
    ends = [o.cool_off.until for o in candidates if o.cool_off is not None and o.cooling(ctx.now)]
    return Rest(min([*ends, ctx.lease.wait_until, ctx.now + _LOOK_AGAIN]))


def _back_to_queue(ctx: StepContext, reason: Reason) -> None:
    to = LeaseState.QUEUED if ctx.lease.state is LeaseState.PROVISIONING else None
    event = NewEvent(type="lease.queued", data={"reason": reason.as_json()})
    values = {"reason": reason.as_stored(), "pass_started_at": None, "placement": None}
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=to, wanted=True, values=values)
