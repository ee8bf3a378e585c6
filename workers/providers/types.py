"""Types that adapters take and return. Times are UTC, amounts USD per hour of the whole VM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from app.domain.ids import TenantId
from app.domain.leases import VmState
from app.domain.offerings import InstanceType, Market, Obstacle
from app.domain.tags import OwnerTags
from workers.providers.errors import ProviderError, Refused

Params = dict[str, Any]
"""The exact, JSON-serializable parameters of a create call. They are stored before the call and sent as stored."""


OTHER_REGIONS = "other regions"
"""Key in `ListingPage.failed` for the regions that a provider did not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A driver-ready image, resolved.

    `disk_gib`: the minimum disk size for the image in GiB. `root_device`: the image's root device name.
    `driver_version`: the version of NVIDIA's driver in the image, if the image's own description contains it.
    `nic_type`: the interface type that the image supports and the launch requests (Compute Engine).
    `purchase_plan`: publisher, product and name of a marketplace image that is sold with terms (Azure).
    """

    id: str
    name: str
    root_device: str | None = None
    disk_gib: int = 0
    driver_version: str | None = None
    nic_type: str | None = None
    purchase_plan: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeyReport:
    """The URL to which a VM reports its public SSH host keys once, and the one-time token for that request."""

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What the agent in a VM needs to report. `token`: of one attempt; it allows nothing else.

    `url`: of the API, without a path; None: the agent only writes its proof to the serial console. `serial`: whether it
    also writes there. `benchmark`: whether it measures the GPUs once. `sample_seconds`: between two samples.
    """

    token: str = field(repr=False)
    url: str | None
    serial: bool = True
    benchmark: bool = False
    sample_seconds: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """The group that a VM belongs to. It is the same for all members, so that they can be launched together.

    `placement`: any, same_zone or cluster. `interconnect`: none, preferred or required. `hosts_url`: where the VM reads
    its rank and the other members; None: it reads nothing. `token`: of the attempt, for that request: its agent's token.
    `ssh_private_key`: the key of logins between members, in OpenSSH's format; None: none.
    """

    group_id: str
    placement: str
    interconnect: str
    hosts_url: str | None
    token: str = field(repr=False)
    ssh_private_key: str | None = field(repr=False)


