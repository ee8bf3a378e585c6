"""One Azure subscription as a provider: each method is one question to Resource Manager, answered in the interface's words."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from azure.core.rest import HttpRequest

from app.domain.tags import OwnerTags
from app.domain.tokens import launch_name
from app.settings import Settings
from workers.providers.azure import (
    catalogue,
    console,
    deadlines,
    events,
    firewall,
    images,
    instances,
    launch,
    leftovers,
    offered,
    prices,
    quotas,
)
from workers.providers.azure.calls import part
from workers.providers.azure.clients import AzureClients, Group
from workers.providers.azure.errors import translated
from workers.providers.azure.settings import AzureAccount
from workers.providers.common.images import wanted
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import NotOffered
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
    Rate,
    ServiceQuota,
    Vm,
)

LIMITS = Limits(
    rates={
        # a launch is up to three requests, an end or a write two and more
        "launch": Rate(burst=50, per_second=3),
        "terminate": Rate(burst=100, per_second=5),
        "write": Rate(burst=20, per_second=1),
        "read": Rate(burst=100, per_second=10),
    }
)
"""Azure docs, "Understand how Azure Resource Manager throttles requests": per subscription and identity writes 200 and 10 a
second, deletes the same, reads 250 and 25 a second."""

_SUBSCRIPTION_API = "2022-12-01"


class AzureProvider:
    """See `Provider` for the contract. Construction makes no call; all methods may be called from any thread."""

    limits = LIMITS
    ssh_user = launch.USER
    lists_all_regions = True

    def __init__(self, account: AzureAccount, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._account = account
        self._clock = clock
        self._guard = CredentialGuard()
        clients = AzureClients(account, settings, self._guard)
        self._group = Group(clients, account.subscription_id, account.resource_group)

    def identity(self) -> str:
        """The subscription's id, as Azure tells it to these credentials."""
        path = f"/subscriptions/{self._group.subscription}"
        with self._guard.asking() as question, translated():
            answer = self._group.compute.send_request(
                HttpRequest("GET", path, params={"api-version": _SUBSCRIPTION_API})
            )
            answer.raise_for_status()
            document: Any = answer.json()
        identity = str(part(document, "subscriptionId")).lower()
        self._guard.learn(question, identity)
        return identity

    def trust(self, identity: str) -> None:
        """Resource Manager is asked with access tokens that have seen this subscription only."""
        self._guard.trust(identity)

    def offered(self, region: str) -> Sequence[Offered]:
        """Sizes of the catalogue by zone; none in a region for which the account names no subnet."""
        if region not in self._account.subnet_ids:
            return []
        return list(offered.by_zone(self._group, catalogue.load(), region))

    def prices(self, region: str) -> Prices:
        """Pay as you go and spot, by region."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.by_size(self._group.clients, self._account.endpoint_url, catalogue.load().types, region, now)

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """Limits on vCPUs of the region, of its spot VMs and of the GPU families."""
        return quotas.read(self._group, region)

    def image(self, region: str, name: str | None = None) -> Image:
        """The newest version of Microsoft's image, or the pinned one."""
        return images.resolve(self._group, region, wanted(self._account, name))

    def plan(self, spec: LaunchSpec) -> Params:
        """The body of the PUT, and of the group before it. NotOffered for a region without a subnet of the account."""
        subnet = self._account.subnet_ids.get(spec.region)
        if subnet is None:
            raise NotOffered(f"the account names no subnet in {spec.region}", code="NoSubnet")
        return launch.plan(spec, group=self._group.id, subnet=subnet)

    def launch(self, region: str, params: Params) -> Vm:  # noqa: ARG002  the parameters name the region
        """One PUT that never changes a VM that exists. A repeat reads that one back.

        "No capacity" mostly comes later: `get` then shows the VM with its `refusal`.
        """
        with firewall.ensure_firewall(self._group.network, self._group.name, params.get(firewall.PART)):
            return instances.create(self._group, params)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """By the name that derives from the token; owner tags are compared."""
        vm = instances.named(self._group, region, launch_name(token))
        return vm if vm is not None and _belongs(vm, owner) else None

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """By name and vmId, or from the listings when they are many. A deleted VM is not known any more."""
        return instances.with_ids(self._group, region, vm_ids)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Pages of 200 over all regions of the group; deleted VMs do not show."""
        return instances.listed(self._group, regions, installation)

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """One listing of the whole subscription, other resource groups included."""
        return instances.listed_everywhere(self._group, installation)

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:  # noqa: ARG002  the group is asked by name
        """The VM's agent reports itself ready. One call for each VM: Azure has no other."""
        return instances.ready(self._group, vm_ids)

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:  # noqa: ARG002  as below
        """None: Azure announces an eviction only inside the VM (Scheduled Events)."""
        return ()

    def events(self) -> Sequence[ProviderEvent]:
        """From the account's storage queue, without waiting; none where it names none."""
        return events.receive(self._group, self._account.events_queue_url, self._account.regions)

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Deletes them from the queue."""
        events.delete(self._group, self._account.events_queue_url, used)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:  # noqa: ARG002  the group is asked by name
        """DELETE with force, for each VM whose vmId is still the same."""
        return instances.terminate(self._group, vm_ids)

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Disks, network interfaces, public addresses and network security groups with our tags."""
        return Leftovers(found=list(leftovers.of_leases(self._group, region, installation, lease_ids)))

    def remove_leftover(self, leftover: Leftover) -> None:
        """Asked for by name; Azure ends it later."""
        leftovers.remove(self._group, leftover)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:  # noqa: ARG002  the group is asked by name
        """A restart, which also gets a VM going again that hangs."""
        return instances.restart(self._group, vm_ids)

    def console_output(self, region: str, vm_id: str) -> str:  # noqa: ARG002  the group is asked by name
        """From managed boot diagnostics."""
        return console.read(self._group, vm_id)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:  # noqa: ARG002  as above
        """Tags VMs, then their disks, interfaces and addresses."""
        return deadlines.renew(self._group, vm_ids, deadline)


def _belongs(vm: Vm, owner: OwnerTags) -> bool:
    theirs = OwnerTags.parse(vm.tags)
    return theirs is not None and (theirs.installation, theirs.lease_id, theirs.n) == (
        owner.installation,
        owner.lease_id,
        owner.n,
    )
