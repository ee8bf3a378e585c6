"""What a lease does, and for how long it rests, when a call of the protocol gets no answer or a refusal."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from app.db.leases import claims, reboots
from app.db.schema.tables import attempt, lease, provider_bucket
from app.domain.cool_off import after_error
from app.domain.ids import LeaseId
from app.settings import load_settings
from tests.workers.failing import ASKED_LATER, NO_LINE, NOBODY_KNOWS, REJECTED, SLOW_DOWN, Failing
from tests.workers.fleet import ACCOUNT, NEVER, REGION, Fleet
from workers.providers.errors import (
    InsufficientCapacity,
    InvalidSpec,
    NotOffered,
    PriceTooLow,
    ProviderError,
    ProviderQuotaExceeded,
    Unreachable,
)
from workers.runtime.runtime import cool_offs_from

ZONE = "us-east-1a"


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], failing: Failing) -> Fleet:
    return make_fleet(connect_account=failing.connect, unreachable_seconds=40.0, unknown_retry_seconds=600.0)


# --- an answer that is none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "seconds"), [(ASKED_LATER, 7), (SLOW_DOWN, 1), (NO_LINE, 1), (NOBODY_KNOWS, 1), (InvalidSpec("x"), 0)]
)
def test_after_a_create_call_without_effect(
    fleet: Fleet, failing: Failing, error: ProviderError, seconds: float
) -> None:
    failing.errors = {"launch": error}
    lease_id = fleet.create(wait_seconds=600)
    rested = fleet.pause(lease_id)
    sent, *others = fleet.attempts(lease_id)
    assert (sent.error["class"], sent.error["code"]) == (type(error).__name__, error.code)
    if seconds:
        assert rested == seconds
        assert others == []
        assert (sent.state, sent.unknown_since is not None) == ("sent", error is NOBODY_KNOWS)
        assert (sent.unreachable_since is not None) == (error is NO_LINE)
    else:
        assert sent.state == "refused"


def test_a_create_call_of_unknown_outcome_is_repeated_ever_more_rarely_and_its_offering_set_aside(
    fleet: Fleet, failing: Failing
) -> None:
    failing.errors = {"launch": NOBODY_KNOWS}
    lease_id = fleet.create()
    fleet.pause(lease_id)
    assert fleet.cooling() == [], "one lost answer is no sign"
    for since, seconds in ((1, 2), (16, 4), (31, 8), (46, 15), (300, 15)):
        past = func.now() - timedelta(seconds=since)
        fleet.runtime.database.run(update(attempt).values(unknown_since=past, retry_at=None))
        assert fleet.pause(lease_id) == seconds
    assert [row[:3] for row in fleet.cooling()] == [(ZONE, "provider_error", "Timeout")]
    assert fleet.cooling()[0][3] == 40


@pytest.mark.parametrize(("since", "given_up"), [(39, False), (41, True)])
def test_a_cloud_out_of_reach_is_a_refusal_when_patience_is_over(
    fleet: Fleet, failing: Failing, since: int, *, given_up: bool
) -> None:
    failing.errors = {"launch": NO_LINE}
    lease_id = fleet.create(wait_seconds=600)
    fleet.pause(lease_id)
    past = func.now() - timedelta(seconds=since)
    fleet.runtime.database.run(update(attempt).values(unreachable_since=past, retry_at=None))
    fleet.pause(lease_id)
    assert (fleet.attempts(lease_id)[0].state == "refused") == given_up


def test_credentials_that_are_refused_at_the_launch_set_the_account_aside_and_no_offering(
    fleet: Fleet, failing: Failing
) -> None:
    failing.errors = {"launch": REJECTED, "identity": REJECTED}
    lease_id = fleet.create(wait_seconds=600)
    fleet.step()
    assert (fleet.account().state, fleet.account().last_error["code"]) == ("failing", "AuthFailure")
    assert fleet.attempts(lease_id)[0].state == "refused"
    assert fleet.cooling() == []


@pytest.mark.parametrize(
    ("error", "seconds", "reason"),
    [
        (InsufficientCapacity("none"), "cool_off_capacity_seconds", "no_capacity"),
        (PriceTooLow("more"), "cool_off_capacity_seconds", "no_capacity"),
        (ProviderQuotaExceeded("full"), "cool_off_quota_seconds", "provider_quota"),
        (NotOffered("not here"), "cool_off_unoffered_seconds", "not_offered"),
        (NOBODY_KNOWS, "unreachable_seconds", "provider_error"),
        (Unreachable("away"), "unreachable_seconds", "provider_error"),
        (InvalidSpec("no"), "cool_off_quota_seconds", "refused"),
    ],
)
def test_each_kind_of_refusal_has_its_own_cool_off(error: ProviderError, seconds: str, reason: str) -> None:
    settings = load_settings()
    pause = after_error(error.kind, cool_offs_from(settings))
    assert (pause.seconds, pause.reason) == (getattr(settings, seconds), reason)


# --- looking for what a call did ---------------------------------------------------------------------------------


@pytest.fixture
def looked_for(fleet: Fleet, failing: Failing) -> LeaseId:
    """A lease whose create call nobody answered, and that is only looked for."""
    failing.errors = {"launch": NOBODY_KNOWS}
    lease_id = fleet.create()
    fleet.step()
    fleet.runtime.database.run(update(attempt).values(state="settling", retry_at=None, settling_since=func.now()))
    return lease_id


@pytest.mark.parametrize("call", ["find", "identity"])
def test_the_longer_a_cloud_gives_no_answer_the_more_rarely_it_is_asked(
    fleet: Fleet, failing: Failing, looked_for: LeaseId, call: str
) -> None:
    failing.errors = {call: NOBODY_KNOWS}
    for sent, seconds in ((0, 5), (20, 5), (60, 15), (3600, 30)):
        past = func.now() - timedelta(seconds=sent)
        fleet.runtime.database.run(update(attempt).values(last_sent_at=past, retry_at=None))
        assert fleet.pause(looked_for).expected == pytest.approx(seconds, abs=0.3)
        assert fleet.attempts(looked_for)[0].error["code"] == "Timeout"


def test_a_look_that_is_throttled_slows_looking_down(make_fleet: Callable[..., Fleet], failing: Failing) -> None:
    fleet = make_fleet(connect_account=failing.connect, provider_rate_limits=True)
    failing.errors = {"launch": NOBODY_KNOWS}
    lease_id = fleet.create()
    fleet.drive(lambda: any(one.unknown_since is not None for one in fleet.attempts(lease_id)))
    fleet.runtime.database.run(update(attempt).values(state="settling", retry_at=None))
    failing.errors = {"find": ASKED_LATER}
    assert fleet.pause(lease_id) == 7
    slow = select(provider_bucket.c.name).where(provider_bucket.c.slow_factor > 1)
    assert [row.name for row in fleet.runtime.database.all(slow)] == [f"{ACCOUNT}/{REGION}/read"]


def test_between_looks_a_lease_rests_for_a_quarter_of_the_gap(
    make_fleet: Callable[..., Fleet], failing: Failing
) -> None:
    for gap, seconds in ((8.0, 2.0), (0.1, 0.5)):
        fleet = make_fleet(connect_account=failing.connect, settle_gap_seconds=gap, settle_seconds=60.0)
        failing.errors = {"launch": NOBODY_KNOWS}
        lease_id = fleet.create()
        fleet.step()
        fleet.runtime.database.run(update(attempt).values(state="settling", retry_at=None))
        assert fleet.pause(lease_id) == seconds
        fleet.end(lease_id)


def test_what_expires_while_it_is_looked_for_is_not_rested_over(
    fleet: Fleet, failing: Failing, looked_for: LeaseId
) -> None:
    failing.errors = {"find": NOBODY_KNOWS}
    fleet.extend(looked_for, 3)
    assert 2 < fleet.pause(looked_for).expected <= 3
    fleet.end(looked_for)
    fleet.runtime.database.run(update(attempt).values(retry_at=None))
    assert fleet.pause(looked_for) == 5


@pytest.mark.parametrize("call", ["get", "identity"])
def test_a_vm_that_a_listing_did_not_show_is_asked_after_again(fleet: Fleet, failing: Failing, call: str) -> None:
    lease_id = fleet.active()
    fleet.runtime.database.run(update(attempt).values(vm_state="absent"))
    failing.errors = {call: NOBODY_KNOWS}
    assert fleet.pause(lease_id) == 5
    assert fleet.lease(lease_id).state == "active"


# --- a VM that does not do as it is told --------------------------------------------------------------------------

NOT_DONE = ((ASKED_LATER, 7), (SLOW_DOWN, 1), (NOBODY_KNOWS, 5), (REJECTED, 5))


def test_an_end_that_is_not_accepted_is_asked_for_again(fleet: Fleet, failing: Failing) -> None:
    lease_id = fleet.active()
    fleet.end(lease_id)
    for error, seconds in NOT_DONE:
        assert refused(fleet, failing, lease_id, "terminate", error) == seconds
    assert fleet.account().state == "ok"
    assert len(fleet.vms()) == 1


def refused(fleet: Fleet, failing: Failing, lease_id: LeaseId, call: str, error: ProviderError) -> Any:
    """The pause after a call that is answered so."""
    assert fleet.account().state == "ok"
    failing.errors = {call: error}
    fleet.runtime.database.run(update(attempt).values(retry_at=None))
    rested = fleet.pause(lease_id)
    assert fleet.attempts(lease_id)[0].error["code"] == error.code
    return rested


def test_a_deadline_that_is_not_written_is_written_later(fleet: Fleet, failing: Failing) -> None:
    lease_id = fleet.active()
    fleet.extend(lease_id, 7200)
    for error, seconds in NOT_DONE[:-1]:
        assert refused(fleet, failing, lease_id, "set_deadline", error) == seconds


def test_a_reboot_that_is_not_accepted_is_asked_for_again(fleet: Fleet, failing: Failing) -> None:
    lease_id = fleet.active()
    fleet.runtime.database.run(reboots.request(lease_id, None, within=None))
    for error, seconds in NOT_DONE[:-1]:
        assert refused(fleet, failing, lease_id, "reboot", error) == seconds
        assert fleet.lease(lease_id).reboot_requested_at is not None
    failing.errors = {"reboot": REJECTED}
    fleet.runtime.database.run(update(attempt).values(retry_at=None))
    fleet.pause(lease_id)
    assert fleet.account().state == "ok"
    assert fleet.lease(lease_id).reboot_requested_at is None, "a refusal is told, not repeated"


# --- whatever the step is -----------------------------------------------------------------------------------------


def test_while_the_installation_is_on_hold(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.put_on_hold()
    assert fleet.pause(lease_id) == 2
    assert fleet.attempts(lease_id) == []


def test_after_a_bug(fleet: Fleet, failing: Failing) -> None:
    fleet.may_break_off = True
    failing.errors = {"launch": RuntimeError("a bug")}
    assert fleet.pause(fleet.create()) == 30


def test_a_claim_that_is_taken_back_leaves_the_lease_to_its_owner(fleet: Fleet) -> None:
    lease_id = fleet.create()
    theirs = uuid4()
    assert fleet.runtime.database.first(claims.claim(lease_id, theirs, 60)) is not None
    fleet.reconciler.run(lease_id, uuid4())
    kept = fleet.lease(lease_id)
    assert (kept.claim_id, kept.state) == (theirs, "queued")


def test_a_hint_moves_a_lease_that_is_due_and_no_other(fleet: Fleet) -> None:
    fleet.sim.settings(boot_seconds=NEVER)
    lease_id = fleet.create()
    fleet.runtime.database.run(update(lease).values(next_due=func.now() + timedelta(minutes=1)))
    assert not fleet.reconciler.run_hinted(lease_id)
    fleet.make_due(lease_id)
    assert fleet.reconciler.run_hinted(lease_id)
    assert fleet.lease(lease_id).state == "provisioning"
    assert len(fleet.vms()) == 1
    fleet.make_due(lease_id)
    assert fleet.runtime.database.first(claims.claim(lease_id, uuid4(), 60)) is not None
    assert not fleet.reconciler.run_hinted(lease_id), "held by another"
    assert not fleet.reconciler.run_hinted(LeaseId("lease_of_nobody"))