class DiskState(StrEnum):
    """The state of a volume's disk at its cloud. `unknown`: a state that the adapter does not know."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpec:
    """A disk to create. `volume_id`: the row's id, from which the token or the name of the disk is derived.

    `kind`: the cloud's name of the disk type, `*` in `disk_kinds`.
    """

    volume_id: str
    tenant_id: TenantId
    installation: str
    name: str
    zone: str
    size_gib: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudVolume:
    """A volume's disk as a cloud shows it. `id` is immutable. `attached_to`: the cloud's name of the VM that has it."""

    id: str
    region: str
    zone: str
    size_gib: int
    state: DiskState
    tags: Mapping[str, str]
    attached_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeListing:
    """The volumes of some regions. `failed`: regions for which the listing is not complete, with the error."""

    volumes: Sequence[CloudVolume] = ()
    failed: Mapping[str, ProviderError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
    """A volume that a VM mounts at `path`. `index`: its position in the request, from which its device follows."""

    cloud_id: str
    path: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """The VM that one attempt requests. `plan` converts the spec into the provider's parameters.

    `allowed_cidrs`: the networks that may reach `ssh_port`. If empty, only the account's own firewall lets somebody in.
    `agent`: None if the VM runs no agent.
    `max_seconds`: the maximum run time of the VM in seconds; None: unknown. The maximum covers all extensions of the
    lease, or none of them in an account that is not extendable.
    `reservation`: name of the account's reservation in which the VM runs. `queue_seconds`: how long the launch may wait in
    the provider's queue.
    `group`: None for a lease of its own.
    `volumes`: attached once the VM runs. The boot configuration waits for them.
    `slot_secret`: only of a batch, 64 hexadecimal characters. Each VM derives its own tokens from it, as
    `app.domain.tokens.slot_token` does, and `host_keys.token` and `agent.token` are not used.
    """

    token: str
    owner: OwnerTags
    name: str
    region: str
    zone: str
    instance_type: str
    market: Market
    image: Image
    disk_gib: int
    public_ip: bool
    ssh_public_keys: tuple[str, ...]
    startup_script: str | None
    labels: Mapping[str, str]
    allowed_cidrs: tuple[str, ...] = ()
    ssh_port: int = 22
    host_keys: HostKeyReport | None = None
    agent: AgentConfig | None = None
    max_seconds: int | None = None
    reservation: str | None = None
    queue_seconds: int | None = None
    slot_secret: str | None = field(default=None, repr=False)
    group: GroupSpec | None = None
    volumes: tuple[VolumeSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One VM of a launch batch.

    `index`: from 0. It is the AmiLaunchIndex at EC2, and the position among the names at Compute Engine.
    `token`: the launch token of the slot's attempt. Compute Engine names the VM `launch_name(token)`.
    """

    index: int
    token: str
    owner: OwnerTags


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    """One VM as a provider shows it. Times are the provider's, UTC.

    `id` contains the provider's immutable id, so a later VM of the same name has another `id`. The `id` also contains
    all that the adapter needs to address the VM (`:` between the parts).
    `state_reason`: {"code", "message"} in the provider's words when the VM ends.
    `interrupted`: the provider interrupted the VM (spot).
    `ended_at`: the provider's own transition time, if it returns one.
    `refusal`: the provider accepted the VM and then did not create it (clouds that report "no capacity" only
    afterwards). The error code is in `state_reason`.
    `launch_identity`: what the cloud stores of the launch that created the VM and does not copy with its tags. This is
    the client token at EC2, and the VM's name at Compute Engine and Azure. See `app.domain.tokens.is_genuine`.
    `batch`: id of the launch batch that created the VM, and the VM's slot in it; None if it belongs to no batch.
    """

    id: str
    region: str
    zone: str
    instance_type: str
    market: Market
    state: VmState
    tags: Mapping[str, str]
    launch_identity: str | None = None
    batch: tuple[str, int] | None = None
    launched_at: datetime | None = None
    ended_at: datetime | None = None
    public_ip: str | None = None
    private_ip: str | None = None
    state_reason: Mapping[str, str | None] | None = None
    interrupted: bool = False
    refusal: type[Refused] | None = None
    price_per_hour: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPage:
    """One page of a listing. `unreachable`: zones about which this page contains no information.

    `failed`: regions for which the whole listing is not valid, with the error. The listing continues for other regions.
    """

    vms: Sequence[Vm]
    unreachable: frozenset[str] = frozenset()
    failed: Mapping[str, ProviderError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A notice that the provider will interrupt a VM. Times are UTC; `action` is terminate, stop or hibernate."""

    vm_id: str
    notice_at: datetime
    deadline_at: datetime | None
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """A message of the account's queue. `regions`: the regions to observe sooner; none for a message of no use.

    An event is only a hint: it may be lost, late, duplicated or forged.
    `receipt`: the handle that `acknowledge` needs.
    """

    receipt: str = field(repr=False)
    regions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A resource besides the VM: kind is volume, network_interface, address, security_group, ...

    `free`: the resource costs nothing, so no lease waits for its removal. Free resources must still not pile up.
    """

    kind: str
    id: str
    region: str
    tags: Mapping[str, str]
    in_use: bool
    free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Leftover resources of some leases. `unreachable`: zones that may contain more leftover resources."""

    resources: Sequence[Leftover] = ()
    unreachable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """The results of the items of one call. A refused item does not block the other items.

    `done`: the items that the provider accepted. `refused`: the other items, each with its own error. An item that was
    not tried, because the provider throttles or does not answer, has that error.
    """

    done: frozenset[str] = frozenset()
    refused: Mapping[str, ProviderError] = field(default_factory=dict)

    def require(self, *items: str) -> None:
        """Raises the error of the first of these items that was refused. Without arguments, checks all items."""
        for item in items or self.refused:
            if item in self.refused:
                raise self.refused[item]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLaunched:
    """The result of the create call of a launch batch, by slot. A slot in neither mapping has an unknown outcome.

    `missing`: the slots for which the call definitely created no VM, each with its own error.
    """

    vms: Mapping[int, Vm]
    missing: Mapping[int, ProviderError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """USD per hour of the whole VM, as `source` reported the price at `as_of` (UTC)."""

    per_hour: Decimal
    as_of: datetime
    source: str


ADDRESS = "address"
"""The kind of a public IPv4 address among prices of parts. Other kinds are the provider's names of network disks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPrice:
    """USD for a GiB and month of a kind of network disk, or for an hour of a public IPv4 address. See `Price`."""

    usd: Decimal
    as_of: datetime
    source: str


Prices = Mapping[tuple[str, Market], Price]
"""Prices by type name and market. An unknown price has no entry."""

ListedKey = tuple[str, str, Market]
"""(region, type name, market)."""

PriceList = Mapping[ListedKey, Price]
"""Prices of several regions. An unknown price has no entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePage:
    """The part of a provider's price list about `types`, in all regions.

    `error`: the reason why the provider could not be asked about these types. `prices` is then empty.
    """

    types: frozenset[str]
    prices: PriceList = field(default_factory=dict)
    error: ProviderError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOffering:
    """A type offered in a zone and market, with the price in USD per hour (None: unknown).

    `price_live`: the provider has just returned the price. Otherwise the price is from the adapter's own list.
    `obstacle`: why this account cannot buy it. A request that only fits such offerings gets this reason.
    """

    type: InstanceType
    region: str
    zone: str
    market: Market
    price_per_hour: Decimal | None
    price_as_of: datetime | None
    price_source: str | None
    price_live: bool = False
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReservation:
    """A configured reservation as the provider reports it. `name`: in the account's settings.

    `slots` and `free`: VMs in all, and VMs that can still start; None: no fixed number.
    `starts_at`, `ends_at`: when VMs may run; a provider that ends VMs earlier reports that time as `ends_at`.
    `shortest_wait`: the least seconds that a launch may wait in the provider's queue; None: there is no queue.
    `longest_run`: seconds that one VM may run; None: no limit.
    `problem`: why the provider accepts no VM.
    """

    name: str
    type: InstanceType
    slots: int | None = None
    free: int | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    shortest_wait: int | None = None
    longest_run: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuota:
    """A limit that the provider sets for this account: `limit` in the provider's `unit`."""

    region: str
    code: str
    name: str
    limit: Decimal
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRate:
    """Maximum request rate: `burst` requests at once, `per_second` sustained."""

    burst: float
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Documented request rates of a provider, by operation of gpulease: launch, terminate, write, read.

    `batch`: the most VMs of one create call. With 1, the methods for batches are never called.
    `terminations`: the most VMs that end with one call. With 1, each VM needs a call of its own.
    `readiness`: the most VMs whose readiness one call reports. With 1, each VM needs a call of its own.
    `named_slots`: a VM of a batch derives its tokens from its name, because the cloud shows it no launch index.
    """

    rates: Mapping[str, CallRate] = field(default_factory=dict)
    batch: int = 1
    terminations: int = 1
    readiness: int = 1
    named_slots: bool = False
