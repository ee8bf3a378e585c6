"""Bodies of the control API; unknown fields are refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudsim.world import AgentMode, FaultMode, Market
from cloudsim.world.gpus import RecoveryAction

MAX_PLANTED = 100_000
Seconds = Annotated[float, Field(ge=0, le=86_400 * 366)]


class Body(BaseModel):
    """Strict about what it is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CapacityBody(Body):
    """`available` more VMs in every place that matches (None as a place: any; None available: no limit)."""

    provider: str
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    market: Market | None = None
    available: Annotated[int, Field(ge=0)] | None


class FaultBody(Body):
    """`operation` is the API's own name, `*` for all, `boot` (error, hang and delay only), or `token` (the endpoint of access tokens).

    `count`: VMs that start (partial).
    """

    provider: str
    operation: str
    mode: FaultMode
    code: str | None = None
    times: Annotated[int, Field(ge=1)] | None = 1
    delay_seconds: Seconds | None = None
    region: str | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    count: Annotated[int, Field(ge=0)] = 1


class InterruptBody(Body):
    """Spot reclaim after a notice."""

    provider: str
    instance_id: str
    notice_seconds: Seconds = 120.0
    cause: Literal["no-capacity", "price"] = "no-capacity"


class ProtectionBody(Body):
    """Whether the API refuses to delete a VM or a resource. `id`: of the VM or the resource."""

    provider: str
    id: str
    protected: bool = True


class StopBody(Body):
    """Somebody ends the VM: from the console, or from inside (`instance`)."""

    provider: str
    instance_id: str
    initiator: Literal["user", "instance"] = "user"


class SubscriptionBody(Body):
    """The state of an Azure subscription, and the resource providers and features that it has not registered.

    `account` None: the one of the local stack.
    """

    account: str | None = None
    state: Literal["Enabled", "PastDue", "Warned", "Disabled", "Deleted"] = "Enabled"
    unregistered: list[str] = []


class ReservationBody(Body):
    """Buys `total` machines ahead under `id`, or changes what was bought. Times: seconds from now; None: no limit.

    `kind`: the cloud's own word. `ends_vms_before`: the cloud ends the VMs so many seconds before the end; None: never.
    """

    provider: str
    id: str
    kind: str
    zone: str
    instance_type: str
    total: Annotated[int, Field(ge=0)]
    account: str | None = None
    starts_in: float | None = None
    ends_in: float | None = None
    ends_vms_before: Seconds | None = None
    cancelled: bool = False


class PlantBody(Body):
    """`count` running VMs of somebody."""

    provider: str
    region: str
    instance_type: str
    zone: str | None = None
    account: str | None = None
    market: Market = Market.ON_DEMAND
    tags: dict[str, str] = {}
    token: str | None = None
    age_seconds: Seconds = 0.0
    count: Annotated[int, Field(ge=1, le=MAX_PLANTED)] = 1


class QuotaBody(Body):
    """vCPUs of one quota; None: back to the default."""

    provider: str
    code: str
    value: Annotated[int, Field(ge=0)] | None
    account: str | None = None
    region: str | None = None


class CredentialsBody(Body):
    """Each list or map given replaces the one in force. `accounts`: access key prefix to account."""

    bad: list[str] | None = None
    accounts: dict[str, Annotated[str, Field(pattern=r"^\d{12}$")]] | None = None


class SpotPricesBody(Body):
    """Spot prices become their list prices times `factor`, in one region or in all."""

    provider: str
    factor: Annotated[Decimal, Field(ge=Decimal(0), le=Decimal(100))]
    region: str | None = None


class ForwardBody(Body):
    """The time of the clouds moves forward by so many seconds, until cloudsim starts again."""

    seconds: Annotated[float, Field(gt=0, le=366 * 86_400)]


class OfferedBody(Body):
    """Is a type sold in a zone?"""

    provider: str
    zone: str
    instance_type: str
    offered: bool


class DeniedBody(Body):
    """The actions that the provider denies, by the names of its own rights. They replace those denied before."""

    provider: str
    actions: list[str]


class LaunchesBody(Body):
    """Every launch of the account is refused with `code` (None: no longer). `account` None: the cloud's usual one."""

    provider: str
    account: str | None = None
    code: str | None


class ImageBody(Body):
    """Whether there is an image. `image`: an id, a name or a family, as the cloud's own API names it."""

    provider: str
    image: str
    available: bool = False


class SubnetBody(Body):
    """Whether a subnet is in its usual state, and its free addresses (None: as at first). `subnet`: its id or name."""

    provider: str
    subnet: str
    open: bool = False
    free_addresses: Annotated[int, Field(ge=0)] | None = None


class DiskBody(Body):
    """A disk that no VM has."""

    provider: str
    id: str


class FileBody(Body):
    """A file of a VM, which exists on its volumes alone."""

    provider: str
    instance_id: str
    path: str
    text: str


class GpusBody(Body):
    """How GPUs are from now on: of the VM `instance_id`, else of VMs launched later, of one type or of all.

    The body replaces the earlier condition: what it leaves out is healthy. `visible`: GPUs that the driver shows. `model`: the
    name that the driver reports. `xids`: error codes since the boot. A reboot clears them and `recovery_action`. `utilization`: percent; None: a busy VM's curve.
    """

    provider: str
    instance_id: str | None = None
    instance_type: str | None = None
    visible: Annotated[int, Field(ge=0, le=64)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    xids: Annotated[tuple[Annotated[int, Field(ge=1, le=999)], ...], Field(max_length=64)] = ()
    remap_failed: bool = False
    recovery_action: RecoveryAction = RecoveryAction.NONE
    utilization: Annotated[int, Field(ge=0, le=100)] | None = None
    agent: AgentMode = AgentMode.ON
