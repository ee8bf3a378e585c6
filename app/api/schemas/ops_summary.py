"""Models of the summary of the whole installation."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Details, Moment, Money, View
from app.api.schemas.brakes import Brakes
from app.api.schemas.orphans import OrphanCause
from app.domain.brakes import BrakeName
from app.domain.cool_off import CoolOffReason
from app.domain.leases import LeaseState
from app.domain.offerings import Market


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
    names: Annotated[list[str], Field(description="The rights, images, subnets, quotas and regions of these checks.")]
    checked_at: Moment | None


class Overdue(View):
    """Leases that are due and that no worker has claimed."""

    leases: int
    seconds: Annotated[float, Field(description="For how long the first of them has been due. 0: none is.")]


class GhostLeases(View):
    """Leases of a region that are shown as active, or billed, without a VM."""

    account: str | None
    region: str | None
    leases: int
    seconds: Annotated[float, Field(description="Since the last sighting of the first of the VMs.")]


class LostHost(View):
    """A host whose processes of one kind ended without a clean stop, and where none of that kind reports."""

    host: Annotated[str, Field(description="The name of the host.")]
    kind: Annotated[str, Field(description="`worker` or `inventory`.")]


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
    spend_per_hour: Annotated[Money, Field(description="USD an hour of leases and volumes that are billed now.")]
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
    unlisted_charges: Annotated[
        int, Field(description="Resources of this installation that providers charged and that belong to no lease.")
    ]
    time_to_ready: TimeToReady
    processes: list[Processes]
    lost_hosts: Annotated[list[LostHost], Field(description="Hosts that were lost within the last day.")]
    warnings: Annotated[list[str], Field(description="The warnings of `GET /readyz`, as this API process sees them.")]
    overdue: Overdue
    ghost_leases: Annotated[list[GhostLeases], Field(description="Leases without a VM, until gpulease closes them.")]
    invariants: Invariants
    events: Annotated[EventLag, Field(description="How long events and webhooks wait.")]
