"""One Azure subscription as a provider: each method calls Azure and returns the types of the interface."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from azure.core.rest import HttpRequest

from app.domain.account_checks import AccountCheck
from app.domain.offerings import Driver
from app.domain.tags import OwnerTags
from app.domain.tokens import launch_name
from app.settings import Settings
from workers.providers.azure import (
    catalogue,
    checks,
    console,
    deadlines,
    events,
    firewall,
    groups,
    images,
    instances,
    launch,
    leftovers,
    offerings,
    prices,
    quotas,
    reservations,
)
from workers.providers.azure.calls import part
from workers.providers.azure.clients import AzureClients, Group
from workers.providers.azure.errors import translated
from workers.providers.azure.registrations import SUBSCRIPTION_API
from workers.providers.azure.settings import AzureAccount
from workers.providers.azure.volumes import AzureVolumes
from workers.providers.common.images import configured_image, no_image
from workers.providers.common.single import SingleLaunches
from workers.providers.common.tags import belongs
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import NotOffered
from workers.providers.types import (
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
    Vm,
)

LIMITS = Limits(
    rates={
        # a launch makes up to three requests, and six more for the first member of a group;
        # a termination or a write makes at least two
        "launch": CallRate(burst=50, per_second=3),
        "terminate": CallRate(burst=100, per_second=5),
        "write": CallRate(burst=20, per_second=1),
        "read": CallRate(burst=100, per_second=10),
    }
)
"""Source: Azure docs, "Understand how Azure Resource Manager throttles requests".

