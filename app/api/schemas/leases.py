"""Response models of leases and their attempts. The serializer writes the same JSON from rows without these models."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, Page, View
from app.api.schemas.costs import Cost, Estimate, PricePerHour, RateParts
from app.api.schemas.gpu_truth import GpuHealth, GpuProof, Idleness, Utilization
from app.api.schemas.hardware import GROWS, Gpu, Network, PlacedLocalDisk
from app.api.schemas.placements import Image, Placement
from app.api.schemas.volumes import MountedVolume
from app.domain.lease_requests import BenchmarkMode, IdleAction, OnGpuFailure, OnInterruption, ProofMode
from app.domain.leases import AttemptState, Desired, LeaseState
from app.domain.offerings import GpuVendor, Interconnect, Market, MarketPreference
from app.domain.reasons import Origin, ReasonCode

PROVIDER_WORDS = (
    "The provider's original message, which may name resources of the installation. Null for all "
    "roles except operators."
)


IF_REQUESTED = "Present only if it was requested. " + GROWS


def _is_none(value: object) -> bool:
    return value is None


class Reason(View):
    """The reason for a lease's state. `retryable`: the same request may succeed later."""

    code: Annotated[ReasonCode, Field(description="The cause, for programs. " + GROWS)]
    message: str
    origin: Annotated[Origin, Field(description="Who or what caused it. " + GROWS)]
    retryable: bool


class RequestedGpu(View):
    """The requested GPUs. Either `count` or `min_count` is set, and the other is null."""

    model: Annotated[str, Field(description="The catalogue's name of the model.")]
    count: Annotated[int | None, Field(description="Exact number of GPUs.")]
    min_count: Annotated[int | None, Field(description="Minimum number of GPUs.")]
    memory_gib: int | None
    interconnect: Annotated[
        Interconnect | None, Field(description="The connection between the GPUs. " + IF_REQUESTED, exclude_if=_is_none)
    ] = None
    vendor: Annotated[
        GpuVendor | None, Field(description="The vendor of the GPUs. " + IF_REQUESTED, exclude_if=_is_none)
    ] = None


class RequestedIdle(View):
    """When idle GPUs count, and what follows."""

    after_seconds: int
    action: Annotated[IdleAction, Field(description="What follows. " + GROWS)]


class MemberRequest(View):
    """A lease request without its name, with defaults filled in."""

    gpu: RequestedGpu | None
    instance_types: list[str] | None
    min_vcpus: int | None
    min_memory_gib: int | None
    min_local_disk_gib: int | None
    market: MarketPreference
    providers: list[str] | None
    regions: list[str] | None
    max_price_per_hour: str | None
    ttl_seconds: int
    wait_seconds: int
    ssh_public_keys: Annotated[list[str], Field(description="All keys that the VM accepts, stored keys included.")]
    ssh_keys: Annotated[list[str], Field(description="Names of the stored SSH keys, as they were at the creation.")]
    image: str | None
    disk_gib: int
    public_ip: bool
    allowed_cidrs: list[str] | None
    on_interruption: OnInterruption
    proof: Annotated[
        ProofMode, Field(description=f"Whether the VM must prove its GPUs before the lease is active. {GROWS}")
    ]
    on_gpu_failure: Annotated[OnGpuFailure, Field(description=f"What happens when a GPU fails later. {GROWS}")]
    idle: Annotated[RequestedIdle | None, Field(description="What happens when all GPUs are idle. Null: nothing.")]
    benchmark: Annotated[
        BenchmarkMode, Field(description=f"Whether the VM measures its GPUs at its first boot. {GROWS}")
    ]
    labels: dict[str, str]


class LeaseRequest(MemberRequest):
    """The request with defaults filled in."""

    name: str
    volumes: Annotated[list[MountedVolume], Field(description="The volumes that the VM mounts.")]
    startup_script: Annotated[
        str | None,
        Field(
            description=(
                "Present only in the response to GET of a single lease, and never for viewers. Null "
                "after the lease has ended."
            )
        ),
    ]


class Connection(View):
    """How to connect to the VM. Unknown values are null."""

    public_ip: str | None
    private_ip: str | None
    ssh_user: str | None
    ssh_port: int | None
    ssh_command: str | None
    ssh_host_keys: Annotated[
        list[str] | None,
        Field(description="The SSH host keys that the VM reported after its first boot. Null: none yet."),
    ]


class Interruption(View):
    """The provider will interrupt the VM. `action` is the provider's term: terminate, stop or hibernate."""

    notice_at: Moment | None
    deadline_at: Moment | None
    action: str | None


class Action(View):
    """Whether the API would accept a call now. If not, `reason_code` is the error code."""

    available: bool
    reason_code: str | None


class LeaseActions(View):
    """The actions that the caller may perform on the lease now."""

    release: Action
    extend: Action
    reboot: Action


