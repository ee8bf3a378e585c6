"""One AWS account as a provider: each method is one question to EC2, answered in the interface's words."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from app.domain.tags import OwnerTags
from app.settings import Settings
from workers.providers.aws import (
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
    spot,
    vms,
)
from workers.providers.aws.calls import part
from workers.providers.aws.clients import AwsClients
from workers.providers.aws.errors import translated
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnets
from workers.providers.common.batch import answered
from workers.providers.common.images import wanted
from workers.providers.common.regions import Regions
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import InvalidSpec, NotFound, ProviderError
from workers.providers.send_window import require_open_window
from workers.providers.types import (
    OTHER_REGIONS,
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
        # two of the five stay in reserve: a call that is a second late would find the next one's token not there yet
        "launch": Rate(burst=3, per_second=2),
        "terminate": Rate(burst=100, per_second=5),
        "write": Rate(burst=50, per_second=5),
        "read": Rate(burst=100, per_second=20),
    }
)
"""EC2 API reference, "Request throttling": RunInstances, TerminateInstances, mutating actions, filtered non-mutating ones."""


class AwsProvider:
    """See `Provider` for the contract. Construction makes no call; all methods may be called from any thread."""

    limits = LIMITS
    ssh_user = "ubuntu"
    lists_all_regions = False

    def __init__(self, account: AwsAccount, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._account = account
        self._guard = CredentialGuard()
        self._clients = AwsClients(account, settings, self._guard)
        self._subnets = Subnets(account.subnet_ids, self._clients.ec2)
        self._clock = clock

    def identity(self) -> str:
        """The account number that STS tells."""
        with self._guard.asking() as question, translated():
            answer = self._clients.sts().get_caller_identity()
        identity = str(part(answer, "Account"))
        self._guard.learn(question, identity)
        return identity

    def trust(self, identity: str) -> None:
        """EC2 is asked with access keys of this account only."""
        self._guard.trust(identity)

    def offered(self, region: str) -> Sequence[Offered]:
        """Types of the catalogue by zone; only zones with a subnet when the account lists subnets."""
        usable = self._subnets.zones(region)
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        every = offered.by_zone(self._clients.ec2(region), catalogue.load(), region, now)
        return [one for one in every if (one.zone in usable if usable is not None else _regular(one))]

    def prices(self, region: str) -> Prices:
        """On-demand prices; spot prices differ by zone and come with `offered`."""
        now = datetime.fromtimestamp(self._clock(), tz=UTC)
        return prices.on_demand(self._clients.pricing(), list(catalogue.load().types), region, now)

    def service_quotas(self, region: str) -> Sequence[ServiceQuota]:
        """Limits on vCPUs of P and of G and VT types, on demand and spot."""
        return quotas.read(self._clients.quotas(region), region)

    def image(self, region: str, name: str | None = None) -> Image:
        """From SSM or by name; see `images`. Also learns the subnets, so that `plan` needs no call."""
        pin = wanted(self._account, name)
        self._subnets.zones(region)
        return images.resolve(self._clients.ec2(region), self._clients.ssm(region), pin)

    def plan(self, spec: LaunchSpec) -> Params:
        """Parameters of RunInstances and of the group before it. NotOffered for a zone without a subnet of the account."""
        subnet = self._subnets.of_zone(spec.region, spec.zone)
        return launch.plan(spec, subnet=subnet, security_groups=self._account.security_group_ids)

    def launch(self, region: str, params: Params) -> Vm:
        """RunInstances, its group before it. A repeat within its token's zone returns the same VM, also an ended one."""
        ec2 = self._clients.ec2(region)
        with firewall.ensure_firewall(ec2, params) as run:
            require_open_window()
            try:
                with translated():
                    answer = ec2.run_instances(**launch.arguments(run))
            except NotFound as error:
                raise InvalidSpec(error.message, code=error.code) from None
        return vms.from_instance(part(answer, "Instances")[0], region)

    def find(self, region: str, token: str, owner: OwnerTags) -> Vm | None:
        """By client token; owner tags are compared. A VM that has ended is found too."""
        found = instances.with_token(self._clients.ec2(region), region, token)
        return next((vm for vm in found if _belongs(vm, owner)), None)

    def get(self, region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        """By id, 200 at a time."""
        return instances.get(self._clients.ec2(region), region, vm_ids)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Pages of 1,000, region by region; ended VMs show for about an hour."""
        asked = Regions(regions)
        for region in sorted(regions):
            with asked.reading(region):
                for page in instances.listed(self._clients.ec2(region), region, installation):
                    yield ListingPage(vms=page)
        if asked.failed:
            yield ListingPage(vms=(), failed=dict(asked.failed))

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        """All regions that are enabled for the account; those of the configuration alone where EC2 does not name them."""
        others, error = self._regions()
        yield from self.list(others.union(self._account.regions), installation)
        if error is not None:
            yield ListingPage(vms=(), failed={OTHER_REGIONS: error})

    def _regions(self) -> tuple[frozenset[str], ProviderError | None]:
        """The account's regions as the first configured region that answers names them, or why none does."""
        failed = None
        for region in self._account.regions:
            try:
                return instances.regions(self._clients.ec2(region)), None
            except ProviderError as error:
                failed = failed or error
        return frozenset(), failed

    def ready(self, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        """Instance and system status checks both ok."""
        return frozenset(instances.passing_checks(self._clients.ec2(region), vm_ids))

    def interruptions(self, regions: frozenset[str], installation: str) -> Sequence[Interruption]:
        """Spot requests marked for termination or stop; two minutes' notice."""
        every = answered(sorted(regions), lambda region: spot.interruptions(self._clients.ec2(region), installation))
        return [one for some in every.values() for one in some]

    def events(self) -> Sequence[ProviderEvent]:
        """From the account's SQS queue; none where it names none."""
        return events.receive(self._clients, self._account.events_queue_url)

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        """Deletes them from the queue."""
        events.delete(self._clients, self._account.events_queue_url, used)

    def terminate(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """TerminateInstances, 100 at a time, and around ids that EC2 does not know or end."""
        return instances.terminate(self._clients.ec2(region), vm_ids)

    def leftovers(self, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
        """Volumes, network interfaces, elastic addresses and security groups with our tags."""
        found = leftovers.of_leases(self._clients.ec2(region), region, installation, lease_ids)
        return Leftovers(found=list(found))

    def remove_leftover(self, leftover: Leftover) -> None:
        """One call. EC2 has a code of its own for each kind that something still holds."""
        leftovers.remove(self._clients.ec2(leftover.region), leftover)

    def reboot(self, region: str, vm_ids: Sequence[str]) -> BatchResult:
        """RebootInstances: EC2 presses the button, and turns the VM off and on when it has not obeyed for minutes."""
        return instances.reboot(self._clients.ec2(region), vm_ids)

    def console_output(self, region: str, vm_id: str) -> str:
        """GetConsoleOutput, the latest that there is; all types of the catalogue are Nitro VMs, which have it."""
        return console.read(self._clients.ec2(region), vm_id)

    def set_deadline(self, region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        """Tags VMs, then their volumes and interfaces."""
        return deadlines.renew(self._clients.ec2(region), vm_ids, deadline)


def _regular(one: Offered) -> bool:
    """Not a Local or Wavelength Zone: those have no default subnet (`us-east-1a`, not `us-east-1-atl-2a`)."""
    letter = one.zone.removeprefix(one.region)
    return len(letter) == 1 and letter.isalpha()


def _belongs(vm: Vm, owner: OwnerTags) -> bool:
    theirs = OwnerTags.parse(vm.tags)
    return theirs is not None and (theirs.installation, theirs.lease_id, theirs.n) == (
        owner.installation,
        owner.lease_id,
        owner.n,
    )
