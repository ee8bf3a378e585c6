"""What callers see of leases and their attempts. `lease_present` makes the same shapes from rows, without these models."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, Money, View
from app.domain.lease_requests import OnInterruption
from app.domain.leases import AttemptState, Desired, LeaseState
from app.domain.offerings import Market, MarketWish
from app.domain.reasons import Origin, ReasonCode

GROWS = "The list may grow."
PROVIDER_WORDS = "The provider's own words, which may name resources of the installation. Null for all but operators."


class Gpu(View):
    """The GPUs of one VM: `count` of them with `memory_gib` GiB each."""

    model: str
    count: int
    memory_gib: int
    interconnect: str | None


class Image(View):
    """The driver-ready image a VM was started from. `driver_version`: of NVIDIA's driver, where the image tells it."""

    id: str | None
    name: str | None
    driver_version: str | None


class Reason(View):
    """Why a lease is where it is. `retryable`: the same request may succeed later."""

    code: Annotated[ReasonCode, Field(description=GROWS)]
    message: str
    origin: Annotated[Origin, Field(description=GROWS)]
    retryable: bool


class RequestedGpu(View):
    """The GPUs asked for."""

    model: str
    count: int
    memory_gib: int | None


class LeaseRequest(View):
    """The request as given, with the defaults filled in."""

    name: str
    gpu: RequestedGpu | None
    instance_types: list[str] | None
    market: MarketWish | None
    providers: list[str] | None
    regions: list[str] | None
    max_price_per_hour: str | None
    ttl_seconds: int
    wait_seconds: int
    ssh_public_keys: list[str]
    startup_script: Annotated[
        str | None,
        Field(description="Only in the answer to GET of one lease, never to viewers; null once it has ended."),
    ]
    image: str | None
    disk_gib: int
    public_ip: bool
    allowed_cidrs: list[str] | None
    on_interruption: OnInterruption
    labels: dict[str, str]


class Placement(View):
    """The offering at which the lease is, or was last. `instance_id` is the provider's own id, null until it is known."""

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: Annotated[Market, Field(description=GROWS)]
    gpu: Gpu
    vcpus: int
    memory_gib: float
    price_per_hour: Money
    image: Image
    instance_id: str | None
    extendable: Annotated[
        bool,
        Field(description="False: the cloud deletes the VM at the lease's end, and `extend` answers `not_extendable`."),
    ] = True


class Connection(View):
    """How to reach the VM, as far as it is known."""

    public_ip: str | None
    private_ip: str | None
    ssh_user: str | None
    ssh_port: int | None
    ssh_command: str | None
    ssh_host_keys: Annotated[
        list[str] | None, Field(description="As the VM told them after its first boot; null until then, or for good.")
    ]


class Interruption(View):
    """The provider will take the VM back. `action` is its own word: terminate, stop or hibernate."""

    notice_at: Moment | None
    deadline_at: Moment | None
    action: str | None


class Action(View):
    """Whether a call would be accepted now; `reason_code` is the error code it would get otherwise."""

    available: bool
    reason_code: str | None


class LeaseActions(View):
    """What the caller may do with the lease now."""

    release: Action
    extend: Action
    reboot: Action


class Cost(View):
    """What the lease has cost until `as_of`; `rate_per_hour` is null while nothing is billed."""

    accrued: Money
    rate_per_hour: Money | None
    as_of: Moment
    currency: str


class Lease(View):
    """A lease. `cost` and `last_observed_at` change by themselves, without a new `version` or ETag."""

    id: str
    tenant_id: str
    name: str
    state: Annotated[LeaseState, Field(description=f"Where it is; `reason` says why. {GROWS}")]
    desired: Annotated[Desired, Field(description="What its owner wants: never goes back from `end` to `run`.")]
    terminal: Annotated[bool, Field(description="It has ended, and nothing is left that costs money.")]
    billable: Annotated[bool, Field(description="It is being charged now.")]
    reason: Reason | None
    provider_message: Annotated[str | None, Field(description=PROVIDER_WORDS)]
    request: LeaseRequest
    placement: Placement | None
    connection: Connection | None
    interruption: Interruption | None
    health: str | None
    labels: dict[str, str]
    attempts_count: int
    actions: LeaseActions
    cost: Cost
    version: int
    created_at: Moment
    first_attempt_at: Moment | None
    launched_at: Moment | None
    running_at: Moment | None
    ready_at: Moment | None
    billing_started_at: Moment | None
    billing_ended_at: Moment | None
    expires_at: Moment
    wait_until: Annotated[Moment, Field(description="Until when it waits for capacity.")]
    release_requested_at: Moment | None
    provider_gone_at: Annotated[Moment | None, Field(description="When the provider confirmed that the VM is gone.")]
    ended_at: Moment | None
    updated_at: Moment
    last_observed_at: Annotated[Moment | None, Field(description="When its VM was last seen alive; null without one.")]


class LeasePage(View):
    """A page of leases. It ends before `limit`, with a `next_cursor`, once it holds 512 KiB."""

    items: list[Lease]
    next_cursor: str | None


class ConsoleOutput(View):
    """The end of what the VM of one attempt printed on its serial console, 64 KiB at most."""

    n: Annotated[int, Field(description="The attempt.")]
    text: str
    at: Annotated[Moment, Field(description="When it was read.")]


class ConsoleOutputPage(View):
    """The console output kept of a lease, in the order of its attempts."""

    items: list[ConsoleOutput]
    next_cursor: str | None


class AttemptOutcome(StrEnum):
    """What became of a try. The list may grow.

    `pending`: not sent, or the answer is awaited. `unknown`: no answer came; only looked for. `launched`: the VM is
    there. `refused`: the provider said no. `not_created`: given up, nothing was created. `ended`: the VM is gone.
    """

    PENDING = "pending"
    UNKNOWN = "unknown"
    LAUNCHED = "launched"
    REFUSED = "refused"
    NOT_CREATED = "not_created"
    ENDED = "ended"


class AttemptOffering(View):
    """Where it was tried, at which price."""

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    market: Annotated[Market, Field(description=GROWS)]
    gpu: Gpu
    vcpus: int
    memory_gib: float
    price_per_hour: Money
    image: Image


class AttemptError(View):
    """What went wrong last: our class, the provider's own code, and our sentence for it."""

    class_: Annotated[str | None, Field(alias="class")]
    code: str | None
    message: str | None
    provider_message: Annotated[str | None, Field(description=PROVIDER_WORDS)]


class Attempt(View):
    """One try of a lease at an offering."""

    id: str
    n: Annotated[int, Field(description="Counts from 1 within the lease.")]
    outcome: AttemptOutcome
    state: Annotated[AttemptState, Field(description=f"The protocol's own word. {GROWS}")]
    offering: AttemptOffering
    instance_id: str | None
    error: AttemptError | None
    cost: Annotated[Money, Field(description="USD until now.")]
    started_at: Moment
    sent_at: Moment | None
    launched_at: Moment | None
    billing_started_at: Moment | None
    billing_ended_at: Moment | None
    ended_at: Moment | None


class AttemptPage(View):
    """The tries of a lease, in order."""

    items: list[Attempt]
    next_cursor: str | None
