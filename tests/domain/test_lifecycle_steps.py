"""The one step that follows from the facts, case by case."""

from typing import Any

import pytest

from app.domain.leases import AttemptState, Lease, LeaseState, VmState
from app.domain.lifecycle import (
    BeginRelease,
    CloseAttempt,
    Finish,
    Look,
    Place,
    Reboot,
    Rest,
    Send,
    Settle,
    Step,
    Terminate,
    backoff,
    decide,
)
from app.domain.reasons import ReasonCode
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease

A, S = AttemptState, LeaseState
SOON, LATE = ahead(5), ahead(7200)


def running(**changes: Any) -> Any:
    return attempt(vm_state=VmState.RUNNING, ready=True, **changes)


@pytest.mark.parametrize(
    ("given", "step"),
    [
        (lease(S.QUEUED), Place()),
        (lease(S.QUEUED, attempt=attempt(A.REFUSED, clean=True)), Place()),
        (lease(S.PROVISIONING, attempt=attempt(A.PLANNED)), Send()),
        (lease(S.PROVISIONING, attempt=attempt(A.SENT, unknown_since=ago(299), retry_at=SOON)), Rest(SOON)),
        (lease(S.PROVISIONING, attempt=attempt(A.SENT, unknown_since=ago(299), retry_at=NOW)), Send()),
        (lease(S.PROVISIONING, attempt=attempt(A.SENT, unknown_since=ago(300), retry_at=ago(1))), Settle()),
        (lease(S.PROVISIONING, attempt=attempt(A.SETTLING, retry_at=SOON)), Rest(SOON)),
        (lease(S.PROVISIONING, attempt=attempt(A.SETTLING, retry_at=NOW)), Look()),
        (lease(S.PROVISIONING, attempt=attempt(A.SETTLING, retry_at=LATE), expires_at=ahead(60)), Rest(ahead(60))),
        (lease(S.ACTIVE, attempt=running()), Rest(ahead(3600))),
        (lease(S.ACTIVE, attempt=running(retry_at=NOW), reboot_requested_at=ago(1)), Reboot()),
        (lease(S.ACTIVE, attempt=running(retry_at=SOON), reboot_requested_at=ago(1)), Rest(SOON)),
        (lease(S.RELEASING), Finish()),
        (lease(S.RELEASING, attempt=attempt(A.DEAD, clean=True)), Finish()),
        (lease(S.RELEASING, attempt=attempt(A.DEAD), unclean_attempts=1), Rest(None)),
        (lease(S.RELEASING, attempt=attempt(A.PLANNED)), CloseAttempt()),
        (lease(S.RELEASING, attempt=attempt(A.SENT)), Settle()),
        (lease(S.RELEASING, attempt=attempt(A.SETTLING)), Look()),
        (lease(S.RELEASING, attempt=attempt(A.SETTLING, retry_at=LATE)), Rest(LATE)),
        (lease(S.RELEASING, attempt=running()), Terminate()),
        (lease(S.RELEASING, attempt=running(terminate_sent_at=NOW, terminate_tries=2)), Rest(ahead(10))),
        (lease(S.RELEASING, attempt=attempt(vm_state=VmState.GONE)), CloseAttempt()),
        (lease(S.RELEASED, attempt=attempt(A.DEAD, clean=True)), Rest(None)),
    ],
    ids=str,
)
def test_the_step(given: Lease, step: Step) -> None:
    assert decide(given, NOW, TIMING) == step


def test_a_boot_time_out_says_how_long_was_waited() -> None:
    given = lease(S.BOOTING, attempt=attempt(vm_state=VmState.RUNNING, watched_at=NOW), running_at=ago(900))
    step = decide(given, NOW, TIMING)
    assert isinstance(step, BeginRelease)
    assert (step.reason.code, step.reason.message) == (ReasonCode.BOOT_TIMEOUT, "the VM was not ready within 900 s")


@pytest.mark.parametrize("state", [S.BOOTING, S.ACTIVE])
def test_a_lease_that_should_have_an_attempt_and_has_none_is_named(state: LeaseState) -> None:
    with pytest.raises(ValueError, match=f"^lease {lease().id} is {state} without an attempt$"):
        decide(lease(state), NOW, TIMING)


@pytest.mark.parametrize(
    ("tries", "first", "longest", "seconds"),
    [(1, 5.0, 300.0, 5.0), (2, 5.0, 300.0, 10.0), (7, 5.0, 300.0, 300.0), (0, 1.0, 15.0, 1.0), (99, 1.0, 1e9, 65536.0)],
)
def test_the_pause_doubles_up_to_its_limits(tries: int, first: float, longest: float, seconds: float) -> None:
    assert backoff(tries, longest, first=first) == seconds
