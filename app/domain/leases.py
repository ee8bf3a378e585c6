"""Leases and attempts: states, the transition table, and the facts that decisions are made from."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.domain.ids import AttemptId, LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest, OnInterruption
from app.domain.reasons import BY_WISH, Reason


class LeaseState(StrEnum):
    """Where a lease is. See design: `queued -> provisioning -> booting -> active -> releasing -> released | failed`."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASED = "released"
    FAILED = "failed"


class Desired(StrEnum):
    """What the owner wants: never goes back from `end` to `run`."""

    RUN = "run"
    END = "end"


class AttemptState(StrEnum):
    """How far one try of one lease at one offering has come.

    `planned`: intent stored, nothing sent. `sent`: a create call may be under way or its outcome is unknown.
    `known`: the provider's id is recorded. `settling`: outcome unknown for too long or cancelled; only looked for,
    never created again. `refused`: definitely not created. `dead`: confirmed gone.
    """

    PLANNED = "planned"
    SENT = "sent"
    KNOWN = "known"
    SETTLING = "settling"
    REFUSED = "refused"
    DEAD = "dead"


class VmState(StrEnum):
    """What a provider says of a VM, in one vocabulary for all clouds.

    `ending`: shutting down or stopping. `stopped`: not running and still costing money. `gone`: terminated.
    `absent`: missing from a complete listing, not yet confirmed by a direct get.
    """

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    STOPPED = "stopped"
    GONE = "gone"
    ABSENT = "absent"


TERMINAL = frozenset({LeaseState.RELEASED, LeaseState.FAILED})
_MAY_HAVE_VM = frozenset({AttemptState.SENT, AttemptState.KNOWN, AttemptState.SETTLING})
LIVE_ATTEMPT = frozenset({AttemptState.PLANNED, AttemptState.SENT, AttemptState.KNOWN, AttemptState.SETTLING})

_S = LeaseState
TRANSITIONS: dict[LeaseState, frozenset[LeaseState]] = {
    _S.QUEUED: frozenset({_S.PROVISIONING, _S.RELEASING}),
    _S.PROVISIONING: frozenset({_S.QUEUED, _S.BOOTING, _S.RELEASING}),
    _S.BOOTING: frozenset({_S.ACTIVE, _S.QUEUED, _S.RELEASING}),
    _S.ACTIVE: frozenset({_S.QUEUED, _S.RELEASING}),
    _S.RELEASING: frozenset({_S.RELEASED, _S.FAILED}),
    _S.RELEASED: frozenset(),
    _S.FAILED: frozenset(),
}
"""From each state, the states that may be entered next. `queued` from `booting` or `active` is a replacement."""


def sources(target: LeaseState) -> tuple[LeaseState, ...]:
    """The states from which `target` may be entered: what a guarded UPDATE asks for in its WHERE."""
    return tuple(state for state, targets in TRANSITIONS.items() if target in targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one lease at one offering, as the database has it."""

    id: AttemptId
    n: int
    state: AttemptState
    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: str
    token: str
    clean: bool
    price_per_hour: Any  # Decimal
    instance_id: str | None = None
    vm_state: VmState | None = None
    vm_reason: dict[str, Any] | None = None
    ready: bool = False
    last_sent_at: datetime | None = None
    unknown_since: datetime | None = None
    unreachable_since: datetime | None = None
    known_at: datetime | None = None
    terminate_sent_at: datetime | None = None
    terminate_tries: int = 0
    empty_listings: int = 0
    last_empty_listing_at: datetime | None = None
    retry_at: datetime | None = None
    watched_at: datetime | None = None
    """Start of the last look at the VMs in change where it is."""

    @property
    def live(self) -> bool:
        """Whether it may still have a VM, or get one."""
        return self.state in LIVE_ATTEMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What decisions about a lease are made from. `wake_count` tells whether somebody woke it meanwhile."""

    id: LeaseId
    tenant_id: TenantId
    state: LeaseState
    desired: Desired
    reason: Reason | None
    request: LeaseRequest
    on_interruption: OnInterruption
    created_at: datetime
    expires_at: datetime
    wait_until: datetime
    pass_started_at: datetime | None
    running_at: datetime | None
    ready_at: datetime | None
    release_requested_at: datetime | None
    attempts_count: int
    wake_count: int
    attempt: Attempt | None = None
    unclean_attempts: int = 0
    reboot_requested_at: datetime | None = None
    deadline_applied: datetime | None = None
    term_in_doubt: bool = False
    """The database may have lost an extension: a hold was set, and the deadline tag of its VM was not read since."""

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over at `now`, the database's clock."""
        return self.expires_at <= now

    @property
    def may_expire(self) -> bool:
        """Whether its term is known. One in doubt is known again when its VM's tag was read, or when it has no VM."""
        attempt = self.attempt
        may_have_vm = attempt is not None and attempt.state in _MAY_HAVE_VM and attempt.vm_state is not VmState.GONE
        return not (self.term_in_doubt and may_have_vm)

    @property
    def waits(self) -> timedelta:
        """For how long it waits for capacity, for its first VM and for a replacement."""
        return timedelta(seconds=self.request.wait_seconds)

    @property
    def looking_since(self) -> datetime:
        """When it was asked for, or last went back to the queue for a replacement."""
        return self.wait_until - self.waits

    @property
    def terminal(self) -> bool:
        """Whether it has ended for good."""
        return self.state in TERMINAL


def final_state(lease: Lease) -> LeaseState:
    """`released` after having been active or by its owner's wish, else `failed`."""
    wished = lease.reason is not None and lease.reason.code in BY_WISH
    return LeaseState.RELEASED if lease.ready_at is not None or wished else LeaseState.FAILED
