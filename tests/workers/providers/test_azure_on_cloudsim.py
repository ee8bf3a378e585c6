"""The contract, for Azure against the simulated cloud: everything that Azure has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.local.waiting import wait_until
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers import contract
from tests.workers.providers.azure.accounts import GROUP, SUBSCRIPTION, account
from tests.workers.providers.azure.rules import Network, firewalls, network_of, placement, reaches
from tests.workers.providers.azure.strict import checked
from tests.workers.providers.conftest import AZURE_TOKEN
from tests.workers.providers.contract import Power
from tests.workers.providers.contract.cases import await_gone
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.clients import AzureClients, Group
from workers.providers.azure.groups import AzureGroupResources
from workers.providers.azure.settings import AzureAccount
from workers.providers.ports import Provider
from workers.providers.types import Image, Params

KINDS = {"volume": "volume", "disk": "volume", "network_interface": "network_interface", "address": "address"}
VM_ID = "gpulease-0:00000000-0000-4000-8000-000000000000"

REFUSALS: Mapping[type[errors.ProviderError], str] = {
    errors.InsufficientCapacity: "AllocationFailed",
    errors.ProviderQuotaExceeded: "QuotaExceeded",
    errors.NotOffered: "SkuNotAvailable",
    errors.InvalidSpec: "InvalidParameter",
    errors.CredentialsRejected: "AuthorizationFailed",
    errors.Throttled: "TooManyRequests",
    errors.OutcomeUnknown: "InternalServerError",
}
LACKS = {
    Power.BATCHES: "creates one VM with each call",
    Power.AT_ONCE: "a VM is accepted before a place is looked for",
    Power.MEMORY: "a deleted VM is not found any more",
    Power.NOTICES: "an eviction is announced inside the VM alone",
    Power.INTERRUPTIONS: "an evicted VM stays, deallocated: see the test below",
}


class OnCloudsim:
    """`Backend` over the control API."""

    region = "eastus"
    other_region = "westeurope"
    zone = "eastus-1"
    other_zone = "eastus-2"
    instance_type = "Standard_NC4as_T4_v3"
    short_timeout = 0.5
    refusals: Sequence[type[errors.ProviderError]] = tuple(
        kind for kind in REFUSALS if kind is not errors.OutcomeUnknown
    )
    belonging_kinds = frozenset({"volume", "network_interface", "address"})
    firewall_stages: Sequence[str] = ("made",)
    group_stages: Sequence[str] = (
        "ApplicationSecurityGroups.CreateOrUpdate",
        "ProximityPlacementGroups.CreateOrUpdate",
        "VirtualMachines.CreateOrUpdate",
    )
    page = 200
    portion = 20

    def __init__(self, sim: Control) -> None:
        self.account: AzureAccount = account(sim.url)
        self.provider: Provider = checked(AzureProvider(self.account, read_settings(call_timeout=60.0)))
        self.impatient: Provider = AzureProvider(self.account, read_settings(call_timeout=self.short_timeout))
        self.sim = sim
        self._image: Image | None = None
        self._group = Group(AzureClients(self.account, read_settings()), SUBSCRIPTION, GROUP)
        self._networks: dict[str, Network] = {}

    def image(self) -> Image:
        self._image = self._image or self.provider.image(self.region)
        return self._image

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        found = self.sim.instances(provider="azure", alive="true")
        return {f"{one['name']}:{one['id']}": one["tags"] for one in found}

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        found = [one for one in self.sim.resources() if one.get("instance_id") == _world_id(vm_id)]
        return {KINDS[one["kind"]]: one["tags"] for one in found if one["kind"] in KINDS}

    def refuse(self, kind: type[errors.ProviderError]) -> None:
        self._fault("VirtualMachines.CreateOrUpdate", "error", code=REFUSALS[kind])

    def refuse_late(self) -> None:
        self.sim.settings(refusal_seconds=0.3)
        self.exhaust(self.zone)

    def lose_next_launch_reply(self) -> None:
        self._fault("VirtualMachines.CreateOrUpdate", "lose_reply")

    def lose_next_batch_reply(self) -> None:
        raise NotImplementedError(LACKS[Power.BATCHES])

    def shuffle_next_batch(self) -> None:
        raise NotImplementedError(LACKS[Power.BATCHES])

    def leave_room(self, zone: str, count: int) -> None:
        raise NotImplementedError(LACKS[Power.BATCHES])

    def hang_next_launch(self) -> None:
        self._fault("VirtualMachines.CreateOrUpdate", "hang")

    def exhaust(self, zone: str) -> None:
        self.sim.capacity(0, provider="azure", region=self.region, zone=zone)

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        self.sim.interrupt(_world_id(vm_id), notice_seconds, provider="azure")

    def end_from_outside(self, vm_id: str) -> None:
        self.sim.stop(_world_id(vm_id), provider="azure")

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        place = {"region": self.region, "zone": self.zone, "instance_type": self.instance_type}
        self.sim.plant(provider="azure", **place, tags=dict(tags), count=count)

    def plant_elsewhere(self, tags: Mapping[str, str]) -> None:
        self.sim.plant(region=self.other_region, instance_type=self.instance_type, provider="azure", tags=dict(tags))

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[contract.Inbound]]:
        return firewalls(self._group, vm_id)

    def open_ports(self, source: str, target: str, ports: Sequence[int]) -> tuple[int, ...]:
        for vm_id in (source, target):
            if vm_id not in self._networks:
                self._networks[vm_id] = network_of(self._group, vm_id)
        return tuple(port for port in ports if reaches(self._networks[source], self._networks[target], port))

    def placed(self, vm_id: str) -> str | None:
        return placement(self._group, vm_id)

    def lose_reply(self, call: str) -> None:
        self._fault(call, "lose_reply")

    def forget(self) -> None:
        """What the adapter has just made for a group is not there any more."""
        adapter: Any = self.provider
        adapter._shared = AzureGroupResources()

    def break_firewall(self, stage: str) -> None:
        assert stage == "made", "one PUT makes a group and opens it"
        self._fault("NetworkSecurityGroups.CreateOrUpdate", "lose_reply")

    def reboots(self) -> int:
        return self.sim.calls("azure").get("VirtualMachines.Restart", 0)

    def keeping_the_disk(self, params: Params) -> Params:
        properties = params["vm"]["properties"]
        disk = properties["storageProfile"]["osDisk"] | {"deleteOption": "Detach"}
        storage = properties["storageProfile"] | {"osDisk": disk}
        return params | {"vm": params["vm"] | {"properties": properties | {"storageProfile": storage}}}

    def _fault(self, operation: str, mode: str, **fields: Any) -> None:
        self.sim.fault(operation, mode, provider="azure", **fields)


def _world_id(vm_id: str) -> str:
    return vm_id.partition(":")[2]


@pytest.fixture(scope="module")
def cloud() -> Iterator[OnCloudsim]:
    with running(boot_seconds=1.2, shutdown_seconds=0.05, cleanup_seconds=0.05) as sim:
        yield OnCloudsim(sim)


@pytest.fixture
def backend(cloud: OnCloudsim) -> OnCloudsim:
    cloud.sim.reset()
    cloud.forget()
    return cloud


@pytest.mark.parametrize("case", contract.cases(lacks=LACKS))
def test_contract(case: contract.Case, backend: OnCloudsim) -> None:
    case(backend)


def test_a_rejected_token_is_credentials_rejected_for_every_question(backend: OnCloudsim) -> None:
    params = backend.provider.plan(contract.wish(backend))
    backend.sim.credentials(bad=[AZURE_TOKEN])
    questions: dict[str, Any] = {
        "identity": lambda p: p.identity(),
        "offered": lambda p: p.offered(backend.region),
        "service_quotas": lambda p: p.service_quotas(backend.region),
        "image": lambda p: p.image(backend.region),
        "launch": lambda p: p.launch(backend.region, params),
        "find": lambda p: p.find(backend.region, "f" * 64, owner()),
        "get": lambda p: p.get(backend.region, [VM_ID]),
        "list": lambda p: list(p.list(frozenset({backend.region}), "x")),
        "ready": lambda p: p.ready(backend.region, [VM_ID]),
        "reboot": lambda p: p.reboot(backend.region, [VM_ID]).require(),
        "console_output": lambda p: p.console_output(backend.region, VM_ID),
        "terminate": lambda p: p.terminate(backend.region, [VM_ID]).require(),
        "leftovers": lambda p: p.leftovers(backend.region, "x", None),
        "set_deadline": lambda p: p.set_deadline(backend.region, [VM_ID], owner().deadline_at).require(),
    }
    try:
        for ask in questions.values():
            with pytest.raises(errors.CredentialsRejected, match="renew the credentials"):
                ask(backend.provider)
    finally:
        backend.sim.credentials(bad=[])


def test_a_launch_that_has_failed_when_it_is_answered_says_why(backend: OnCloudsim) -> None:
    backend.exhaust(backend.zone)
    vm = contract.launch(backend)
    assert (vm.state, vm.refusal) == (VmState.STOPPED, errors.InsufficientCapacity)
    assert vm.state_reason is not None
    assert vm.state_reason["code"] == "ZonalAllocationFailed"


def test_an_evicted_vm_is_stopped_until_it_is_deleted_with_its_belongings(backend: OnCloudsim) -> None:
    vm = contract.launch(backend, market=Market.SPOT)
    contract.await_state(backend, vm.id, VmState.RUNNING)
    backend.interrupt(vm.id, 0)
    evicted = contract.await_state(backend, vm.id, VmState.STOPPED)
    assert evicted.interrupted
    assert evicted.state_reason == {"code": "PowerState/deallocated", "message": "VM deallocated"}
    assert set(backend.belongings(vm.id)) == backend.belonging_kinds
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    assert wait_until(lambda: backend.sim.resources() == [], timeout=5)
