"""Every combination of facts that a lease can be in, as the protocol makes them."""

from collections.abc import Iterator
from datetime import datetime
from itertools import product
from typing import Any

from app.domain.lease_requests import OnInterruption
from app.domain.leases import Attempt, AttemptState, Lease, LeaseState, VmState
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease

A, S = AttemptState, LeaseState
OF_STATE: dict[LeaseState, tuple[AttemptState | None, ...]] = {
    S.QUEUED: (None, A.REFUSED, A.DEAD),
    S.PROVISIONING: tuple(A),
    S.BOOTING: (A.KNOWN, A.DEAD),
    S.ACTIVE: (A.KNOWN, A.DEAD),
    S.RELEASING: (None, *A),
    S.RELEASED: (None, A.REFUSED, A.DEAD),
    S.FAILED: (None, A.REFUSED, A.DEAD),
}
RETRIES: tuple[datetime | None, ...] = (None, ago(1), NOW, ahead(5), ahead(7200))
AGES = (0.0, 300.0, 100_000.0)


def leases() -> Iterator[Lease]:
    """Every lease state with every attempt it can have, expired or not, replaced or ended at an interruption."""
    for state, states in OF_STATE.items():
        attempts = [one for attempt_state in states for one in attempts_in(attempt_state)]
        ages = (0.0, 100_000.0) if state is S.BOOTING else (0.0,)
        wishes = tuple(OnInterruption) if state in (S.BOOTING, S.ACTIVE) else (OnInterruption.END,)
        choices = product(attempts, (NOW, ahead(60)), wishes, ages, _tags(state))
        for one, expires_at, on_interruption, age, tag in choices:
            yield lease(
                state,
                attempt=one,
                expires_at=expires_at,
                on_interruption=on_interruption,
                running_at=ago(age) if state in (S.BOOTING, S.ACTIVE) else None,
                ready_at=ago(age) if state is S.ACTIVE else None,
                **tag,
                unclean_attempts=1 if one is not None and not one.live and not one.clean else 0,
            )


def _tags(state: LeaseState) -> tuple[dict[str, Any], ...]:
    """All well, the deadline tag behind, a reboot asked for."""
    if state not in (S.PROVISIONING, S.BOOTING, S.ACTIVE):
        return ({},)
    return ({}, {"deadline_applied": None}, {"reboot_requested_at": ago(1)})


def attempts_in(state: AttemptState | None) -> Iterator[Attempt | None]:
    match state:
        case None:
            yield None
        case A.KNOWN:
            yield from _known()
        case A.SENT | A.SETTLING:
            yield from _unknown(state)
        case A.PLANNED:
            yield from (attempt(state, retry_at=at) for at in RETRIES)
        case _:
            yield from (attempt(state, clean=clean) for clean in (False, True))


def _unknown(state: AttemptState) -> Iterator[Attempt]:
    for age, retry_at, empty in product(AGES, RETRIES, (0, 2)):
        times: dict[str, Any] = {"last_sent_at": ago(age), "unknown_since": ago(age), "retry_at": retry_at}
        yield attempt(state, **times, empty_listings=empty, last_empty_listing_at=ago(age / 2) if empty else None)


def _known() -> Iterator[Attempt]:
    flags = (False, True)
    for vm_state, retry_at, terminated, age in product(VmState, (None, ahead(7200)), (None, 1.0, 400.0), AGES):
        for ready, clean, interrupted in product(flags, flags, flags):
            yield attempt(
                A.KNOWN,
                instance_id="i-1",
                vm_state=vm_state,
                vm_reason={"interrupted": True, "code": "x", "message": "y"} if interrupted else None,
                ready=ready,
                clean=clean,
                known_at=ago(age),
                last_sent_at=ago(age),
                unknown_since=ago(age),
                retry_at=retry_at,
                terminate_sent_at=ago(terminated) if terminated is not None else None,
                terminate_tries=1 if terminated is not None else 0,
            )


__all__ = ["NOW", "TIMING", "leases"]
