"""One Google project as a provider: each method calls Google Cloud and returns the types of the interface."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock

from app.domain.account_checks import AccountCheck
from app.domain.offerings import Driver, InstanceType
from app.domain.tags import OwnerTags
from app.domain.tokens import launch_name
from app.settings import Settings
from app.settings.reservations import ReservationSettings
from workers.providers.common.images import configured_image, no_image
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import NotOffered, ProviderError
from workers.providers.gcp import (
    batches,
    catalogue,
    checks,
    deadlines,
    events,
    groups,
    images,
    instances,
    launch,
    leftovers,
    offerings,
    prices,
    quotas,
    reservations,
    userdata,
)
from workers.providers.gcp import interruptions as spot
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.prices import GooglePrices
from workers.providers.gcp.sdk import ProjectsClient
from workers.providers.gcp.settings import GcpAccount
from workers.providers.gcp.volumes import GcpVolumes
from workers.providers.types import (
    BatchLaunched,
    BatchResult,
    CallRate,
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
)

LIMITS = Limits(
    rates={
        "launch": CallRate(burst=20, per_second=5),
        "terminate": CallRate(burst=50, per_second=5),
        "write": CallRate(burst=50, per_second=5),
        "read": CallRate(burst=100, per_second=10),
    },
    batch=1_000,
    named_slots=True,
)
"""Source: Compute Engine guide, "Rate quotas": 1,500 requests a minute and project for each group of methods.

