"""Leases and attempts: their states, the transition table, and the facts on which decisions are based."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from app.domain.gpus.health import HealthRecord
from app.domain.gpus.proofs import ProofRecord
from app.domain.groups.groups import Membership
from app.domain.idleness import IdleFloor, Idleness
from app.domain.ids import AttemptId, LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest, OnInterruption
from app.domain.rates import Rate
from app.domain.reasons import BY_WISH, Reason, ReasonCode
from app.domain.volumes import VolumePlace


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
    """The state of a VM as its provider reports it, in one vocabulary for all clouds.

    `queued`: accepted, and waiting in the provider's own queue for capacity. `ending`: shutting down or stopping. `stopped`:
    not running and still costing money. `gone`: terminated.
    `absent`: missing from a complete listing, not yet confirmed by a direct get.
    """

    QUEUED = "queued"
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
    """The states from which `target` may be entered: the WHERE condition of a guarded UPDATE."""
    return tuple(state for state, targets in TRANSITIONS.items() if target in targets)


def starting_since(reservation: str | None, known_at: datetime | None, vm_state_at: datetime | None) -> datetime | None:
    """When the provider began to start a VM. For a reserved VM the wait in the provider's queue does not count."""
    if reservation is None or known_at is None or vm_state_at is None:
        return known_at
    return max(known_at, vm_state_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one lease at one offering, as stored in the database."""

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
    """USD for compute, as planned."""
    disk_price_per_hour: Decimal | None = None
    address_price_per_hour: Decimal | None = None
    gpu_count: int = 1
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
    vm_state_at: datetime | None = None
    reservation: str | None = None
    reserved_until: datetime | None = None
    """The latest expiry of a lease in the attempt's reservation."""
    watched_at: datetime | None = None
    """Start of the last watch pass over the attempt's account and region."""
    has_agent: bool = False
    proof_awaited_at: datetime | None = None
    console_proof_tries: int = 0
    gpu_rebooted_at: datetime | None = None
    volumes_attached_at: datetime | None = None

    @property
    def rate(self) -> Rate:
        """What its VM costs an hour, as planned."""
        return Rate(compute=self.price_per_hour, disk=self.disk_price_per_hour, address=self.address_price_per_hour)

    @property
    def live(self) -> bool:
        """Whether the attempt may still have a VM, or get one."""
        return self.state in LIVE_ATTEMPT

    @property
    def starting_since(self) -> datetime | None:
        """See the function of that name."""
        return starting_since(self.reservation, self.known_at, self.vm_state_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The facts on which decisions about a lease are based. A changed `wake_count` shows that the lease was woken."""

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
    """The database may have lost an extension: a hold was set, and the VM's deadline tag was not read since."""
    max_cost: Decimal | None = None
    """USD: the spend cap. None: no cap."""
    max_rate: Decimal | None = None
    """USD an hour that its VM may cost with all its parts at launch. None: no quote limits it."""
    volume_place: VolumePlace | None = None
    """Where its volumes are, and so its VM. None: it has none."""
    cost_closed: Decimal = Decimal(0)
    """USD of past attempts and past prices."""
    cost_reached_at: datetime | None = None
    """When the cost reaches `max_cost` at the present rate. None: no cap, or nothing is billed."""
    idle_floor: IdleFloor | None = None
    """The tenant's rule for idle GPUs. None: only the lease's own rule applies."""
    idleness: Idleness | None = None
    """The run of idle samples of the newest attempt. None: no rule applies, or the newest sample is not idle."""
    proof: ProofRecord | None = None
    gpu_health: HealthRecord | None = None
    membership: Membership | None = None
    """Its place in a group. None: it belongs to no group."""
    tenant_active: bool = True
    """False: the tenant is suspended. The lease keeps the VM that it has, and gets no other."""

    @property
    def may_be_placed(self) -> bool:
        """Whether a VM may be looked for. A member of a group waits until the group has a pool."""
        return self.membership is None or self.membership.pool is not None

    @property
    def retreats(self) -> bool:
        """Whether its VM is ended and it returns to the queue, since its group did not form in the pool."""
        return self.membership is not None and self.membership.retreats

    @property
    def rejected_for(self) -> ReasonCode | None:
        """Why gpulease ends the VM of the newest attempt and looks for another. None: it does not."""
        if self.retreats:
            return ReasonCode.GROUP_POOL_FAILED
        n = None if self.attempt is None else self.attempt.n
        if self.proof is not None and self.proof.n == n and self.proof.rejected:
            return ReasonCode.GPU_CHECK_FAILED
        if self.gpu_health is not None and self.gpu_health.n == n and self.gpu_health.rejected:
            return ReasonCode.GPU_FAILED
        return None

    @property
    def vm_is_ready(self) -> bool:
        """Whether the VM of the newest attempt runs and is ready, as its cloud or a proof over the network has shown."""
        attempt = self.attempt
        if attempt is None or attempt.vm_state is not VmState.RUNNING:
            return False
        return attempt.ready or (self.proof is not None and self.proof.shows_boot(attempt.n))

    @property
    def awaits_volumes(self) -> bool:
        """Whether the VM of the newest attempt does not have all volumes of the lease yet."""
        return bool(self.request.volumes) and self.attempt is not None and self.attempt.volumes_attached_at is None

    @property
    def ends_at(self) -> datetime:
        """The effective end: the expiry, or when the cost reaches the spend cap, whichever is first."""
        return self.expires_at if self.cost_reached_at is None else min(self.expires_at, self.cost_reached_at)

    @property
    def spendable(self) -> Decimal | None:
        """USD that the lease's next VM may cost. None: no cap."""
        return None if self.max_cost is None else max(self.max_cost - self.cost_closed, Decimal(0))

    def has_reached_cap(self, now: datetime) -> bool:
        """Whether the cost has reached the spend cap at `now`, by the database's clock."""
        return self.cost_reached_at is not None and self.cost_reached_at <= now

    def is_expired(self, now: datetime) -> bool:
        """Whether the lease's time is over at `now`, by the database's clock."""
        return self.expires_at <= now

    @property
    def reserved_until(self) -> datetime | None:
        """When the lease must end because its VM's reservation does. None: no reservation limits it."""
        return self.attempt.reserved_until if self.attempt is not None and self.attempt.live else None

    @property
    def may_expire(self) -> bool:
        """Whether the lease's term is known. One in doubt is known again once the VM's tag is read, or without a VM."""
        attempt = self.attempt
        may_have_vm = attempt is not None and attempt.state in _MAY_HAVE_VM and attempt.vm_state is not VmState.GONE
        return not (self.term_in_doubt and may_have_vm)

    @property
    def waits(self) -> timedelta:
        """How long the lease waits for capacity, for its first VM and for a replacement."""
        return timedelta(seconds=self.request.wait_seconds)

    @property
    def looking_since(self) -> datetime:
        """When the lease was requested, or last returned to the queue for a replacement."""
        return self.wait_until - self.waits

    @property
    def terminal(self) -> bool:
        """Whether the lease has ended for good."""
        return self.state in TERMINAL


def final_state(lease: Lease) -> LeaseState:
    """`released` when the lease was active or its owner ended it, else `failed`."""
    ended_by_owner = lease.reason is not None and lease.reason.code in BY_WISH
    return LeaseState.RELEASED if lease.ready_at is not None or ended_by_owner else LeaseState.FAILED