Azure's limits per subscription and identity: writes burst 200 and 10 a second, deletes the same, reads burst 250 and 25
a second.
"""


class AzureProvider(AzureVolumes, SingleLaunches):
    """See `Provider` for the contract. The constructor makes no call. Any thread may call any method."""

    limits = LIMITS
    ssh_user = launch.USER
    lists_all_regions = True

    def __init__(self, account: AzureAccount, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._account = account
        self._clock = clock
        self._guard = CredentialGuard()
        clients = AzureClients(account, settings, self._guard)
        self._group = Group(clients, account.subscription_id, account.resource_group)
        self._shared = groups.AzureGroupResources()

    def identity(self) -> str:
        """The subscription's id, as Azure returns it for these credentials."""
        path = f"/subscriptions/{self._group.subscription}"
        with self._guard.asking() as question, translated():
            answer = self._group.compute.send_request(
                HttpRequest("GET", path, params={"api-version": SUBSCRIPTION_API})
            )
            answer.raise_for_status()
            document: Any = answer.json()
        identity = str(part(document, "subscriptionId")).lower()
        self._guard.learn(question, identity)
        return identity

    def trust(self, identity: str) -> None:
        """Sends later requests to Resource Manager only with access tokens that were verified for `identity`."""
        self._guard.trust(identity)

    def offered(self, region: str) -> Sequence[ProviderOffering]:
        """Catalogue sizes by zone. Empty for a region in which the account configures no subnet."""
        if region not in self._account.subnet_ids:
            return []
        drivers = set(images.DEFAULTS) | set(self._account.driver_images)
        return list(offerings.by_zone(self._group, catalogue.load(), region, drivers))

    def prices(self, region: str) -> Prices:
        """Pay-as-you-go and spot prices of the region."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.by_size(self._group.clients, self._account.endpoint_url, catalogue.load().types, region, now)

    def disk_kinds(self) -> Mapping[str, str]:
        """The account's disk type."""
        return {"*": self._account.disk_type}

    def part_prices(self, region: str) -> Mapping[str, PartPrice]:
        """Of managed disks, and of a standard public address."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.parts(self._group.clients, self._account.endpoint_url, self._account.disk_type, region, now)

    def price_list(self) -> Iterator[PricePage]:
        """A page per size."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.everywhere(self._group.clients, self._account.endpoint_url, catalogue.load().types, now)

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """Limits on vCPUs of the region, of its spot VMs and of the GPU families."""
        return quotas.read(self._group, region)

    def reservations(self, region: str) -> Sequence[ObservedReservation]:
        """Capacity reservation groups, two calls each."""
        return list(reservations.observed(self._group, self._account.reservations_in(region), catalogue.load().types))

    def image(self, region: str, name: str | None = None, driver: Driver = Driver.NVIDIA) -> Image:
        """The newest version of Microsoft's image with the driver, or the account's own image."""
        pin = configured_image(self._account, name, driver) or images.DEFAULTS.get(driver)
        if pin is None:
            raise no_image(self._account.name, driver)
        return images.resolve(self._group, region, pin)

    def plan(self, spec: LaunchSpec) -> Params:
        """The body of the PUT, and of the security group and of what a group shares, which are created before it.

        Raises NotOffered for a region in which the account configures no subnet, or that cannot connect the group.
        """
        subnet = self._account.subnet_ids.get(spec.region)
        if subnet is None:
            raise NotOffered(f"the account names no subnet in {spec.region}", code="NoSubnet")
        reservation = self._account.reservation(spec.reservation) if spec.reservation is not None else None
        return launch.plan(spec, self._account, group=self._group.id, subnet=subnet, reservation=reservation)

    def launch(self, region: str, params: Params) -> Vm:  # noqa: ARG002  the parameters name the region
        """Sends one PUT that never changes an existing VM. A repeat reads the existing VM.

        Azure mostly reports missing capacity later: `get` then returns the VM with its `refusal`.
        """
        with (
            self._shared.ensure(self._group, params.get(groups.PART)),
            firewall.ensure_firewall(self._group.network, self._group.name, params.get(firewall.PART)),
        ):
            return launch.create(self._group, params)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """Looks up the VM by the name derived from the token and compares its owner tags."""
        vm = instances.named(self._group, region, launch_name(token))
        return vm if vm is not None and belongs(vm.tags, owner) else None

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """VMs by name and vmId, or from the listings when there are many ids. Azure does not know a deleted VM."""
        return instances.with_ids(self._group, region, vm_ids)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Pages of 200 VMs over all regions of the resource group. Azure does not list deleted VMs."""
        return instances.listed(self._group, regions, installation)

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """One listing of the whole subscription, including other resource groups."""
        return instances.listed_everywhere(self._group, installation)

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:  # noqa: ARG002  calls address VMs by name
        """VMs whose agent reports itself ready. Makes one call per VM, because Azure has no batch call."""
        return instances.ready(self._group, vm_ids)

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:  # noqa: ARG002  as below
        """Always empty: Azure announces an eviction only inside the VM (Scheduled Events)."""
        return ()

    def events(self) -> Sequence[ProviderEvent]:
        """Messages of the account's storage queue, read without waiting; none if the account configures no queue."""
        return events.receive(self._group, self._account.events_queue_url, self._account.regions)

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Deletes the messages from the queue."""
        events.delete(self._group, self._account.events_queue_url, used)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:  # noqa: ARG002  calls address VMs by name
        """Sends DELETE with force for each VM whose vmId is unchanged."""
        return instances.terminate(self._group, vm_ids)

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Disks, interfaces, addresses and network security groups with gpulease's tags, and what groups share."""
        return Leftovers(resources=list(leftovers.of_leases(self._group, region, installation, lease_ids)))

    def remove_leftover(self, leftover: Leftover) -> None:
        """Requests deletion by name. Azure deletes the resource later."""
        leftovers.remove(self._group, leftover)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:  # noqa: ARG002  calls address VMs by name
        """Restarts VMs. A restart also recovers a VM that hangs."""
        return instances.restart(self._group, vm_ids)

    def console_output(self, region: str, vm_id: str) -> str:  # noqa: ARG002  calls address VMs by name
        """The output in managed boot diagnostics."""
        return console.read(self._group, vm_id)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:  # noqa: ARG002  as above
        """Writes the deadline tag of VMs, then of their disks, interfaces and addresses."""
        return deadlines.renew(self._group, vm_ids, deadline)

    def check_account(self, installation: str) -> Sequence[AccountCheck]:  # noqa: ARG002  no right depends on tags
        """Credentials, rights, and the listings of the subscription and of the resource group."""
        return list(checks.of_account(self, self._group, self._account))

    def check_region(self, region: str, installation: str) -> Sequence[AccountCheck]:  # noqa: ARG002  as above
        """The region's offerings, its subnet, its images and its quotas."""
        return list(checks.of_region(self, self._group, self._account, region))
