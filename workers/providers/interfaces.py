"""What an adapter must do: a port for each subject, and `Provider`, which is all of them.

An adapter is bound to one account and holds the SDK's clients. It keeps no state of leases, opens no
transaction, makes no decision. Every call is bounded by the account's time-outs, does not retry inside the
SDK, and raises only errors of `workers.providers.errors`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from app.domain.tags import OwnerTags
from workers.providers.types import (
    BatchResult,
    Image,
    Interruption,
    LaunchSpec,
    Leftover,
    Leftovers,
    Limits,
    ListingPage,
    Offered,
    Params,
    Prices,
    ProviderEvent,
    ServiceQuota,
    Vm,
)


class Identity(Protocol):
    """Who the account is, and that requests are sent as nobody else."""

    def identity(self) -> str:
        """The account's own identity at the provider (STS account, project number, subscription id)."""
        ...

    def trust(self, identity: str) -> None:
        """From now on requests about VMs are sent only with credentials that `identity` was answered this for.

        Others raise `CredentialsUnverified` and send nothing. Before the first call every request is sent.
        """
        ...


class Catalogue(Protocol):
    """What can be launched, at which price, within which limits, from which image."""

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


class Launching(Protocol):
    """Making a VM: once for each attempt, however often the call is repeated."""

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


class VmActions(Protocol):
    """What is done to VMs that exist."""

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Asks for the end of VMs. Confirmed by `get`, not by this.

        Done are those that the provider knew, whatever their state. One that it does not know is neither done nor refused.
        """
        ...

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Asks for a reboot and returns at once. Refused with `NotFound` or `InvalidSpec`: a VM that cannot be rebooted."""
        ...

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Writes the deadline tag of VMs, and of what belongs to them.

        Done are VMs whose own tag is written. Refused are VMs, with `NotFound` where the provider does not know one, and what
        belongs to a VM, by its own id.
        """
        ...

    def console_output(self, region: str, vm_id: str) -> str:
        """The last lines of a VM's serial console as the provider has them, at most 64 KiB; "" for none."""
        ...


class Observing(Protocol):
    """Looking at VMs."""

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


class LeftoverRemoval(Protocol):
    """What VMs leave behind."""

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """What else exists of these leases (all when None): what costs money, and what must not pile up."""
        ...

    def remove_leftover(self, leftover: Leftover) -> None:
        """Removes one; silently succeeds when it is gone already. Any error but `Throttled` concerns this one alone."""
        ...


class ProviderEvents(Protocol):
    """Messages of the cloud, which make the next look come sooner."""

    def events(self) -> Sequence[ProviderEvent]:
        """Messages of the account's queue, waiting a few seconds at most for the first; they come again unless acknowledged."""
        ...

    def acknowledge(self, events: Sequence[ProviderEvent]) -> None:
        """These messages were used."""
        ...


class Provider(Identity, Catalogue, Launching, VmActions, Observing, LeftoverRemoval, ProviderEvents, Protocol):
    """What gpulease asks of a cloud account. All methods block; all raise ProviderError.

    **A call with several items fails item by item.** A call that changes something returns a `BatchResult`. A call that reads
    leaves out what it could not read and logs the reason; it raises only when it could read nothing.

    `lists_all_regions`: a listing of several regions costs the calls of one, so that they are listed together.
    """

    limits: Limits
    ssh_user: str
    lists_all_regions: bool
