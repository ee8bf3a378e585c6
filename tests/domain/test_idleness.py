"""When a lease counts as idle and ends: the stricter rule, its warnings, and what holds it off."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.groups.groups import Membership
from app.domain.idleness import LAST_NOTICE, IdleFloor, Idleness, IdleRun, effective_rule, sample_is_idle
from app.domain.ids import GroupId
from app.domain.lease_requests import IdleAction, IdleRule
from app.domain.leases import AttemptState, Desired, Lease, LeaseState, VmState
from app.domain.lifecycle import BeginRelease, decide
from app.domain.reasons import ReasonCode
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease

HOUR = IdleRule(after_seconds=3600, action=IdleAction.END)
rules = st.builds(IdleRule, after_seconds=st.integers(900, 100_000), action=st.sampled_from(IdleAction))
floors = st.builds(IdleFloor, rule=rules)


def idleness(samples: int = 60, **changes: Any) -> Idleness:
    """An hour of idle samples, the newest half a minute ago."""
    facts: dict[str, Any] = {"rule": HOUR, "since": ago(3600), "samples": samples, "sampled_at": ago(30)}
    return Idleness(**{**facts, **changes})


def active(found: Idleness | None, vm_state: VmState = VmState.RUNNING, **changes: Any) -> Lease:
    facts = {"ready_at": ago(10_000), "running_at": ago(10_100), "idleness": found, **changes}
    return lease(LeaseState.ACTIVE, attempt=attempt(vm_state=vm_state, ready=True, instance_id="i-1"), **facts)


def ends(found: Lease) -> bool:
    step = decide(found, NOW, TIMING)
    return isinstance(step, BeginRelease) and step.reason.code is ReasonCode.IDLE


def after(percentages: list[list[float]], gpus: int) -> Idleness | None:
    """What a lease's facts are at NOW after samples at each minute, the last one now."""
    run = IdleRun()
    for n, sample in enumerate(percentages):
        at = ago((len(percentages) - 1 - n) * 60)
        run = run.after(at, idle=sample_is_idle(sample, gpus), counts_from=ago(1e6), period=60)
    if run.since is None or run.last_at is None:
        return None
    return Idleness(rule=HOUR, since=run.since, samples=run.samples, sampled_at=run.last_at)


@settings(max_examples=20)
@given(st.lists(st.lists(st.floats(0, 5), min_size=2, max_size=2), min_size=61, max_size=70))
def test_an_hour_of_idle_samples_ends_a_lease(samples: list[list[float]]) -> None:
    assert ends(active(after(samples, 2)))


@given(st.integers(0, 59), st.floats(5.01, 100), st.integers(0, 1))
def test_one_busy_gpu_in_one_of_sixty_samples_keeps_it(when: int, busy: float, gpu: int) -> None:
    samples = [[0.0, 0.0] for _ in range(60)]
    samples[when][gpu] = busy
    assert not ends(active(after(samples, 2)))


@given(st.integers(0, 200), st.integers(0, 10**6))
def test_fewer_samples_than_the_rule_asks_for_end_nothing_however_long_they_took(samples: int, seconds: int) -> None:
    found = idleness(samples, since=ago(seconds))
    assert ends(active(found)) is (samples >= 60 and seconds >= 3600)


@given(st.floats(120.001, 1e7))
def test_a_silent_agent_ends_nothing(silent: float) -> None:
    """A VM whose agent dies is never ended for idleness, nor is its owner warned."""
    found = idleness(10_000, since=ago(1e7 + 4000), sampled_at=ago(silent))
    assert not ends(active(found))
    assert found.notice(NOW, TIMING.sample) == 0


@given(st.floats(0.001, 1e6))
def test_a_keep_holds_it_off_until_its_end(seconds: float) -> None:
    kept = idleness(10_000, since=ago(1e6), keep_until=ahead(seconds))
    assert not ends(active(kept))
    assert kept.due_at == ahead(seconds)
    assert ends(active(replace(kept, keep_until=NOW)))


def test_a_rule_that_notifies_ends_nothing() -> None:
    notify = idleness(rule=replace(HOUR, action=IdleAction.NOTIFY))
    assert notify.ends_at is None
    assert notify.notice(NOW, TIMING.sample) == LAST_NOTICE
    assert not ends(active(notify))


def test_a_member_is_not_idle_before_its_group_has_formed() -> None:
    member = Membership(group_id=GroupId("group_x"), rank=0, pool=None, retreats=False, forming=True, replaces=True)
    assert not ends(active(idleness(), membership=member))
    assert ends(active(idleness(), membership=replace(member, forming=False)))


@pytest.mark.parametrize("vm_state", [state for state in VmState if state is not VmState.RUNNING])
def test_only_a_running_vm_is_idle(vm_state: VmState) -> None:
    assert not ends(active(idleness(), vm_state))


def test_no_other_lease_ends_for_idleness() -> None:
    assert ends(active(idleness()))
    assert not ends(active(None))
    assert not ends(active(idleness(), term_in_doubt=True)), "the hold may have lost a keep"
    assert not ends(replace(active(idleness()), state=LeaseState.BOOTING))
    assert not ends(replace(active(idleness()), state=LeaseState.RELEASING, desired=Desired.END))
    assert not ends(replace(active(idleness()), attempt=attempt(AttemptState.DEAD)))


def test_what_the_provider_did_comes_first() -> None:
    over = decide(active(idleness(), expires_at=NOW), NOW, TIMING)
    assert isinstance(over, BeginRelease)
    assert over.reason.code is ReasonCode.EXPIRED


@given(rules | st.none(), floors)
def test_a_member_cannot_weaken_a_floor(wish: IdleRule | None, floor: IdleFloor) -> None:
    rule = effective_rule(wish, floor)
    assert rule is not None
    if floor.rule.action is IdleAction.END:
        assert rule.action is IdleAction.END
        assert rule.after_seconds <= floor.rule.after_seconds
    else:
        assert rule.action is IdleAction.END or rule.after_seconds <= floor.rule.after_seconds


@given(rules | st.none(), floors | st.none())
def test_a_floor_never_makes_up_a_rule(wish: IdleRule | None, floor: IdleFloor | None) -> None:
    """What holds is the lease's own rule or the floor, so nobody's lease ends earlier than one of them says."""
    assert effective_rule(wish, None) == wish
    assert effective_rule(wish, floor) in (wish, floor.rule if floor else None)


@given(st.integers(900, 100_000), st.integers(0, 100_000))
def test_the_owner_is_warned_at_half_the_time_and_ten_minutes_before(seconds: int, idle: int) -> None:
    rule = IdleRule(after_seconds=seconds, action=IdleAction.END)
    found = Idleness(rule=rule, since=ago(idle), samples=10_000, sampled_at=NOW)
    expected = (seconds / 2, seconds - 600)
    told = LAST_NOTICE if idle >= seconds else sum(idle >= at for at in expected)
    assert found.notice(NOW, TIMING.sample) == told


def test_a_keep_moves_the_warnings() -> None:
    kept = idleness(keep_until=ahead(7200))
    assert kept.notice(NOW, TIMING.sample) == 0
    later = ahead(7200) - timedelta(minutes=10)
    assert replace(kept, sampled_at=later).notice(later, TIMING.sample) == 2


@given(floors)
def test_a_floor_is_stored_and_read(floor: IdleFloor) -> None:
    assert IdleFloor.from_json(floor.as_json()) == floor
