"""Choosing the next offering: a pass tries each candidate once, until one can be planned or none is left."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.db.events.events import NewEvent
from app.db.groups.writes import wake
from app.db.leases import attempts
from app.db.tenancy import commitments
from app.domain.cool_off import after_gpu_check
from app.domain.event_parts import EventReason
from app.domain.events import LeaseQueued
from app.domain.explanations.placement_failure import NO_ANSWER, no_capacity, why_exhausted
from app.domain.lease_offerings import for_term
from app.domain.leases import Lease, LeaseState
from app.domain.lifecycle import Rest
from app.domain.offerings import Offering, OfferingKey
from app.domain.placement import PATIENCE, Ranking, Requirements, much_dearer, tried_offerings
from app.domain.reasons import Origin, Reason, ReasonCode
from workers.lifecycle.steps.context import StepContext, change, offering_key
from workers.lifecycle.steps.end import begin_release
from workers.lifecycle.steps.plan import DearerThanQuotedError, DoesNotFitError, store_attempts
from workers.lifecycle.steps.readiness import (
    LONGEST_RETRY_PAUSE,
    NotReadyError,
)
from workers.lifecycle.steps.reservation_slot import NoSlotError, lease_term
from workers.lifecycle.steps.usable_image import NEXT, usable_image
from workers.providers.errors import (
    InvalidSpec,
    NotOffered,
    NotPermitted,
    OutcomeUnknown,
    Unreachable,
)
from workers.providers.types import Image
from workers.runtime.accounts import error_json
from workers.runtime.bulkheads import CrowdedError

_STOPPED_PAUSE = timedelta(seconds=5)
_UNLISTED_SHARE = 0.1
_SHOWN_AFTER = timedelta(seconds=5)
"""How long a process waits for a region's first listing before leases show the delay. Usually it takes 1 or 2 s."""
_LOOK_AGAIN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NotReady:
    """An account and region that cannot be used: its best candidate, the pause before a retry, and the reason."""

    offering: Offering
    pause: timedelta
    reason: Reason

    @property
    def awaits_inventory(self) -> bool:
        """No inventory process has tried to list the region: neither the cloud nor the request is at fault."""
        return self.reason.code is ReasonCode.REGION_NOT_LISTED and self.reason.origin is Origin.SYSTEM


@dataclass(slots=True)
class _Pass:
    """One pass over the candidates: which were tried, why others were not, and whether it is the lease's first pass."""

    tried: dict[OfferingKey, dict[str, Any] | None]
    first: bool
    over_quota: int = 0
    over_budget: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    passed_over: list[Reason] = field(default_factory=list)
    not_ready: dict[tuple[str, str], _NotReady] = field(default_factory=dict)
    """By account and region. An entry stays for the whole pass.

    An account that became ready during the pass would only have its more expensive offerings left.
    """

    def ask_again(self, offering: Offering, pause: timedelta, reason: Reason) -> None:
        """Records that the offering's account and region are not ready."""
        self.not_ready[_place(offering)] = _NotReady(offering=offering, pause=pause, reason=reason)


def place(ctx: StepContext) -> Rest | None:
    """Plans the next attempt. When no candidate is left, the lease waits in the queue or begins its release."""
    if ctx.row.launches_stopped is not None:
        return Rest(ctx.now + _STOPPED_PAUSE)
    this_pass = _read_pass(ctx)
    ranking = _ranking(ctx)
    candidates = _in_pool(ctx, ranking.candidates)
    patient_until = ctx.lease.looking_since + PATIENCE
    for offering in _untried(ctx, this_pass, candidates):
        if ctx.runtime.stopping.is_set():
            return Rest(ctx.now)
        if ctx.now < patient_until and much_dearer(
            offering, (better.offering for better in this_pass.not_ready.values())
        ):
            continue
        outcome = _plan_at(ctx, offering, this_pass)
        if outcome is not NEXT:
            return outcome
    not_ready = list(this_pass.not_ready.values())
    if any(entry.awaits_inventory for entry in not_ready):
        return _await_listing(ctx, not_ready, patient=ctx.now < patient_until)
    if not_ready and ctx.now < max(ctx.lease.wait_until, patient_until):
        _show_unlisted(ctx, not_ready)
        return Rest(ctx.now + min(entry.pause for entry in not_ready))
    errors = [*this_pass.errors, *(error for error in this_pass.tried.values() if error is not None)]
    reasons = [entry.reason for entry in not_ready]
    reason = why_exhausted(
        ranking, errors, this_pass.over_quota, reasons, this_pass.passed_over, over_budget=this_pass.over_budget
    )
    return _wait_or_give_up(ctx, candidates, reason)