One operation on a VM here takes up to four requests, and other programs share the project. instances.bulkInsert takes at
most 1,000 VMs.
"""


_LIST_SECONDS = 300.0


class GcpProvider(GcpVolumes):
    """See `Provider` for the contract. The constructor makes no call. Any thread may call any method."""

    limits = LIMITS
    ssh_user = userdata.SSH_USER
    lists_all_regions = True

    def __init__(self, account: GcpAccount, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._account = account
        self._guard = CredentialGuard()
        self._clients = GcpClients(account, settings, self._guard)
        self._groups = groups.GcpGroupResources()
        self._clock = clock
        self._price_lock = Lock()
        self._listed = GooglePrices()
        self._listed_until = float("-inf")

    def identity(self) -> str:
        """The project's number. Google may reassign a project's name, but never its number."""
        with self._guard.asking() as question:
            identity = str(self._clients.ask(self._clients.of(ProjectsClient).get).id)
        self._guard.learn(question, identity)
        return identity

    def trust(self, identity: str) -> None:
        """Sends later requests to Compute Engine only with access tokens that were verified for `identity`."""
        self._guard.trust(identity)

    def offered(self, region: str) -> Sequence[ProviderOffering]:
        """Catalogue types by zone. A type without networks for its GPUs there has no network fabric."""
        return list(offerings.by_zone(self._clients, catalogue.load(), self._account, region))

    def prices(self, region: str) -> Prices:
        """The price of each type, on demand and spot, as the sum of the prices of its parts."""
        listed = self._price_list().types
        return {(name, market): price for (place, name, market), price in listed.items() if place == region}

    def disk_kinds(self) -> Mapping[str, str]:
        """The account's disk type, or the type that each machine type boots from, and Balanced PD for volumes."""
        chosen = self._account.disk_type
        if chosen is not None:
            return {"*": chosen}
        return {
            "*": self._account.volume_kind,
            **{name: machine.boot_disk for name, machine in catalogue.load().machines.items()},
        }

    def part_prices(self, region: str) -> Mapping[str, PartPrice]:
        """Of disks without extra IOPS or throughput, and of the external address of a standard VM."""
        return self._price_list().parts_in(region)

    def price_list(self) -> Iterator[PricePage]:
        """One page: Google's price list is one download for all types and regions."""
        try:
            yield PricePage(types=frozenset(catalogue.load().types), prices=self._price_list().types)
        except ProviderError as error:
            yield PricePage(types=frozenset(catalogue.load().types), error=error)

    def _price_list(self) -> GooglePrices:
        """Google's list has about 30,000 entries for all regions. One download serves the regions of a price job."""
        with self._price_lock:
            if self._clock() >= self._listed_until:
                now = datetime.fromtimestamp(self._clock(), tz=UTC)
                self._listed = prices.everywhere(self._clients, self._account.endpoint_url, catalogue.load(), now)
                self._listed_until = self._clock() + _LIST_SECONDS
            return self._listed

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """Limits on GPUs by model, on demand and spot, and GPUS_ALL_REGIONS."""
        return quotas.read(self._clients, region)

    def reservations(self, region: str) -> Sequence[ObservedReservation]:
        """Reservations, one call each, and flex-start, which needs none."""
        configured = self._account.reservations_in(region)
        return list(reservations.observed(self._clients, configured, self._type_in))

    def _type_in(self, reservation: ReservationSettings) -> InstanceType | None:
        known, name = catalogue.load(), reservation.instance_type
        if name not in known.types:
            return None
        kind, machine = known.types[name], known.machines[name]
        return offerings.in_zone(kind, machine, self._account, reservation.region, reservation.zone)

    def image(self, region: str, name: str | None = None, driver: Driver = Driver.NVIDIA) -> Image:  # noqa: ARG002  images are the same in all regions
        """The newest image of a public family, or the pinned image; see `images`."""
        pin = configured_image(self._account, name, driver)
        if pin is None and driver is not Driver.NVIDIA:
            raise no_image(self._account.name, driver)
        return images.resolve(self._clients, pin)

    def plan(self, spec: LaunchSpec) -> Params:
        """Parameters of instances.insert and of the firewall rules that are created before it.

        Raises NotOffered for a type that is not in the catalogue, or that the group's placement does not allow.
        """
        return launch.plan(spec, self._account, _machine(spec))

    def launch(self, region: str, params: Params) -> Vm:
        """Creates the firewall rules and the placement policy, then calls instances.insert without waiting for the operation.

        Raises a refusal that the operation has at once. `get` and `find` return a refusal that comes later.
        """
        return launch.create(self._clients, region, params, self._groups)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """Looks up the VM by the name derived from the token and compares its owner labels.

        A deleted VM is found through its operations.
        """
        return instances.find(self._clients, region, launch_name(token), owner)

    def plan_batch(self, spec: LaunchSpec, batch_id: str, token: str, slots: Sequence[Slot]) -> Params:
        """Parameters of instances.bulkInsert for all slots, and of the firewall rules that they share."""
        return batches.plan(spec, self._account, _machine(spec), batch_id, token, slots)

    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        """Creates the firewall rules and the placement policy, then calls instances.bulkInsert, and reads the operations of its VMs once.

        A slot whose operation Google does not show yet has an unknown outcome. A repeat reads the operations again.
        """
        return batches.create(self._clients, region, params, self._groups)

    def find_batch(self, region: str, params: Params) -> Mapping[int, Vm]:
        """Lists the VMs of the batch, and finds deleted and refused ones through their operations."""
        return batches.find(self._clients, region, params)

    def label_slots(
        self, region: str, owners: Mapping[str, OwnerTags], names: Mapping[str, str] | None = None
    ) -> BatchResult:
        """Writes the labels of VMs, then of their disks."""
        return batches.label(self._clients, region, owners, names or {})

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """VMs by name and number, 50 a call. For VMs that no list shows, reads their operations."""
        return instances.get(self._clients, region, vm_ids)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Pages of 500 VMs over all regions of the project. Google does not list deleted VMs."""
        return instances.listed(self._clients, regions, installation)

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """The same list, without reading the operations of VMs that end."""
        return instances.listed_everywhere(self._clients, installation)

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        """VMs that have written the guest attribute at the end of their boot. Makes one call per VM."""
        return instances.ready(self._clients, region, vm_ids)

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        """Preempted VMs that Google still lists."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return list(spot.interruptions(self._clients, regions, installation, now))

    def events(self) -> Sequence[ProviderEvent]:
        """Messages of the account's Pub/Sub subscription; none if the account configures no subscription."""
        return events.receive(self._clients, self._account.events_subscription)

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Acknowledges the messages at Pub/Sub."""
        events.acknowledge(self._clients, self._account.events_subscription, used)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Calls instances.delete by number, once per VM."""
        return instances.terminate(self._clients, region, vm_ids)

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Disks with gpulease's labels, and gpulease's firewall rules and placement policies."""
        return leftovers.of_leases(self._clients, region, installation, lease_ids)

    def remove_leftover(self, leftover: Leftover) -> None:
        """Deletes a disk by name, and only while it is the disk that was listed."""
        leftovers.remove(self._clients, leftover)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Calls instances.reset, which takes effect at once, without a shutdown."""
        return instances.reboot(self._clients, region, vm_ids)

    def console_output(self, region: str, vm_id: str) -> str:
        """The output of the first serial port."""
        return instances.console_output(self._clients, region, vm_id)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Writes the deadline label of VMs, then of their disks."""
        return deadlines.renew(self._clients, region, vm_ids, deadline)

    def check_account(self, installation: str) -> Sequence[AccountCheck]:  # noqa: ARG002  no right depends on labels
        """Credentials, permissions, price list, images, and the quota over all regions."""
        return list(checks.of_account(self, self._clients, self._account))

    def check_region(self, region: str, installation: str) -> Sequence[AccountCheck]:  # noqa: ARG002  as above
        """The region's offerings, its subnetwork and its quotas."""
        return list(checks.of_region(self, self._clients, self._account, region))


def _machine(spec: LaunchSpec) -> catalogue.Machine:
    machine = catalogue.load().machines.get(spec.instance_type)
    if machine is None:
        raise NotOffered(f"{spec.instance_type} is not in the catalogue", code="UnknownType")
    return machine
