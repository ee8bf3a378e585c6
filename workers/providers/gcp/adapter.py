"""One Google project as a provider: each method is one question to Compute Engine, answered in the interface's words."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from app.domain.tags import OwnerTags
from app.domain.tokens import launch_name
from app.settings import Settings
from workers.providers.common.images import wanted
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import InvalidSpec, NotFound, NotOffered
from workers.providers.gcp import (
    catalogue,
    deadlines,
    events,
    firewall,
    images,
    instances,
    launch,
    leftovers,
    offered,
    operations,
    prices,
    quotas,
    spot,
    userdata,
)
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.sdk import InstancesClient, ProjectsClient
from workers.providers.gcp.settings import GcpAccount
from workers.providers.send_window import require_open_window
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
        "launch": Rate(burst=20, per_second=5),
        "terminate": Rate(burst=50, per_second=5),
        "write": Rate(burst=50, per_second=5),
        "read": Rate(burst=100, per_second=10),
    }
)
"""Compute Engine guide, "Rate quotas": 1,500 requests a minute and project for each group of methods. What is asked of a VM here
takes up to four requests, and other programs share the project."""


class GcpProvider:
    """See `Provider` for the contract. Construction makes no call; all methods may be called from any thread."""

    limits = LIMITS
    ssh_user = userdata.SSH_USER
    lists_all_regions = True

    def __init__(self, account: GcpAccount, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._account = account
        self._guard = CredentialGuard()
        self._clients = GcpClients(account, settings, self._guard)
        self._clock = clock

    def identity(self) -> str:
        """The project's number: its name may be given away, its number never is."""
        with self._guard.asking() as question:
            identity = str(self._clients.ask(self._clients.of(ProjectsClient).get).id)
        self._guard.learn(question, identity)
        return identity

    def trust(self, identity: str) -> None:
        """Compute Engine is asked with access tokens that have seen this project only."""
        self._guard.trust(identity)

    def offered(self, region: str) -> Sequence[Offered]:
        """Types of the catalogue by zone."""
        return list(offered.by_zone(self._clients, catalogue.load(), region))

    def prices(self, region: str) -> Prices:
        """Sums of the parts of each type, on demand and spot."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.by_type(self._clients, self._account.endpoint_url, catalogue.load().types, region, now)

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """Limits on GPUs by model, on demand and spot, and GPUS_ALL_REGIONS."""
        return quotas.read(self._clients, region)

    def image(self, region: str, name: str | None = None) -> Image:  # noqa: ARG002  images are the same in all regions
        """The newest of a public family, or the pinned one; see `images`."""
        return images.resolve(self._clients, wanted(self._account, name))

    def plan(self, spec: LaunchSpec) -> Params:
        """Parameters of instances.insert and of the firewall rules before it. NotOffered for a type not in the catalogue."""
        boot_disk = catalogue.load().boot_disks.get(spec.instance_type)
        if boot_disk is None:
            raise NotOffered(f"{spec.instance_type} is not in the catalogue", code="UnknownType")
        return launch.plan(spec, self._account, boot_disk)

    def launch(self, region: str, params: Params) -> Vm:
        """instances.insert, its firewall rules before it; the operation is not awaited.

        A refusal that the operation has at once is raised; one that it gets later is told by `get` and `find`.
        """
        instance, zone = launch.body(params), params[launch.ZONE]
        rules = {launch.request_id(rule): rule for rule in params[launch.RULES]}
        with firewall.ensure_firewall(self._clients, zone, rules):
            require_open_window()
            try:
                answer = self._clients.ask(
                    self._clients.of(InstancesClient).insert_unary,
                    zone=zone,
                    instance_resource=instance,
                    request_id=launch.request_id(params),
                )
            except NotFound as error:
                raise InvalidSpec(error.message, code=error.code) from None
            operation = operations.accepted(answer)
        return launch.begun(operation, params, region)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """By the name that the token gives; owner labels are compared. A VM that is gone is found by its operations."""
        return instances.find(self._clients, region, launch_name(token), owner)

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """By name and number, 50 at a time; operations tell what became of those that do not show."""
        return instances.get(self._clients, region, vm_ids)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Pages of 500 over all regions of the project; VMs that are gone do not show."""
        return instances.listed(self._clients, regions, installation)

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """The same list, without the operations of VMs that end."""
        return instances.listed_everywhere(self._clients, installation)

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        """The guest attribute that the VM's boot ends with. One call per VM."""
        return instances.ready(self._clients, region, vm_ids)

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        """Preempted VMs that still show."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return list(spot.interruptions(self._clients, regions, installation, now))

    def events(self) -> Sequence[ProviderEvent]:
        """From the account's Pub/Sub subscription; none where it names none."""
        return events.receive(self._clients, self._account.events_subscription)

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Pub/Sub's own acknowledgement."""
        events.acknowledge(self._clients, self._account.events_subscription, used)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """instances.delete by number, one call per VM."""
        return instances.terminate(self._clients, region, vm_ids)

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Disks with our labels and firewall rules of ours."""
        return leftovers.of_leases(self._clients, region, installation, lease_ids)

    def remove_leftover(self, leftover: Leftover) -> None:
        """A disk by name, and only while it is the one that was found."""
        leftovers.remove(self._clients, leftover)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """instances.reset: at once, without a shutdown."""
        return instances.reboot(self._clients, region, vm_ids)

    def console_output(self, region: str, vm_id: str) -> str:
        """What the first serial port has printed."""
        return instances.console_output(self._clients, region, vm_id)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Labels VMs, then their disks."""
        return deadlines.renew(self._clients, region, vm_ids, deadline)
