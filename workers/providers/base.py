"""The provider interface and its errors: what an adapter must do, and what its caller does on each failure.

An adapter is bound to one account and holds the SDK's clients. It keeps no state of leases, opens no
transaction, makes no decision. Every call is bounded by the account's time-outs, does not retry inside the
SDK, and raises only `ProviderError`s. Errors are named for what the caller must do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from app.domain.error_kinds import ErrorKind
from app.domain.leases import VmState
from app.domain.offerings import InstanceType, Market
from app.domain.tags import OwnerTags

Params = dict[str, Any]
"""The exact, JSON-able parameters of a create call: stored before the call, sent as stored."""


# --- errors -----------------------------------------------------------------------------------------------


class ProviderError(Exception):
    """Base. `code` is the provider's own word, kept raw; `message` is for a person and holds no secret.

    `answered`: the provider itself answered. False: the call may have timed out, or its connection was lost.
    """

    answered = True

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    @property
    def kind(self) -> ErrorKind:
        """What an attempt's `error.class` shows."""
        return ErrorKind(type(self).__name__)


class Refused(ProviderError):
    """Definitely not created. The attempt ends; the next candidate is tried."""


class InsufficientCapacity(Refused):
    """No capacity at this offering now: cool it off for minutes."""


class ProviderQuotaExceeded(Refused):
    """Our own quota at the provider is used up: cool off this account's region and family."""


class NotOffered(Refused):
    """This type is not offered there (wrong zone, unsupported market): cool off for an hour."""


class InvalidSpec(Refused):
    """The provider does not accept the parameters: trying the same again elsewhere may help, here it cannot."""


class ImageMissing(InvalidSpec):
    """No driver-ready image is found, or the pinned one does not exist: nothing can be launched there."""


class PriceTooLow(Refused):
    """The offered price is below the present spot price."""


class CredentialsRejected(Refused):
    """Credentials or rights fail: the whole account is set aside with this reason; nothing was done."""


class Throttled(ProviderError):
    """Not done, ask later: slows the account down, never fails a lease. `retry_after` in seconds, if told."""

    def __init__(self, message: str, *, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Unreachable(Throttled):
    """No connection could be made, so nothing was sent: not done, ask later. A Throttled with another name."""

    answered = False


class SendExpired(ProviderError):
    """The time for this create call was over before it left: nothing was sent. See `send_window`."""


class OutcomeUnknown(ProviderError):
    """May have been done or not (time-out, lost connection, 5xx, unknown code): only the same call may follow."""

    def __init__(self, message: str, *, code: str | None = None, answered: bool = True) -> None:
        super().__init__(message, code=code)
        self.answered = answered


class NotFound(ProviderError):
    """The provider does not know this id. For a create's parameters it is `InvalidSpec` instead."""


class TokenConflict(ProviderError):
    """Something exists already under this token or name: read it back, compare the tags, adopt it."""


OTHER_REGIONS = "other regions"
"""Stands in `ListingPage.failed` for the regions that a provider did not name."""


# --- values -----------------------------------------------------------------------------------------------


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


# --- interface --------------------------------------------------------------------------------------------


class Provider(Protocol):
    """What gpulease asks of a cloud account. All methods block; all raise ProviderError.

    **A call with several items fails item by item.** A call that changes something returns a `BatchResult`. A call that reads
    leaves out what it could not read and logs the reason; it raises only when it could read nothing.

    `lists_all_regions`: a listing of several regions costs the calls of one, so that they are listed together.
    """

    limits: Limits
    ssh_user: str
    lists_all_regions: bool

    def identity(self) -> str:
        """The account's own identity at the provider (STS account, project number, subscription id)."""
        ...

    def trust(self, identity: str) -> None:
        """From now on requests about VMs are sent only with credentials that `identity` was answered this for.

        Others raise `CredentialsUnverified` and send nothing. Before the first call every request is sent.
        """
        ...

    def offered(self, region: str) -> Sequence[Offered]:
        """Every GPU type offered in a region, by zone and market, priced where a price is known.

        A zone that cannot be read is left out.
        """
        ...

    def prices(self, region: str) -> Prices:
        """What the provider's price list says today of the catalogue's types, as far as `offered` does not tell it live.

        Asked of another service than VMs are, with rights of its own: its failure says nothing of the account.
        """
        ...

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """The provider's limits that bound GPU launches in a region."""
        ...

    def image(self, region: str, name: str | None = None) -> Image:
        """The newest driver-ready image or the pinned one; by `name`, one of the account's `images`. `InvalidSpec`: none."""
        ...

    def plan(self, spec: LaunchSpec) -> Params:
        """The parameters of the create call. Pure: no network, same spec same parameters."""
        ...

    def launch(self, region: str, params: Params) -> Vm:
        """Creates the VM, with its firewall rules before it, and returns at once.

        Repeating with the same parameters returns the same VM. A refusal leaves nothing that costs money. The last thing
        before the create call is `require_open_window`. Errors that come after the cloud accepted the call, or said that
        the VM exists, are OutcomeUnknown or TokenConflict: all others mean that this call did nothing.
        """
        ...

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """Direct look for what an attempt may have created; None says only that nothing is seen now.

        Returns a VM only when its installation, lease and attempt tags are the owner's.
        """
        ...

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """Direct get of VMs; None for an id that the provider does not know. Costs O(pages).

        An id of which nothing could be told is left out; raises when that is all of them.
        """
        ...

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Every VM of these regions tagged with this installation, ended ones that still show included, page by page.

        Raises when it can tell of none of the regions; what concerns some of them alone may stand in `ListingPage.failed`.
        """
        ...

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """Every VM of this installation in all regions of the account, configured or not: what the dead-man switch looks at.

        Needs the rights to list regions and VMs and no others, so a VM may lack addresses and the reason of its end.
        A place that cannot be read is in `ListingPage.unreachable` or `ListingPage.failed`. Raises when nothing can be read.
        """
        ...

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        """Those of the running VMs that have passed the provider's readiness checks. Costs O(pages).

        Where each VM takes a call of its own, one that fails leaves out that VM alone; raises when all fail.
        """
        ...

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        """VMs of this installation that the provider has announced to take back; raises when none of the regions tells."""
        ...

    def events(self) -> Sequence[ProviderEvent]:
        """Messages of the account's queue, waiting a few seconds at most for the first; they come again unless acknowledged."""
        ...

    def acknowledge(self, events: Sequence[ProviderEvent]) -> None:
        """These messages were used."""
        ...

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Asks for the end of VMs. Confirmed by `get`, not by this.

        Done are those that the provider knew, whatever their state. One that it does not know is neither done nor refused.
        """
        ...

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """What else exists of these leases (all when None): what costs money, and what must not pile up."""
        ...

    def remove_leftover(self, leftover: Leftover) -> None:
        """Removes one; silently succeeds when it is gone already. Any error but `Throttled` concerns this one alone."""
        ...

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Asks for a reboot and returns at once. Refused with `NotFound` or `InvalidSpec`: a VM that cannot be rebooted."""
        ...

    def console_output(self, region: str, vm_id: str) -> str:
        """The last lines of a VM's serial console as the provider has them, at most 64 KiB; "" for none."""
        ...

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Writes the deadline tag of VMs, and of what belongs to them.

        Done are VMs whose own tag is written. Refused are VMs, with `NotFound` where the provider does not know one, and what
        belongs to a VM, by its own id.
        """
        ...
