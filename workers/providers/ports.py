"""The contract of an adapter: one interface per subject, and `Provider`, which combines all of them.

An adapter belongs to one account and contains the SDK's clients. It stores no lease state, opens no transaction and
makes no decision. The account's timeouts limit every call. A call does not retry inside the SDK, and raises only errors
of `workers.providers.errors`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from app.domain.account_checks import AccountCheck
from app.domain.offerings import Driver
from app.domain.tags import OwnerTags
from workers.providers.calls import call, calls_of
from workers.providers.types import (
    BatchLaunched,
    BatchResult,
    CloudVolume,
    DiskSpec,
    Image,
    Interruption,
    LaunchSpec,
    Leftover,
    Leftovers,
    Limits,
    ListingPage,
    ObservedReservation,
    Params,
    PartPrice,
    PricePage,
    Prices,
    ProviderEvent,
    ProviderOffering,
    ServiceQuota,
    Slot,
    Vm,
    VolumeListing,
    VolumeSpec,
)


class Identity(Protocol):
    """The identity of the account, and the check that requests use no other identity."""

    @call(verified=False)
    def identity(self) -> str:
        """The account's own identity at the provider (STS account, project number, subscription id)."""
        ...

    def trust(self, identity: str) -> None:
        """Requires for later requests about VMs that `identity()` has returned this value for their credentials.

        A request with other credentials raises `CredentialsUnverified` and sends nothing. Before the first call of
        `trust`, every request is sent.
        """
        ...


class Catalogue(Protocol):
    """The offerings of the account, with their prices, service quotas and images."""

    @call(of_vms=False)
    def offered(self, region: str) -> Sequence[ProviderOffering]:
        """Every GPU type offered in a region, by zone and market, priced where a price is known.

        A zone that cannot be read is left out.
        """
        ...

    @call(verified=False, of_vms=False)
    def prices(self, region: str) -> Prices:
        """Today's prices of the catalogue's types in the provider's price list, except those that `offered` reads live.

        Prices come from a separate service that needs separate permissions. A failure of that service therefore says
        nothing about the account.
        """
        ...

    def disk_kinds(self) -> Mapping[str, str]:
        """The kind of the network disks that VMs get, by instance type. `*`: every other type, and volumes.

        Makes no call.
        """
        ...

    @call(verified=False, of_vms=False)
    def part_prices(self, region: str) -> Mapping[str, PartPrice]:
        """Today's prices by kind: of the region's network disks, and of a public address (`ADDRESS`).

        From the service of `prices`. An unknown price has no entry.
        """
        ...

    def price_list(self) -> Iterator[PricePage]:
        """Today's prices of the catalogue's types in every region of the provider's price list, page by page.

        Contains the markets that `prices` contains. The pages together name every type of the catalogue once.
        """
        ...

    @call(of_vms=False)
    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """The provider's limits that bound GPU launches in a region."""
        ...

    @call(of_vms=False)
    def reservations(self, region: str) -> Sequence[ObservedReservation]:
        """The account's configured reservations in a region, with what is free in each.

        Omits a reservation of an instance type that the catalogue does not contain, and one that could not be read.
        Raises ProviderError when none could be read.
        """
        ...

    @call()
    def image(self, region: str, name: str | None = None, driver: Driver = Driver.NVIDIA) -> Image:
        """The newest image with `driver` or the account's own; with `name`, one of the account's `images`.

        Raises `InvalidSpec` when there is no such image.
        """
        ...


class Launching(Protocol):
    """Creation of VMs: one VM for each attempt, however often the call is repeated."""

    def plan(self, spec: LaunchSpec) -> Params:
        """The parameters of the create call. A pure function: no network, and the same parameters for the same spec."""
        ...

    @call()
    def launch(self, region: str, params: Params) -> Vm:
        """Creates the firewall rules, then the VM, and returns at once.

        A repeat with the same parameters returns the same VM. A refusal leaves nothing that costs money. The adapter
        makes the create call inside `create_call` (`send_window`). After the cloud accepted the call, or reported
        that the VM exists, errors are OutcomeUnknown or TokenConflict. All other errors mean that this call did
        nothing.
        """
        ...

    @call()
    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """Looks up directly the VM that an attempt may have created. None means only that the cloud shows no VM now.

        Returns a VM only when its installation, lease and attempt tags are the owner's.
        """
        ...


class BatchLaunching(Protocol):
    """Creation of several VMs of one tenant with one call, for `limits.batch > 1`. Else: `common.single.SingleLaunches`."""

    def plan_batch(self, spec: LaunchSpec, batch_id: str, token: str, slots: Sequence[Slot]) -> Params:
        """The parameters of a create call for all slots. A pure function, as `plan`.

        `spec` contains what the slots share, and the latest of their deadlines. Its token, name, lease and attempt are not
        used. The VMs are tagged with the rest of the owner, `batch_id` and the labels.
        """
        ...

    @call()
    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        """As `launch`, for all slots. A repeat with the same parameters returns the same VMs.

        Errors are those of `launch`, and concern all slots: a refusal means that no VM was created.
        """
        ...

    @call()
    def find_batch(self, region: str, params: Params) -> Mapping[int, Vm]:
        """Every VM of the batch's slots that the cloud shows now, including VMs that have ended."""
        ...

    @call()
    def label_slots(
        self, region: str, owners: Mapping[str, OwnerTags], names: Mapping[str, str] | None = None
    ) -> BatchResult:
        """Writes owner tags and names of leases, by VM id, on VMs of a batch and on the resources that belong to them.

        Returns what `set_deadline` returns. Nothing depends on these tags: `Vm.batch` identifies a VM before.
        """
        ...


