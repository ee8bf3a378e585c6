"""What operators see of the whole installation."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Body, Details, Moment, Money, Text, View
from app.api.schemas.leases import GROWS
from app.domain.leases import LeaseState
from app.domain.offerings import Market

Note = Annotated[Annotated[Text, Field(max_length=500)] | None, Field(description="Why; shown with the brake.")]


class LaunchStop(Body):
    """The emergency stop of all launches. Running leases go on."""

    stopped: bool
    note: Note = None


class AccountCordon(Body):
    """Whether to launch nothing more at an account. Its running leases go on."""

    cordoned: bool
    note: Note = None


class Brake(View):
    """Something an operator has stopped. `by` is the id of the key."""

    by: str
    since: Moment
    note: str | None


class Hold(View):
    """The brake that a changed or restored database sets by itself: see docs/operations.md."""

    reason: str
    since: Moment | None


class Brakes(View):
    """What stops launches everywhere; null where nothing does."""

    installation_id: str
    launches_stopped: Brake | None
    hold: Hold | None


class StateCount(View):
    """Leases in a state, ended ones as long as they are kept. `gpus`: of those that have not ended and have an offering."""

    state: LeaseState
    leases: int
    gpus: int


class GroupCount(View):
    """Leases that have not ended and have an offering, of one provider, region or GPU model."""

    name: str
    leases: int
    gpus: int
    spend_per_hour: Money


class TenantCount(View):
    """A tenant's leases that have not ended. `gpus`: of those that have an offering."""

    tenant_id: str
    name: str
    leases: int
    gpus: int
    spend_per_hour: Money


class CapacityFailure(View):
    """Refusals for want of capacity at one place."""

    provider: str
    region: str
    instance_type: str
    market: Market
    failures: int


class CapacityFailures(View):
    """In the last 24 hours; `worst` has the most frequent places first."""

    total: int
    worst: list[CapacityFailure]


class InterruptedPlace(View):
    """VMs that their provider took back at one place."""

    provider: str
    region: str
    instance_type: str
    market: Market
    interruptions: int


class Interruptions(View):
    """In the last 24 hours; `worst` has the most frequent places first."""

    total: int
    worst: list[InterruptedPlace]


class OrphanCause(StrEnum):
    """Why a VM is no lease's. The list may grow.

    `ended_lease`: its lease has ended. `other_attempt`: its lease has another VM. `lost_row`: gpulease launched it, and the
    database has lost its lease; it is ended at its deadline or by an operator. `copied_tags`: gpulease did not launch it; it
    carries the tags of a VM of gpulease and is ended after a grace. `no_row`: written by earlier versions for the last
    two. `leftover`: something besides a VM that costs money.
    """

    ENDED_LEASE = "ended_lease"
    OTHER_ATTEMPT = "other_attempt"
    LOST_ROW = "lost_row"
    COPIED_TAGS = "copied_tags"
    NO_ROW = "no_row"
    LEFTOVER = "leftover"


class OrphanState(StrEnum):
    """How far its end has come. The list may grow."""

    SEEN = "seen"
    ENDING = "ending"
    GONE = "gone"
    ADOPTED = "adopted"


class OrphanCount(View):
    """Open orphans of one cause."""

    cause: OrphanCause
    orphans: int


class StuckKind(StrEnum):
    """What takes too long: `settling` is a create of unknown outcome, `deadline` a tag behind the expiry. May grow."""

    RELEASING = "releasing"
    SETTLING = "settling"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    DEADLINE = "deadline"


class StuckLease(View):
    """A lease that somebody should look at."""

    kind: StuckKind
    lease_id: str
    tenant_id: str
    state: LeaseState
    account: str | None
    region: str | None
    reason: Annotated[str | None, Field(description="The message of the lease's reason: what keeps it from ending.")]
    since: Moment


class TimeToReady(View):
    """Seconds from creation to ready, of the leases of the last 24 hours that became ready."""

    leases: int
    p50_seconds: float | None
    p95_seconds: float | None


