"""Models for operators that cover the whole installation."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Body, Details, Moment, Money, Page, Text, View
from app.api.schemas.hardware import GROWS
from app.domain.account_checks import CheckResult, CheckSubject
from app.domain.brakes import BrakeName
from app.domain.cool_off import CoolOffReason
from app.domain.leases import LeaseState
from app.domain.offerings import Market

Note = Annotated[
    Annotated[Text, Field(max_length=500)] | None,
    Field(description="The operator's reason, returned with the brake."),
]


class LaunchStop(Body):
    """The emergency stop of all launches. Running leases continue."""

    stopped: bool
    note: Note = None


class AccountCordon(Body):
    """Whether to stop launches at an account. Its running leases continue."""

    cordoned: bool
    note: Note = None


class Brake(View):
    """A stop set by an operator. `by` is the id of the key."""

    by: str
    since: Moment
    note: str | None


class Hold(View):
    """The hold that gpulease sets when the database was changed or restored. See docs/operations.md."""

    reason: str
    since: Moment | None


class Brakes(View):
    """The brakes of the whole installation. A brake that is not set is null."""

    installation_id: str
    launches_stopped: Brake | None
    hold: Hold | None


class StateCount(View):
    """Leases by state, including ended leases that are still stored.

    `gpus` counts leases that have not ended and have an offering.
    """

    state: LeaseState
    leases: int
    gpus: int


class GroupCount(View):
    """Leases of one provider, region or GPU model that have not ended and have an offering."""

    name: str
    leases: int
    gpus: int
    spend_per_hour: Money


class TenantCount(View):
    """A tenant's leases that have not ended. `gpus` counts only leases that have an offering."""

    tenant_id: str
    name: str
    leases: int
    gpus: int
    spend_per_hour: Money


class CapacityFailure(View):
    """Launches that one offering refused for lack of capacity."""

    provider: str
    region: str
    instance_type: str
    market: Market
    failures: int


class CapacityFailures(View):
    """Capacity failures in the last 24 hours. `worst` lists the most frequent offerings first."""

    total: int
    worst: list[CapacityFailure]


class InterruptedPlace(View):
    """VMs that the provider interrupted at one offering."""

    provider: str
    region: str
    instance_type: str
    market: Market
    interruptions: int


class Interruptions(View):
    """Interruptions in the last 24 hours. `worst` lists the most frequent offerings first."""

    total: int
    worst: list[InterruptedPlace]


class OrphanCause(StrEnum):
    """Why a VM belongs to no lease. The list may grow.

    `ended_lease`: the VM's lease has ended. `other_attempt`: the VM's lease uses another VM. `lost_row`: gpulease
    launched the VM, but the database has lost its lease. The VM ends at its deadline, or an operator ends it.
    `copied_tags`: gpulease did not launch the VM, but it carries tags of a VM of gpulease. gpulease ends it after a
    grace period. `no_row`: earlier versions wrote this cause for `lost_row` and `copied_tags`. `leftover`: a resource
    other than a VM that costs money.
    """

    ENDED_LEASE = "ended_lease"
    OTHER_ATTEMPT = "other_attempt"
    LOST_ROW = "lost_row"
    COPIED_TAGS = "copied_tags"
    NO_ROW = "no_row"
    LEFTOVER = "leftover"


class OrphanState(StrEnum):
    """The progress of ending an orphan. The list may grow."""

    SEEN = "seen"
    ENDING = "ending"
    GONE = "gone"
    ADOPTED = "adopted"


class OrphanCount(View):
    """Open orphans of one cause."""

    cause: OrphanCause
    orphans: int


class StuckKind(StrEnum):
    """What takes too long. `settling`: a create of unknown outcome. `deadline`: a deadline tag behind the expiry.

    `samples`: hours whose GPU samples could not be summed up; the lease itself runs on.
    The list may grow.
    """

    RELEASING = "releasing"
    SETTLING = "settling"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    DEADLINE = "deadline"
    SAMPLES = "samples"


class StuckLease(View):
    """A lease that needs an operator's attention."""

    kind: StuckKind
    lease_id: str
    tenant_id: str
    state: LeaseState
    account: str | None
    region: str | None
    reason: Annotated[
        str | None, Field(description="The message of the lease's reason, which states what prevents its end.")
    ]
    since: Moment