class VmActions(Protocol):
    """Actions on VMs that exist."""

    @call()
    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Requests termination of VMs. Only `get` confirms the termination.

        `done` contains the VMs that the provider knew, in any state. An unknown VM is neither done nor refused.
        """
        ...

    @call()
    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Requests a reboot and returns at once.

        A VM that cannot be rebooted is refused with `NotFound` or `InvalidSpec`.
        """
        ...

    @call()
    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Writes the deadline tag of VMs, and of the resources that belong to them.

        `done` contains the VMs whose own tag is written. `refused` contains VMs, and by their own ids the resources
        that belong to a VM. A VM that the provider does not know is refused with `NotFound`.
        """
        ...

    @call()
    def console_output(self, region: str, vm_id: str) -> str:
        """The last lines of a VM's serial console that the provider stores, at most 64 KiB; "" for none."""
        ...


class Observing(Protocol):
    """Observation of VMs."""

    @call()
    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """Reads VMs directly; None for an id that the provider does not know. Costs O(pages).

        Omits an id that could not be read. Raises when no id could be read.
        """
        ...

    @call(timed=False, verified=False)
    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Every VM of these regions tagged with this installation, page by page, including ended VMs that still show.

        Raises when none of the regions can be read. Errors of single regions may be in `ListingPage.failed`.
        """
        ...

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """Every VM of this installation in all regions of the account, configured or not. The dead-man switch uses it.

        Needs only the permissions to list regions and VMs, so a VM may lack addresses and the reason for its end.
        A zone or region that cannot be read is in `ListingPage.unreachable` or `ListingPage.failed`. Raises when
        nothing can be read.
        """
        ...

    @call()
    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        """The running VMs that have passed the provider's readiness checks. Costs O(pages).

        Where each VM needs its own call, a failed call omits only that VM. Raises when all calls fail.
        """
        ...

    @call()
    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        """Interruptions that the provider has announced for VMs of this installation.

        Raises when none of the regions can be read.
        """
        ...


class LeftoverRemoval(Protocol):
    """Resources that VMs leave behind."""

    @call()
    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Other resources of these leases (all leases when None).

        Includes resources that cost money, and resources that must not pile up.
        """
        ...

    @call()
    def remove_leftover(self, leftover: Leftover) -> None:
        """Removes a resource; a missing resource is success. Any error but `Throttled` concerns this resource alone."""
        ...


class Volumes(Protocol):
    """Disks that outlive VMs. Every call may be repeated."""

    @call()
    def create_volume(self, region: str, new: DiskSpec) -> CloudVolume:
        """Creates the disk and returns at once. A repeat returns the same disk.

        A refusal means that this call created nothing. TokenConflict: another disk has the name.
        """
        ...

    @call()
    def get_volumes(self, region: str, volume_ids: Sequence[str]) -> Mapping[str, CloudVolume | None]:
        """Reads disks directly; None for an id that the cloud does not know. Omits an id that could not be read.

        Raises when no id could be read.
        """
        ...

    @call()
    def list_volumes(self, regions: frozenset[str], installation: str) -> VolumeListing:
        """Every disk of these regions that has the tags of a volume of this installation.

        Raises when none of the regions can be read.
        """
        ...

    @call()
    def attach_volume(self, region: str, vm_id: str, volume: VolumeSpec) -> bool:
        """Whether the cloud shows the disk attached to this VM. If not, the call that attaches it has been sent.

        Raises NotReady while another VM has the disk. The end of the VM detaches the disk and does not delete it.
        """
        ...

    @call()
    def delete_volume(self, region: str, volume_id: str) -> None:
        """Requests deletion. A missing disk is success. Raises NotReady while a VM has the disk."""
        ...


class ProviderEvents(Protocol):
    """Messages of the cloud, which make the next observation start sooner."""

    @call(verified=False, of_vms=False)
    def events(self) -> Sequence[ProviderEvent]:
        """Messages of the account's queue. Waits a few seconds at most for the first message.

        The queue delivers a message again unless `acknowledge` is called for it.
        """
        ...

    @call(verified=False, of_vms=False)
    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Confirms that these messages were used."""
        ...


class Checking(Protocol):
    """Checks of an account before its first lease. Optional: a provider may lack this port.

    A check reads, or asks what a call would do. It changes nothing at the cloud. Both methods put an error of a call
    into its check. They raise nothing.
    """

    @call(timed=False, of_vms=False)
    def check_account(self, installation: str) -> Sequence[AccountCheck]:
        """What concerns the account as a whole. The credentials come first.

        After failed credentials, the result contains nothing else.
        """
        ...

    @call(timed=False, of_vms=False)
    def check_region(self, region: str, installation: str) -> Sequence[AccountCheck]:
        """What concerns a region. Needs working credentials."""
        ...


class Provider(
    Identity,
    Catalogue,
    Launching,
    BatchLaunching,
    VmActions,
    Observing,
    LeftoverRemoval,
    Volumes,
    ProviderEvents,
    Protocol,
):
    """Everything that gpulease needs from a cloud account. All methods block; all raise ProviderError.

    **A call with several items fails item by item.** A call that changes something returns a `BatchResult`. A call that
    reads omits the items that it could not read and logs the reason. It raises only when it could read nothing.

    `lists_all_regions`: a listing of several regions costs the calls of one region, so the regions are listed together.
    """

    limits: Limits
    ssh_user: str
    lists_all_regions: bool


CALLS = calls_of(Provider, Checking)
"""Each method that calls the cloud, but `list_everywhere` of the dead-man switch and `price_list` of the command `prices`."""