def first_choice(ctx: StepContext) -> Offering | None:
    """The offering that a lease tries first when a pass begins. None: the lease is in a pass, or nothing fits it."""
    if ctx.lease.pass_started_at is not None:
        return None
    return next(_untried(ctx, _read_pass(ctx), _in_pool(ctx, _ranking(ctx).candidates)), None)


def _ranking(ctx: StepContext) -> Ranking:
    ranked = ctx.runtime.catalogue.ranking(Requirements.of(ctx.lease.request), ctx.now)
    return for_term(ranked, lease_term(ctx), ctx.now, launching=True)


def _in_pool(ctx: StepContext, candidates: tuple[Offering, ...]) -> tuple[Offering, ...]:
    """What a member of a group may be placed at: offerings of the group's pool."""
    membership = ctx.lease.membership
    if membership is None or membership.pool is None:
        return candidates
    return tuple(offering for offering in candidates if membership.pool.holds(offering))


def _read_pass(ctx: StepContext) -> _Pass:
    lease = ctx.lease
    if lease.pass_started_at is None:
        return _Pass(tried={}, first=lease.attempts_count == 0 or _is_bound(lease))
    rows = ctx.runtime.database.all(attempts.tried_since(lease.id, lease.pass_started_at))
    tried = tried_offerings((offering_key(row), row.error) for row in rows)
    return _Pass(tried=tried, first=lease.attempts_count == len(rows))


def _is_bound(lease: Lease) -> bool:
    """Whether a member of a formed group has one pool alone, so that an offering in cool-off is better than none."""
    return lease.membership is not None and not lease.membership.forming


def _untried(ctx: StepContext, this_pass: _Pass, candidates: tuple[Offering, ...]) -> Iterator[Offering]:
    """Yields each candidate once a pass. Offerings in cool-off come last, and only in the first pass."""
    avoided = _avoided(ctx)
    for offering in candidates:
        cooling = offering.key == avoided or offering.cooling(ctx.now)
        if offering.key in this_pass.tried or (cooling and not this_pass.first):
            continue
        if _place(offering) not in this_pass.not_ready:
            yield offering


def _avoided(ctx: StepContext) -> OfferingKey | None:
    """Where the lease's last VM had failing GPUs: a cool-off for this lease, as the cloud may give it the same machine.

    For others the offering cools off only by evidence that no tenant can forge.
    """
    attempt = ctx.lease.attempt
    if attempt is None or attempt.vm_state_at is None:
        return None
    records = [record for record in (ctx.lease.proof, ctx.lease.gpu_health) if record is not None]
    failed = any(record.rejected and record.n == attempt.n for record in records)
    # a cloud that forgets ended VMs tells no time of the end
    over_at = max(attempt.vm_state_at, ctx.lease.looking_since)
    until = over_at + timedelta(seconds=after_gpu_check(ctx.runtime.cool_offs).seconds)
    return offering_key(attempt) if failed and ctx.now < until else None


def _place(offering: Offering) -> tuple[str, str]:
    return offering.key.account, offering.key.region


def _plan_at(ctx: StepContext, offering: Offering, this_pass: _Pass) -> Rest | None:
    try:
        return _plan(ctx, offering)
    except DoesNotFitError as error:
        this_pass.over_budget += error.over_budget
        this_pass.over_quota += not error.over_budget
    except DearerThanQuotedError as error:
        this_pass.passed_over.append(Reason(ReasonCode.PRICE_CAP, str(error)))
    except NoSlotError as error:
        this_pass.passed_over.append(no_capacity(str(error)))
        ctx.runtime.catalogue.forget()
    except NotReadyError as error:
        this_pass.ask_again(offering, error.pause, error.reason)
    except CrowdedError as error:
        if not error.slow:
            return Rest(ctx.now + timedelta(seconds=error.pause))
        this_pass.ask_again(offering, timedelta(seconds=error.pause), NO_ANSWER)
    except (InvalidSpec, NotOffered, NotPermitted, OutcomeUnknown, Unreachable) as error:
        this_pass.errors.append(dict(error_json(error)))
    return NEXT