class TimeToReady(View):
    """Seconds from creation to ready, for leases of the last 24 hours that became ready."""

    leases: int
    p50_seconds: float | None
    p95_seconds: float | None


class Processes(View):
    """Processes of one kind that have reported, and the age of the latest report."""

    kind: str
    processes: int
    last_seen_seconds: float


class BrokenInvariant(View):
    """A database invariant that was violated at the last check."""

    name: str
    violations: int
    examples: Annotated[list[Details], Field(description="A few of the violating rows.")]
    since: Annotated[Moment | None, Field(description="The first of the consecutive checks that found the violation.")]


class Invariants(View):
    """The result of the last check of the database's invariants. Null: no check has run yet."""

    checked_at: Moment | None
    broken: list[BrokenInvariant]


class EventLag(View):
    """How long events wait. 0: nothing waits."""

    unnumbered_seconds: Annotated[
        float, Field(description="Of the oldest event without a number. Readers do not see it before it has one.")
    ]
    webhooks_seconds: Annotated[
        float, Field(description="Of the webhook that waits longest for a worker, slow receivers excepted.")
    ]


class ActiveBrake(View):
    """A brake that is set. docs/operations.md says what it stops, and how it ends."""

    brake: Annotated[BrakeName, Field(description="Its name in docs/operations.md.")]
    account: Annotated[str | None, Field(description="Null: the whole installation.")]
    region: Annotated[str | None, Field(description="Null: the whole account.")]
    since: Annotated[Moment | None, Field(description="Null: its start is not known.")]
    until: Annotated[Moment | None, Field(description="Null: until its cause is gone, or an operator lifts it.")]
    code: Annotated[str | None, Field(description="The provider's error code.")]
    message: str | None


class RefusedLaunches(View):
    """Launches of the last hour in a region of an account that failed since the last one that succeeded there."""

    provider: str
    account: str
    region: str
    reason: Annotated[CoolOffReason, Field(description="As `reason` in the `availability` of an offering.")]
    launches: Annotated[int, Field(description="How many failed.")]
    since: Annotated[Moment, Field(description="The first of these failures.")]
    code: Annotated[str | None, Field(description="The provider's error code of the newest failure.")]
    message: str | None


class LateJob(View):
    """A periodic job that has not succeeded for three of its intervals."""

    kind: str
    account: str | None
    region: str | None
    interval_seconds: Annotated[float, Field(description="Time between two runs.")]
    since: Annotated[Moment, Field(description="The last success, or the creation of the job.")]
    last_error: Annotated[str | None, Field(description="The error of the last run. Null: it had none.")]


class FailedChecks(View):
    """Failed checks of an account in the last run, see `GET /v1/ops/accounts/{name}/checks`."""

    account: str
    failed: Annotated[int, Field(description="How many checks failed.")]
    checked_at: Moment | None


class OpsSummary(View):
    """A summary of the whole installation."""

    as_of: Moment
    brakes: Brakes
    by_state: list[StateCount]
    by_provider: list[GroupCount]
    by_region: list[GroupCount]
    by_gpu_model: list[GroupCount]
    by_tenant: Annotated[
        list[TenantCount], Field(description="At most 100 tenants, sorted by spend in descending order.")
    ]
    gpus: Annotated[int, Field(description="GPUs of all leases that have not ended and have an offering.")]
    spend_per_hour: Money
    spend_month_to_date: Annotated[Money, Field(description="Spend in USD since the start of the month (UTC).")]
    capacity_failures: CapacityFailures
    interruptions: Interruptions
    orphans: list[OrphanCount]
    active_brakes: Annotated[list[ActiveBrake], Field(description="Every brake that is set.")]
    refused_launches: Annotated[
        list[RefusedLaunches], Field(description="Regions of accounts in which the newest launches failed.")
    ]
    late_jobs: Annotated[list[LateJob], Field(description="Periodic jobs that are overdue.")]
    failed_checks: Annotated[list[FailedChecks], Field(description="Accounts with failed checks.")]
    stuck: Annotated[list[StuckLease], Field(description="At most 100 leases, longest stuck first.")]
    time_to_ready: TimeToReady
    processes: list[Processes]
    invariants: Invariants
    events: Annotated[EventLag, Field(description="How long events and webhooks wait.")]


