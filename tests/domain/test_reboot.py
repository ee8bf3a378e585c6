"""When a reboot that somebody asked for is sent, and what goes before it."""

import pytest

from app.domain.leases import Desired, LeaseState, VmState
from app.domain.lifecycle import BeginRelease, Reboot, RenewDeadline, Rest, Step, decide
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease


def step(state: LeaseState = LeaseState.ACTIVE, **changes: object) -> Step:
    facts = {"reboot_requested_at": ago(1), "ready_at": ago(60), "running_at": ago(90)}
    of = changes.pop("attempt", attempt(vm_state=VmState.RUNNING, instance_id="i-1", ready=True, known_at=ago(100)))
    return decide(lease(state, **{**facts, "attempt": of, **changes}), NOW, TIMING)


def test_an_active_lease_is_rebooted_when_somebody_asked() -> None:
    assert step() == Reboot()
    assert step(reboot_requested_at=None) != Reboot()


def test_after_a_failed_try_it_waits_until_the_next() -> None:
    waiting = attempt(vm_state=VmState.RUNNING, instance_id="i-1", ready=True, retry_at=ahead(5))
    assert step(attempt=waiting) == Rest(ahead(5))


def test_the_end_goes_before_a_reboot() -> None:
    assert isinstance(step(expires_at=ago(1)), BeginRelease)
    lost = attempt(vm_state=VmState.GONE, instance_id="i-1", ready=True)
    assert isinstance(step(attempt=lost), BeginRelease)


@pytest.mark.parametrize("state", [LeaseState.BOOTING, LeaseState.RELEASING])
def test_only_an_active_lease_is_rebooted(state: LeaseState) -> None:
    desired = Desired.END if state is LeaseState.RELEASING else Desired.RUN
    assert step(state, desired=desired) != Reboot()


def test_a_pending_reboot_does_not_keep_the_deadline_from_being_renewed() -> None:
    tried = attempt(vm_state=VmState.RUNNING, instance_id="i-1", ready=True, retry_at=ago(1))
    assert step(attempt=tried, deadline_applied=None) == Reboot()
    assert step(attempt=tried, deadline_applied=None, reboot_requested_at=None) == RenewDeadline()