def _begin_periods(ctx: StepContext) -> bool:
    """Whether budgets of the lease's tenant began a new period now: the refusal counted what was spent in the last one."""
    database = ctx.runtime.database
    if database.first(commitments.due_of(ctx.lease.id)) is None:
        return False
    with database.begin() as connection:
        return commitments.roll(connection, ctx.lease.tenant_id) > 0


def _plan(ctx: StepContext, offering: Offering) -> Rest | None:
    image = usable_image(ctx, offering)
    if not isinstance(image, Image):
        return image
    try:
        store_attempts([ctx], offering, image)
    except DoesNotFitError as error:
        if error.over_budget and _begin_periods(ctx):
            return Rest(ctx.now)
        raise
    return None


def _await_listing(ctx: StepContext, not_ready: Sequence[_NotReady], *, patient: bool) -> Rest:
    """Lets the lease wait for a region's first listing and shows its owner the reason.

    A lease never fails because the inventory does not run, however short it waits for capacity. A lease with
    `wait_seconds` of 0 still ends with a VM or with the clouds' own answers.
    """
    if ctx.lease.state is LeaseState.PROVISIONING and not patient:
        _back_to_queue(ctx, next(entry.reason for entry in not_ready if entry.awaits_inventory))
    else:
        _show_unlisted(ctx, not_ready)
    waited = ctx.now - ctx.runtime.first_listings.started_at
    pause = max(min(entry.pause for entry in not_ready), _UNLISTED_SHARE * waited)
    return Rest(ctx.now + min(LONGEST_RETRY_PAUSE, pause))


def _show_unlisted(ctx: StepContext, not_ready: Sequence[_NotReady]) -> None:
    """A queued lease without a reason gets one, unless this process has only just started."""
    unlisted = next((entry.reason for entry in not_ready if entry.reason.code is ReasonCode.REGION_NOT_LISTED), None)
    is_new = ctx.now - ctx.runtime.first_listings.started_at < _SHOWN_AFTER
    if unlisted is not None and not is_new and ctx.lease.state is LeaseState.QUEUED and ctx.lease.reason is None:
        _back_to_queue(ctx, unlisted)


def _wait_or_give_up(ctx: StepContext, candidates: tuple[Offering, ...], reason: Reason) -> Rest | None:
    """A reason that lies in the request itself ends the lease at once, whatever its `wait_seconds`."""
    forming = ctx.lease.membership is not None and ctx.lease.membership.forming
    if (ctx.now >= ctx.lease.wait_until or reason.origin is Origin.USER) and not forming:
        begin_release(ctx, reason)
        return None
    outdated = ctx.lease.reason is None or ctx.lease.reason.code is ReasonCode.REGION_NOT_LISTED
    pass_is_over = ctx.lease.pass_started_at is not None
    if ctx.lease.state is LeaseState.PROVISIONING or outdated or pass_is_over:
        _back_to_queue(ctx, reason)
    ends = [o.cool_off.until for o in candidates if o.cool_off is not None and o.cooling(ctx.now)]
    ends += [] if forming else [ctx.lease.wait_until]
    return Rest(min([*ends, ctx.now + _LOOK_AGAIN]))


def _back_to_queue(ctx: StepContext, reason: Reason) -> None:
    to = LeaseState.QUEUED if ctx.lease.state is LeaseState.PROVISIONING else None
    event = NewEvent(LeaseQueued(name=None, reason=EventReason.of(reason)))
    values = {"reason": reason.as_stored(), "pass_started_at": None, "placement": None}
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=to, should_run=True, values=values)
        if to is None and ctx.lease.membership is not None:
            connection.execute(wake(ctx.lease.membership.group_id))