class Adoption(View):
    """The accepted request. Workers execute it at the next inventory of each region."""

    requested: Annotated[int, Field(description="Orphans of cause `lost_row` whose leases will be rebuilt.")]


class Orphan(View):
    """A VM or other resource that belongs to no lease, and the actions taken on it. Ended orphans stay for 30 days."""

    id: Annotated[str, Field(description="The orphan's id.")]
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
    price_per_hour: Annotated[
        Money | None, Field(description="The VM's own price, or the catalogue price if the VM's price is unknown.")
    ]
    age_seconds: Annotated[
        float, Field(description="Seconds from the launch, or the first sighting, until the end, or until now.")
    ]
    cost: Annotated[
        Money | None,
        Field(description="Estimated cost in USD: the price for `age_seconds`. Null: the price is unknown."),
    ]
    launched_at: Moment | None
    first_seen_at: Moment
    last_seen_at: Moment
    sightings: int
    end_after: Annotated[
        Moment | None,
        Field(description="gpulease ends the orphan after this time. Null: at its deadline, or by an operator."),
    ]
    deadline_at: Annotated[Moment | None, Field(description="The deadline in the VM's tags.")]
    end_requested_at: Moment | None
    end_error: Annotated[
        Details | None,
        Field(description="Why the provider rejected the last request to end the orphan: class, code, message."),
    ]
    gone_at: Moment | None
    adopt_requested_at: Moment | None
    adopt_error: Annotated[str | None, Field(description="Why the lease could not be rebuilt.")]


class OrphanPage(Page):
    """A page of orphans, sorted by first sighting, newest first."""

    items: list[Orphan]


class AccountState(StrEnum):
    """The state of an account.

    `draining`: the account is no longer configured; gpulease serves it until its last VM is deleted. The list may grow.
    """

    UNCHECKED = "unchecked"
    OK = "ok"
    FAILING = "failing"
    DISABLED = "disabled"
    DRAINING = "draining"


class AccountRegion(View):
    """The results of observing a region."""

    region: str
    last_complete_listing_at: Moment | None
    listed: Annotated[int | None, Field(description="VMs in the last complete listing.")]
    listing_calls: int | None
    listing_seconds: float | None
    cycles: int
    last_error: Details | None
    blocked: Annotated[
        Details | None,
        Field(
            description="Why the provider refuses every launch there: `class`, `code`, `message`, `since`. Nothing is "
            "launched there before `until`. A new run of the account's checks ends it early. Null: launches are possible."
        ),
    ]
    service_quotas: Annotated[list[Details] | None, Field(description="The provider's own limits.")]


class Account(View):
    """A cloud account."""

    name: str
    provider: Annotated[str, Field(description="The cloud provider. " + GROWS)]
    state: AccountState
    identity: Annotated[str | None, Field(description="The provider's id of the account, pinned at first use.")]
    cordoned: Brake | None
    draining: bool
    brakes: Annotated[
        list[BrakeName], Field(description="Brakes that are set on the account or in one of its regions.")
    ]
    last_error: Details | None
    checked_at: Moment | None
    created_at: Moment
    last_check_at: Annotated[
        Moment | None, Field(description="End of the last checks, see `GET /v1/ops/accounts/{name}/checks`.")
    ]
    failed_checks: Annotated[int | None, Field(description="Failed checks of the last run. Null: none has run yet.")]
    regions: list[AccountRegion]


class AccountCheck(View):
    """One check of an account."""

    subject: CheckSubject
    name: Annotated[str, Field(description="The right, image, subnet, quota or region.")]
    result: CheckResult
    detail: Annotated[str, Field(description="What was read, or the provider's error.")]
    fix: Annotated[str | None, Field(description="What to do about it. Null for a passed check.")]
    region: Annotated[str | None, Field(description="Null: the whole account.")]


class AccountChecks(View):
    """The last checks of an account, made once a day and on request. `gpulease-server check` makes the same checks."""

    account: str
    checked_at: Annotated[Moment | None, Field(description="End of the last run. Null: none has run yet.")]
    requested_at: Annotated[Moment | None, Field(description="The last request for a run.")]
    passed: int
    failed: int
    not_checked: Annotated[int, Field(description="Checks that no harmless call can make.")]
    checks: list[AccountCheck]


class AccountPage(View):
    """All accounts, sorted by name."""

    items: list[Account]
    next_cursor: None
