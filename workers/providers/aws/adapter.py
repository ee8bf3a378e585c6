"""One AWS account as a provider: each method calls AWS and returns the types of the interface."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from app.domain.account_checks import AccountCheck
from app.domain.offerings import Driver
from app.domain.tags import OwnerTags
from app.settings import Settings
from workers.providers.aws import (
    batches,
    catalogue,
    checks,
    console,
    deadlines,
    events,
    groups,
    images,
    instances,
    launch,
    leftovers,
    prices,
    quotas,
    reservations,
)
from workers.providers.aws import interruptions as spot
from workers.providers.aws import offerings as offered
from workers.providers.aws.calls import part
from workers.providers.aws.clients import AwsClients
from workers.providers.aws.errors import translated
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnets
from workers.providers.aws.volumes import Ec2Volumes
from workers.providers.common import ssh_keys
from workers.providers.common.batch import answered
from workers.providers.common.images import configured_image, no_image
from workers.providers.common.regions import Regions
from workers.providers.common.tags import belongs
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import ProviderError
from workers.providers.types import (
    OTHER_REGIONS,
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
        # EC2 allows five at once. If one call is a second late, EC2 has not refilled the token of the next one.
        "launch": CallRate(burst=3, per_second=2),
        "terminate": CallRate(burst=100, per_second=5),
        "write": CallRate(burst=50, per_second=5),
        "read": CallRate(burst=100, per_second=20),
    },
    batch=100,
    terminations=instances.IDS_PER_CALL,
    readiness=instances.IDS_PER_CALL,
)
"""Source: EC2 API reference, "Request throttling".

