"""What adapters take and return. Times are UTC, amounts USD per hour of the whole VM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from app.domain.leases import VmState
from app.domain.offerings import InstanceType, Market
from app.domain.tags import OwnerTags
from workers.providers.errors import ProviderError, Refused

Params = dict[str, Any]
"""The exact, JSON-able parameters of a create call: stored before the call, sent as stored."""


OTHER_REGIONS = "other regions"
"""Stands in `ListingPage.failed` for the regions that a provider did not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A driver-ready image, resolved. `disk_gib` is the least disk that holds it; `root_device` its device name.

    `driver_version`: of NVIDIA's driver in it, where the image's own description tells it.
    """

    id: str
    name: str
    root_device: str | None = None
    disk_gib: int = 0
    driver_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeyReport:
    """Where a VM tells its public SSH host keys, once, and the one-time token that lets it."""

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """What one attempt asks for. `plan` turns it into the provider's parameters.

    `allowed_cidrs`: the networks that may reach port 22; empty: the account's own firewall decides alone.
    `max_seconds`: the longest that the VM may ever run; None: unknown. That covers all extensions of its lease, or none of them in
    an account that is not extendable.
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
    host_keys: HostKeyReport | None = None
    max_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    """One VM as a provider shows it. Times are the provider's, UTC.

    `id` contains the provider's immutable id, and whatever else its adapter needs to address it (`:` between the parts):
    a later VM of the same name is another one.
    `state_reason`: {"code", "message"} in the provider's words when the VM ends. `interrupted`: the provider
    took it back (spot). `ended_at`: the provider's own transition time when it says one. `refusal`: the VM was
    accepted and then not made (clouds that say "no capacity" only afterwards); its code is in `state_reason`.
    `launch_identity`: what the cloud keeps of the launch that made the VM and does not copy with its tags: the client
    token at EC2, the VM's name at Compute Engine and Azure. See `app.domain.tokens.is_genuine`.
    """

    id: str
    region: str
    zone: str
    instance_type: str
    market: Market
    state: VmState
    tags: Mapping[str, str]
    launch_identity: str | None = None
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
    """One page of a listing. `unreachable`: zones that this page says nothing about.

    `failed`: regions of which the whole listing tells nothing that counts, with the reason, while it goes on for others.
    """

    vms: Sequence[Vm]
    unreachable: frozenset[str] = frozenset()
    failed: Mapping[str, ProviderError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A notice that the provider will take a VM back. Times UTC; `action` is terminate, stop or hibernate."""

    vm_id: str
    notice_at: datetime
    deadline_at: datetime | None
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """A message of the account's queue. `regions`: where to look sooner; none for a message that tells nothing of use.

    It is a hint and no more: it may be lost, late, doubled or forged. `receipt`: what `acknowledge` needs of it.
    """

    receipt: str = field(repr=False)
    regions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something besides the VM: kind is volume, network_interface, address, security_group, ...

    `free`: it costs nothing, so that no lease waits for its removal; it must not pile up all the same.
    """

    kind: str
    id: str
    region: str
    tags: Mapping[str, str]
    in_use: bool
    free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Leftover resources of some leases. `unreachable`: zones in which there may be more."""

    found: Sequence[Leftover] = ()
    unreachable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What became of the items of one call. One item that refuses keeps no other from being done.

    `done`: the items that the provider accepted. `refused`: the other items, each with its own error; an item that was not tried
    because the provider throttles or does not answer has that error.
    """

    done: frozenset[str] = frozenset()
    refused: Mapping[str, ProviderError] = field(default_factory=dict)

    def require(self, *items: str) -> None:
        """Raises the error of the first of these items that was refused; of any item, when none is named."""
        for item in items or self.refused:
            if item in self.refused:
                raise self.refused[item]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """USD per hour of the whole VM, as its `source` told it at `as_of` (UTC)."""

    per_hour: Decimal
    as_of: datetime
    source: str


Prices = Mapping[tuple[str, Market], Price]
"""By type name and market; what is not known is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A type offered in a zone, with the price in USD per hour of each market it can be bought in (None: unknown).

    `price_live`: the provider told the price just now; else it is one of the adapter's own list.
    """

    type: InstanceType
    region: str
    zone: str
    market: Market
    price_per_hour: Decimal | None
    price_as_of: datetime | None
    price_source: str | None
    price_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuota:
    """A limit that the provider sets on this account: `limit` in the provider's `unit`."""

    region: str
    code: str
    name: str
    limit: Decimal
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A request rate to stay below: `burst` requests at once, `per_second` sustained."""

    burst: float
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Documented request rates of a provider, by our operation: launch, terminate, write, read."""

    rates: Mapping[str, Rate] = field(default_factory=dict)