class Processes(View):
    """Processes of a kind that have reported, and how long ago the latest did."""

    kind: str
    processes: int
    last_seen_seconds: float


class BrokenInvariant(View):
    """Something that must always be true of the database and was not when it was last checked."""

    name: str
    violations: int
    examples: Annotated[list[Details], Field(description="Rows of a few of them.")]
    since: Annotated[Moment | None, Field(description="The first check in a row that found it broken.")]


class Invariants(View):
    """What the last check of the database's invariants found; null: there has been none yet."""

    checked_at: Moment | None
    broken: list[BrokenInvariant]


class OpsSummary(View):
    """The whole installation at a glance."""

    as_of: Moment
    brakes: Brakes
    by_state: list[StateCount]
    by_provider: list[GroupCount]
    by_region: list[GroupCount]
    by_gpu_model: list[GroupCount]
    by_tenant: Annotated[list[TenantCount], Field(description="Those that spend most first, at most 100.")]
    gpus: Annotated[int, Field(description="GPUs of all leases that have not ended and have an offering.")]
    spend_per_hour: Money
    spend_month_to_date: Annotated[Money, Field(description="USD since the month began (UTC).")]
    capacity_failures: CapacityFailures
    interruptions: Interruptions
    orphans: list[OrphanCount]
    stuck: Annotated[list[StuckLease], Field(description="The longest stuck first, at most 100.")]
    time_to_ready: TimeToReady
    processes: list[Processes]
    invariants: Invariants


class Adoption(View):
    """What was asked for; workers do it at the next inventory of each region."""

    requested: Annotated[int, Field(description="VMs of lost rows that are to get their lease back.")]


class Orphan(View):
    """A VM (or a remnant of one) that no lease stands behind, and what was done about it."""

    provider: str
    account: str
    region: str
    zone: str
    instance_id: str
    instance_type: str
    cause: OrphanCause
    state: OrphanState
    lease_id: str | None
    attempt_n: int | None
    tags: Details
    price_per_hour: Annotated[Money | None, Field(description="The catalogue's where the VM's own is not known.")]
    age_seconds: Annotated[float, Field(description="Since its launch, or since it was first seen.")]
    launched_at: Moment | None
    first_seen_at: Moment
    last_seen_at: Moment
    sightings: int
    end_after: Annotated[
        Moment | None, Field(description="It is ended after this; null: at its deadline, or by an operator.")
    ]
    deadline_at: Annotated[Moment | None, Field(description="Its tagged deadline.")]
    end_requested_at: Moment | None
    end_error: Annotated[
        Details | None,
        Field(description="Why the provider did not accept the last request to end it: class, code, message."),
    ]
    gone_at: Moment | None
    adopt_requested_at: Moment | None
    adopt_error: Annotated[str | None, Field(description="Why its lease could not be rebuilt.")]


class OrphanPage(View):
    """The latest first seen first."""

    items: list[Orphan]
    next_cursor: str | None


class AccountState(StrEnum):
    """Whether an account is used. `draining`: no longer configured, served until its last VM is gone. The list may grow."""

    UNCHECKED = "unchecked"
    OK = "ok"
    FAILING = "failing"
    DISABLED = "disabled"
    DRAINING = "draining"


class AccountRegion(View):
    """What observation knows of a region."""

    region: str
    last_complete_listing_at: Moment | None
    listed: Annotated[int | None, Field(description="VMs in the last complete listing.")]
    listing_calls: int | None
    listing_seconds: float | None
    cycles: int
    last_error: Details | None
    service_quotas: Annotated[list[Details] | None, Field(description="The provider's own limits.")]


class Account(View):
    """A cloud account."""

    name: str
    provider: Annotated[str, Field(description=GROWS)]
    state: AccountState
    identity: Annotated[str | None, Field(description="The provider's own id of the account, pinned at first use.")]
    cordoned: Brake | None
    draining: bool
    last_error: Details | None
    checked_at: Moment | None
    created_at: Moment
    regions: list[AccountRegion]


class AccountPage(View):
    """All accounts, by name."""

    items: list[Account]
    next_cursor: None