The four rates are those of RunInstances, TerminateInstances, mutating actions and filtered non-mutating actions. EC2 also
counts the VMs of RunInstances: 1,000 at once, then 2 a second. Its guide advises at most 100 VMs in one call.
"""


class AwsProvider(Ec2Volumes):
    """See `Provider` for the contract. The constructor makes no call. Any thread may call any method."""

    limits = LIMITS
    ssh_user = ssh_keys.USER
    lists_all_regions = False

    def __init__(self, account: AwsAccount, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._account = account
        self._guard = CredentialGuard()
        self._clients = AwsClients(account, settings, self._guard)
        self._subnets = Subnets(account.subnet_ids, self._clients.ec2)
        self._groups = groups.Ec2GroupResources()
        self._clock = clock

    def identity(self) -> str:
        """The account number that STS returns."""
        with self._guard.asking() as question, translated():
            answer = self._clients.sts().get_caller_identity()
        identity = str(part(answer, "Account"))
        self._guard.learn(question, identity)
        return identity

    def trust(self, identity: str) -> None:
        """Sends later requests to EC2 only with access keys of the account `identity`."""
        self._guard.trust(identity)

    def offered(self, region: str) -> Sequence[ProviderOffering]:
        """Catalogue types by zone. If the account lists subnets, includes only zones that have one."""
        usable = self._subnets.zones(region)
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        drivers = images.DRIVERS | set(self._account.driver_images)
        offerings = offered.by_zone(self._clients.ec2(region), catalogue.load(), region, now, drivers)
        return [
            offering
            for offering in offerings
            if (offering.zone in usable if usable is not None else offered.is_regular(offering))
        ]

    def prices(self, region: str) -> Prices:
        """On-demand prices. Spot prices differ by zone, so `offered` returns them."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.on_demand(self._clients.pricing(), list(catalogue.load().types), region, now)

    def disk_kinds(self) -> Mapping[str, str]:
        """Every volume is gp3."""
        return {"*": "gp3"}

    def part_prices(self, region: str) -> Mapping[str, PartPrice]:
        """Of gp3 volumes without extra IOPS, and of public addresses."""
        return prices.parts(self._clients.pricing(), region, datetime.fromtimestamp(self._clock(), tz=UTC))

    def price_list(self) -> Iterator[PricePage]:
        """On-demand prices, as in `prices`."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.everywhere(self._clients.pricing(), list(catalogue.load().types), now)

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """Limits on vCPUs of P types and of G and VT types, on demand and spot."""
        return quotas.read(self._clients.quotas(region), region)

    def reservations(self, region: str) -> Sequence[ObservedReservation]:
        """Capacity reservations and Capacity Blocks, all read with one paged call."""
        configured = self._account.reservations_in(region)
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return list(reservations.observed(self._clients.ec2(region), configured, catalogue.load().types, now))

    def image(self, region: str, name: str | None = None, driver: Driver = Driver.NVIDIA) -> Image:
        """Resolves the image through SSM or by name; see `images`.

        Also reads the subnets, so that `plan` needs no call and knows which ones have free addresses.
        """
        pin = configured_image(self._account, name, driver)
        if pin is None and driver not in images.DRIVERS:
            raise no_image(self._account.name, driver)
        self._subnets.refresh(region)
        return images.resolve(self._clients.ec2(region), self._clients.ssm(region), pin)

    def plan(self, spec: LaunchSpec) -> Params:
        """Parameters of RunInstances and of the security and placement groups that are created before it.

        Raises NotOffered for a zone in which the account has no subnet.
        """
        reservation = self._account.reservation(spec.reservation) if spec.reservation is not None else None
        return launch.plan(spec, self._account, reservation=reservation, **self._place(spec))

    def _place(self, spec: LaunchSpec) -> launch.LaunchPlace:
        ena_express = spec.instance_type in catalogue.load().ena_express
        efa_cards = catalogue.load().efa.get(spec.instance_type, ())
        subnet = self._subnets.of_zone(spec.region, spec.zone)
        return {"subnet": subnet, "ena_express": ena_express, "efa_cards": efa_cards}

    def launch(self, region: str, params: Params) -> Vm:
        """Creates the security and placement groups, then calls RunInstances.

        A repeat with the same token in the same zone returns the same VM, even one that has ended. After a refusal for
        lack of addresses, later plans use another subnet of the zone: NetworkFull when there is one.
        """
        with self._subnets.launching(region, params):
            return launch.create(self._clients.ec2(region), region, params, self._groups)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """Looks up a VM by client token and compares its owner tags. Also returns a VM that has ended."""
        candidates = instances.with_token(self._clients.ec2(region), region, token)
        return next((vm for vm in candidates if belongs(vm.tags, owner)), None)

    def plan_batch(self, spec: LaunchSpec, batch_id: str, token: str, slots: Sequence[Slot]) -> Params:
        """Parameters of RunInstances for all slots, and of the security and placement groups that they share."""
        return batches.plan(spec, self._account, batch_id, token, slots, **self._place(spec))

    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        """As `launch`. EC2 may start some of the VMs: the other slots are refused with InsufficientCapacity."""
        with self._subnets.launching(region, params):
            return batches.create(self._clients.ec2(region), region, params, self._groups)

    def find_batch(self, region: str, params: Params) -> Mapping[int, Vm]:
        """Looks up VMs by client token, and their slots by launch index. Also returns VMs that have ended."""
        return batches.find(self._clients.ec2(region), region, params)

    def label_slots(
        self, region: str, owners: Mapping[str, OwnerTags], names: Mapping[str, str] | None = None
    ) -> BatchResult:
        """Calls CreateTags once per VM: its volumes and network interfaces get the same tags."""
        return batches.label(self._clients.ec2(region), owners, names or {})

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """VMs by id, 200 ids a call."""
        return instances.get(self._clients.ec2(region), region, vm_ids)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Pages of 1,000 VMs, region by region. EC2 lists an ended VM for about an hour.

        A record that cannot be read hides its zone. One that names no zone fails its region after the region's other VMs.
        """
        scan = Regions(regions)
        for region in sorted(regions):
            with scan.reading(region):
                yield from instances.listed(self._clients.ec2(region), region, installation)
        if scan.failed:
            yield ListingPage(vms=(), failed=dict(scan.failed))

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """Lists all regions that are enabled for the account.

        Lists only the configured regions where EC2 does not return the enabled ones.
        """
        others, error = self._regions()
        yield from self.list(others.union(self._account.regions), installation)
        if error is not None:
            yield ListingPage(vms=(), failed={OTHER_REGIONS: error})

    def _regions(self) -> tuple[frozenset[str], ProviderError | None]:
        """The enabled regions, read from the first configured region that answers; otherwise the first error."""
        failed = None
        for region in self._account.regions:
            try:
                return instances.regions(self._clients.ec2(region)), None
            except ProviderError as error:
                failed = failed or error
        return frozenset(), failed

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        """VMs whose instance and system status checks are both ok."""
        return frozenset(instances.passing_checks(self._clients.ec2(region), vm_ids))

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        """Spot requests that EC2 has marked for termination or stop. EC2 gives two minutes' notice."""
        now, ec2 = datetime.fromtimestamp(self._clock(), tz=UTC), self._clients.ec2
        notices = answered(sorted(regions), lambda region: spot.interruptions(ec2(region), installation, now))
        return [notice for of_region in notices.values() for notice in of_region]

    def events(self) -> Sequence[ProviderEvent]:
        """Messages of the account's SQS queue; none if the account configures no queue."""
        return events.receive(self._clients, self._account.events_queue_url)

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Deletes the messages from the queue."""
        events.delete(self._clients, self._account.events_queue_url, used)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Calls TerminateInstances with 100 ids at a time.

        Ids that EC2 does not know or does not terminate do not block the other ids.
        """
        return instances.terminate(self._clients.ec2(region), vm_ids)

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Volumes, network interfaces, elastic addresses, security groups and placement groups with gpulease's tags."""
        with translated():
            return Leftovers(
                resources=list(leftovers.of_leases(self._clients.ec2(region), region, installation, lease_ids))
            )

    def remove_leftover(self, leftover: Leftover) -> None:
        """Makes one call. EC2 has a separate error code for each kind of resource that is still in use."""
        leftovers.remove(self._clients.ec2(leftover.region), leftover)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """Calls RebootInstances. If the VM does not shut down within minutes, EC2 does a hard reboot."""
        return instances.reboot(self._clients.ec2(region), vm_ids)

    def console_output(self, region: str, vm_id: str) -> str:
        """Reads the latest output with GetConsoleOutput. All catalogue types are Nitro VMs, which support it."""
        return console.read(self._clients.ec2(region), vm_id)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Writes the deadline tag of VMs, then of their volumes and network interfaces."""
        return deadlines.renew(self._clients.ec2(region), vm_ids, deadline)

    def check_account(self, installation: str) -> Sequence[AccountCheck]:
        """Credentials, price list, the rights on gpulease's own resources, and subnets that no region has."""
        return list(checks.of_account(self, self._clients, self._account, installation))

    def check_region(self, region: str, installation: str) -> Sequence[AccountCheck]:
        """The rights at EC2, and what a launch uses in the region."""
        return list(checks.of_region(self, self._clients, self._account, region, installation))
