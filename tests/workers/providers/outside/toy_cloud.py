"""A provider from outside of the package: a cloud in memory. Its distribution names it in the entry point group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from app.domain.leases import VmState
from app.domain.offerings import Driver, Gpu, InstanceType, Interconnect, Market
from app.domain.tags import ATTEMPT, DEADLINE, INSTALLATION, LEASE, OwnerTags
from app.settings import Settings
from app.settings.providers import AccountSettings, ProviderInfo
from workers.providers.common.single import SingleLaunches
from workers.providers.errors import NotFound
from workers.providers.types import (
    BatchResult,
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

GPU = Gpu(model="A10G", count=1, memory_gib=24, interconnect=Interconnect.PCIE)
TYPE = InstanceType(name="toy.large", gpu=GPU, vcpus=4, memory_gib=Decimal(16))
AS_OF = datetime(2026, 11, 1, tzinfo=UTC)


class ToyAccount(AccountSettings):
    """An account of the toy cloud."""

    provider: Literal["toy"]
    playground: str


class ToyProvider(SingleLaunches):
    """Keeps its VMs by the token of their launch."""

    limits = Limits()
    ssh_user = "toy"
    lists_all_regions = True

    def __init__(self, account: ToyAccount, _settings: Settings) -> None:
        self._account = account
        self.vms: dict[str, Vm] = {}

    def identity(self) -> str:
        return self._account.playground

    def trust(self, identity: str) -> None:
        assert identity == self._account.playground

    def offered(self, region: str) -> Sequence[ProviderOffering]:
        price = {"price_per_hour": Decimal("0.50"), "price_as_of": AS_OF, "price_source": "toy list"}
        return [ProviderOffering(type=TYPE, region=region, zone=f"{region}-1", market=Market.ON_DEMAND, **price)]

    def prices(self, _region: str) -> Prices:
        return {}

    def disk_kinds(self) -> Mapping[str, str]:
        return {}

    def part_prices(self, region: str) -> Mapping[str, PartPrice]:
        return {}

    def price_list(self) -> Iterator[PricePage]:
        return iter([])

    def service_quotas(self, _region: str) -> Sequence[ServiceQuota]:
        return []

    def reservations(self, _region: str) -> Sequence[ObservedReservation]:
        return []

    def image(self, _region: str, name: str | None = None, _driver: Driver = Driver.NVIDIA) -> Image:
        return Image(id="toy-image", name=name or "toy")

    def plan(self, spec: LaunchSpec) -> Params:
        tags = {**spec.labels, **spec.owner.as_tags()}
        return {"token": spec.token, "type": spec.instance_type, "zone": spec.zone, "tags": tags}

    def launch(self, region: str, params: Params) -> Vm:
        token = params["token"]
        made = Vm(
            id=f"toy-{len(self.vms)}",
            region=region,
            zone=params["zone"],
            instance_type=params["type"],
            market=Market.ON_DEMAND,
            state=VmState.RUNNING,
            tags=params["tags"],
            launch_identity=token,
        )
        return self.vms.setdefault(token, made)

    def find(self, _region: str, token: str, owner: OwnerTags) -> Vm | None:
        vm = self.vms.get(token)
        same = vm is not None and (vm.tags[LEASE], vm.tags[ATTEMPT]) == (owner.lease_id, str(owner.n))
        return vm if same else None

    def get(self, _region: str, vm_ids: Sequence[str]) -> Mapping[str, Vm | None]:
        return {vm_id: self._by_id(vm_id) for vm_id in vm_ids}

    def list(self, _regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        yield ListingPage(vms=[vm for vm in self.vms.values() if vm.tags[INSTALLATION] == installation])

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        return self.list(frozenset(), installation)

    def ready(self, _region: str, vm_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(vm_ids)

    def interruptions(self, _regions: frozenset[str], _installation: str) -> Sequence[Interruption]:
        return []

    def events(self) -> Sequence[ProviderEvent]:
        return []

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        assert not used

    def terminate(self, _region: str, vm_ids: Sequence[str]) -> BatchResult:
        return self._changed(vm_ids, state=VmState.GONE)

    def reboot(self, _region: str, vm_ids: Sequence[str]) -> BatchResult:
        return self._changed(vm_ids)

    def set_deadline(self, _region: str, vm_ids: Sequence[str], deadline: datetime) -> BatchResult:
        for vm_id in vm_ids:
            vm = self._by_id(vm_id)
            if vm is not None:
                self._changed([vm_id], tags={**vm.tags, DEADLINE: str(int(deadline.timestamp()))})
        return self._changed(vm_ids)

    def console_output(self, _region: str, _vm_id: str) -> str:
        return ""

    def leftovers(self, _region: str, _installation: str, _lease_ids: Sequence[str] | None) -> Leftovers:
        return Leftovers()

    def remove_leftover(self, leftover: Leftover) -> None:
        raise NotFound(leftover.id)

    def _by_id(self, vm_id: str) -> Vm | None:
        return next((vm for vm in self.vms.values() if vm.id == vm_id), None)

    def _changed(self, vm_ids: Sequence[str], **changes: Any) -> BatchResult:
        known = {token: vm for token, vm in self.vms.items() if vm.id in vm_ids}
        self.vms |= {token: replace(vm, **changes) for token, vm in known.items()}
        return BatchResult(done=frozenset(vm.id for vm in known.values()))


PROVIDER = ProviderInfo(
    name="toy", label="Toy", account=ToyAccount, adapter="toy_cloud:ToyProvider", catalogue="toy_cloud"
)
