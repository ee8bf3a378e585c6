"""The contract, for AWS against the simulated cloud."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from app.domain.leases import VmState
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers import contract
from tests.workers.providers.aws.rules import firewalls, open_ports, placement_group
from tests.workers.providers.conftest import ACCESS_KEY
from tests.workers.providers.contract import Power
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.groups import Ec2GroupResources
from workers.providers.aws.settings import AwsAccount
from workers.providers.ports import Provider
from workers.providers.types import Image, Params

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

KINDS = {"volume": "volume", "disk": "volume", "network_interface": "network_interface", "nic": "network_interface"}

REFUSALS: Mapping[type[errors.ProviderError], str] = {
    errors.InsufficientCapacity: "InsufficientInstanceCapacity",
    errors.ProviderQuotaExceeded: "VcpuLimitExceeded",
    errors.NotOffered: "Unsupported",
    errors.InvalidSpec: "InvalidParameterCombination",
    errors.PriceTooLow: "SpotMaxPriceTooLow",
    errors.CredentialsRejected: "UnauthorizedOperation",
    errors.Throttled: "RequestLimitExceeded",
    errors.OutcomeUnknown: "InternalError",
}

LACKS = {Power.LATE_REFUSALS: "EC2 refuses in the answer to the launch"}


class OnCloudsim:
    """`Backend` over the control API."""

    region = "us-east-1"
    other_region = "eu-west-1"
    zone = "us-east-1a"
    other_zone = "us-east-1b"
    instance_type = "g5.xlarge"
    short_timeout = 1.0
    refusals: Sequence[type[errors.ProviderError]] = tuple(
        kind for kind in REFUSALS if kind is not errors.OutcomeUnknown
    )
    belonging_kinds = frozenset({"volume", "network_interface"})
    firewall_stages: Sequence[str] = ("made", "opened")
    group_stages: Sequence[str] = (
        "CreatePlacementGroup",
        "CreateSecurityGroup",
        "AuthorizeSecurityGroupIngress",
        "RunInstances",
    )
    page = 1_000
    portion = 200

    def __init__(self, sim: Control) -> None:
        account = AwsAccount(provider="aws", name="sim", regions=(self.region,), endpoint_url=sim.url)
        self.provider: Provider = AwsProvider(account, read_settings(call_timeout=60.0))
        self.impatient: Provider = AwsProvider(account, read_settings(call_timeout=self.short_timeout))
        self.sim = sim
        self._image: Image | None = None

    def forget(self) -> None:
        """What the adapter has just made for VMs to share is not there any more."""
        for adapter in (self.provider, self.impatient):
            shared: Any = adapter
            shared._groups = Ec2GroupResources()

    def image(self) -> Image:
        self._image = self._image or self.provider.image(self.region)
        return self._image

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        return {one["id"]: one["tags"] for one in self.sim.instances(alive="true")}

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        found = [one for one in self.sim.resources() if one.get("instance_id") == vm_id]
        return {KINDS[one["kind"]]: one["tags"] for one in found if one["kind"] in KINDS}

    def refuse(self, kind: type[errors.ProviderError]) -> None:
        self.sim.fault("RunInstances", "error", code=REFUSALS[kind])

    def refuse_late(self) -> None:
        raise NotImplementedError(LACKS[Power.LATE_REFUSALS])

    def lose_next_launch_reply(self) -> None:
        self.sim.fault("RunInstances", "lose_reply")

    def lose_next_batch_reply(self) -> None:
        self.sim.fault("RunInstances", "lose_reply")

    def shuffle_next_batch(self) -> None:
        self.sim.fault("RunInstances", "shuffle")

    def leave_room(self, zone: str, count: int) -> None:
        self.sim.capacity(count, zone=zone)

    def hang_next_launch(self) -> None:
        self.sim.fault("RunInstances", "hang")

    def exhaust(self, zone: str) -> None:
        self.sim.capacity(0, region=self.region, zone=zone)

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        self.sim.interrupt(vm_id, notice_seconds)

    def end_from_outside(self, vm_id: str) -> None:
        self.sim.stop(vm_id)

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        place = {"region": self.region, "zone": self.zone, "instance_type": self.instance_type}
        self.sim.plant(**place, tags=dict(tags), count=count)

    def plant_elsewhere(self, tags: Mapping[str, str]) -> None:
        self.sim.plant(region=self.other_region, instance_type=self.instance_type, tags=dict(tags))

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[contract.Inbound]]:
        return firewalls(self._ec2, vm_id)

    def break_firewall(self, stage: str) -> None:
        calls = {"made": "CreateSecurityGroup", "opened": "AuthorizeSecurityGroupIngress"}
        self.sim.fault(calls[stage], "lose_reply")

    def open_ports(self, source: str, target: str, ports: Sequence[int]) -> tuple[int, ...]:
        return open_ports(self._ec2, source, target, ports)

    def placed(self, vm_id: str) -> str | None:
        return placement_group(self._ec2, vm_id)

    def lose_reply(self, call: str) -> None:
        self.sim.fault(call, "lose_reply")

    def reboots(self) -> int:
        return self.sim.calls().get("RebootInstances", 0)

    @cached_property
    def _ec2(self) -> "EC2Client":
        return boto3.client("ec2", region_name=self.region, endpoint_url=self.sim.url)

    def keeping_the_disk(self, params: Params) -> Params:
        device = params["BlockDeviceMappings"][0]
        kept = device | {"Ebs": device["Ebs"] | {"DeleteOnTermination": False}}
        return params | {"BlockDeviceMappings": [kept]}


@pytest.fixture(scope="module")
def cloud() -> Iterator[OnCloudsim]:
    with running(boot_seconds=2.0, shutdown_seconds=0.05, cleanup_seconds=0.05) as sim:
        yield OnCloudsim(sim)


@pytest.fixture
def backend(cloud: OnCloudsim) -> OnCloudsim:
    cloud.sim.reset()
    cloud.forget()
    return cloud


@pytest.mark.parametrize("case", contract.cases(lacks=LACKS))
def test_contract(case: contract.Case, backend: OnCloudsim) -> None:
    case(backend)


def test_a_rejected_key_is_credentials_rejected_for_every_question(backend: OnCloudsim) -> None:
    params = backend.provider.plan(contract.wish(backend))
    batch = contract.batches.planned(backend)
    backend.sim.credentials(bad=[ACCESS_KEY])
    questions: dict[str, Any] = {
        "identity": lambda p: p.identity(),
        "offered": lambda p: p.offered(backend.region),
        "service_quotas": lambda p: p.service_quotas(backend.region),
        "image": lambda p: p.image(backend.region),
        "launch": lambda p: p.launch(backend.region, params),
        "find": lambda p: p.find(backend.region, "f" * 64, owner()),
        "launch_batch": lambda p: p.launch_batch(backend.region, batch),
        "find_batch": lambda p: p.find_batch(backend.region, batch),
        "label_slots": lambda p: p.label_slots(backend.region, {"i-0123456789abcdef0": owner()}).require(),
        "get": lambda p: p.get(backend.region, ["i-0123456789abcdef0"]),
        "list": lambda p: list(p.list(frozenset({backend.region}), "x")),
        "ready": lambda p: p.ready(backend.region, ["i-0123456789abcdef0"]),
        "interruptions": lambda p: p.interruptions(frozenset({backend.region}), "x"),
        "reboot": lambda p: p.reboot(backend.region, ["i-0123456789abcdef0"]).require(),
        "console_output": lambda p: p.console_output(backend.region, "i-0123456789abcdef0"),
        "terminate": lambda p: p.terminate(backend.region, ["i-0123456789abcdef0"]).require(),
        "leftovers": lambda p: p.leftovers(backend.region, "x", None),
        "set_deadline": lambda p: p.set_deadline(
            backend.region, ["i-0123456789abcdef0"], owner().deadline_at
        ).require(),
    }
    try:
        for ask in questions.values():
            with pytest.raises(errors.CredentialsRejected, match="renew the credentials"):
                ask(backend.provider)
    finally:
        backend.sim.credentials(bad=[])


def test_volumes_beyond_the_limit_are_a_quota_after_the_launch(backend: OnCloudsim) -> None:
    backend.sim.settings(volume_gib=1)
    vm = contract.launch(backend)
    assert contract.await_state(backend, vm.id, VmState.GONE).refusal is errors.ProviderQuotaExceeded


def test_a_group_whose_resources_lists_do_not_show_yet_is_not_ready(backend: OnCloudsim) -> None:
    backend.sim.settings(resource_lag_seconds=60.0)
    with pytest.raises(errors.NotReady):
        contract.launch(backend, group=contract.groups.GROUP)
    assert not backend.alive()
    backend.sim.settings(resource_lag_seconds=0.0)
    assert contract.launch(backend, group=contract.groups.GROUP).id in backend.alive()