class Lease(View):
    """A lease. `cost`, `utilization`, `idle` and `last_observed_at` change without a new `version` or ETag."""

    id: str
    tenant_id: str
    name: str
    state: Annotated[LeaseState, Field(description=f"The state of the lease; `reason` gives its cause. {GROWS}")]
    desired: Annotated[
        Desired, Field(description="The state that the owner requests. It never changes from `end` to `run`.")
    ]
    terminal: Annotated[bool, Field(description="The lease has ended, and no billable resource remains.")]
    billable: Annotated[bool, Field(description="The lease is being billed now.")]
    reason: Reason | None
    provider_message: Annotated[str | None, Field(description=PROVIDER_WORDS)]
    request: LeaseRequest
    placement: Placement | None
    connection: Connection | None
    interruption: Interruption | None
    proof: Annotated[
        GpuProof | None,
        Field(description="The proof of the newest VM's GPUs. Null: no proof is needed, or there is no VM yet."),
    ]
    health: Annotated[
        GpuHealth | None,
        Field(description="The health of the GPUs as the VM reports it. Null: nothing is reported."),
    ]
    utilization: Annotated[
        Utilization | None, Field(description="The newest sample of the active lease. Null: there is none.")
    ]
    idle: Annotated[Idleness | None, Field(description="Null: the newest sample is not idle, or there is none.")]
    labels: dict[str, str]
    attempts_count: int
    actions: LeaseActions
    cost: Cost
    max_cost: Annotated[
        Money | None, Field(description="The spend cap in USD: the lease ends before it costs more. Null: no cap.")
    ]
    ends_at: Annotated[
        Moment,
        Field(
            description=(
                "When the lease ends: `expires_at`, or when its cost reaches `max_cost` at the present rate, whichever is "
                "first."
            )
        ),
    ]
    key_id: Annotated[
        str | None, Field(description="The API key that created the lease. Null: it was rebuilt from tags.")
    ]
    group_id: Annotated[str | None, Field(description="The group that the lease is a member of. Null: none.")]
    rank: Annotated[int | None, Field(description="The rank in its group, from 0. Null: the lease is no member.")]
    quote_id: Annotated[str | None, Field(description="The quote that the lease was created from. Null: none.")]
    estimate: Annotated[Estimate | None, Field(description="Null: the lease was rebuilt from the tags of its VM.")]
    expiry_warnings_seconds: Annotated[
        list[int] | None,
        Field(description="When `lease.expiring_soon` is sent. Null: as the installation is configured."),
    ]
    version: int
    created_at: Moment
    first_attempt_at: Moment | None
    launched_at: Moment | None
    running_at: Moment | None
    ready_at: Moment | None
    billing_started_at: Moment | None
    billing_ended_at: Moment | None
    expires_at: Moment
    wait_until: Annotated[Moment, Field(description="The end of the wait for capacity.")]
    release_requested_at: Moment | None
    provider_gone_at: Annotated[
        Moment | None, Field(description="When the provider confirmed that the VM was deleted.")
    ]
    ended_at: Moment | None
    updated_at: Moment
    last_observed_at: Annotated[
        Moment | None, Field(description="When the VM was last observed running. Null without a VM.")
    ]


class LeasePage(Page):
    """A page of leases. A page of 512 KiB ends before `limit` and has a `next_cursor`."""

    items: list[Lease]


class AttemptOutcome(StrEnum):
    """The outcome of an attempt. The list may grow.

    `pending`: the call has not been sent, or its response is outstanding. `unknown`: no response arrived, and gpulease
    only searches for the VM. `launched`: the VM exists. `refused`: the provider rejected the call. `not_created`:
    gpulease gave up and nothing was created. `ended`: the VM was deleted.
    """

    PENDING = "pending"
    UNKNOWN = "unknown"
    LAUNCHED = "launched"
    REFUSED = "refused"
    NOT_CREATED = "not_created"
    ENDED = "ended"


class AttemptOffering(View):
    """The offering of an attempt and its price."""

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: Annotated[Market, Field(description="The market of the offering. " + GROWS)]
    reservation: str | None
    gpu: Gpu
    vcpus: int
    memory_gib: float
    local_disk_gib: PlacedLocalDisk
    network: Network
    price_per_hour: PricePerHour
    parts: RateParts
    image: Image


class AttemptError(View):
    """The last error: the error class of gpulease, the provider's code, and a message from gpulease."""

    class_: Annotated[str | None, Field(alias="class")]
    code: str | None
    message: str | None
    provider_message: Annotated[str | None, Field(description=PROVIDER_WORDS)]


class Attempt(View):
    """One attempt to launch a lease at an offering."""

    id: str
    n: Annotated[int, Field(description="Counts from 1 within the lease.")]
    outcome: AttemptOutcome
    state: Annotated[AttemptState, Field(description=f"The internal protocol state. {GROWS}")]
    offering: AttemptOffering
    instance_id: str | None
    error: AttemptError | None
    cost: Annotated[Money, Field(description="Cost until now in USD.")]
    started_at: Moment
    sent_at: Moment | None
    launched_at: Moment | None
    billing_started_at: Moment | None
    billing_ended_at: Moment | None
    ended_at: Moment | None


class AttemptPage(Page):
    """The attempts of a lease, in order."""

    items: list[Attempt]
