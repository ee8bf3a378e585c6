"""The contract, for AWS against moto: an independent reading of EC2's request and answer shapes."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest

from cloudsim.testing import NO_TLS
from tests.harness.cached_settings import read_settings
from tests.workers.providers import contract
from tests.workers.providers.aws.rules import firewalls, open_ports
from tests.workers.providers.contract import Power
from workers.providers import errors
from workers.providers.aws import resource_tags
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.ports import Provider
from workers.providers.types import Image, Params

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

LACKS: Mapping[Power, str] = {
    Power.TOKENS: "ignores ClientToken and has no filter on it",
    Power.BOOT: "a VM is running and its checks are ok in the answer of the launch",
    Power.REFUSALS: "has no capacity, quota or throttling errors",
    Power.LOST_ANSWERS: "always answers",
    Power.CAPACITY: "has no capacity",
    Power.INTERRUPTIONS: "never takes a spot VM back",
    Power.NOTICES: "as above",
    Power.LATE_REFUSALS: "has no capacity",
    Power.MANY: "needs 3.5 s for a page of 1,000",
    Power.QUOTAS: "knows no EC2 quotas",
    Power.BELONGINGS: "leaves network interfaces untagged",
    Power.IMAGE_CHECK: "launches any image id",
    Power.HELD: "removes a security group from under a VM",
    Power.PLACEMENT: "has no placement groups",
    Power.REBOOTS: "takes a reboot without a trace",
    Power.CONSOLE: "prints nothing that a boot prints",
    Power.IMAGE: "has neither the public parameter nor the driver-ready images",
}
NO_PLACEMENT_GROUPS = "<DescribePlacementGroupsResponse><placementGroupSet/></DescribePlacementGroupsResponse>"
"""moto answers a question that it does not know with status 500."""
PATIENCE = 60.0
"""Seconds. The server's first answer imports all of moto."""


class OnMoto:
    """`Backend` over moto's server, asked through a client of its own."""

    region = "us-east-1"
    other_region = "eu-west-1"
    zone = "us-east-1a"
    other_zone = "us-east-1b"
    instance_type = "g5.xlarge"
    short_timeout = 60.0
    refusals: Sequence[type[errors.ProviderError]] = ()
    belonging_kinds = frozenset({"volume", "network_interface"})
    firewall_stages: Sequence[str] = ()
    group_stages: Sequence[str] = ()
    page = 1_000
    portion = 200

    def __init__(self, url: str) -> None:
        self._url = url
        self.provider: Provider = self._connected()
        self.impatient: Provider = self.provider
        self._image: Image | None = None

    def _connected(self) -> Provider:
        account = AwsAccount(provider="aws", name="moto", regions=(self.region,), endpoint_url=self._url)
        return AwsProvider(account, read_settings(call_timeout=self.short_timeout))

    @cached_property
    def _ec2(self) -> "EC2Client":
        return boto3.client("ec2", region_name=self.region, endpoint_url=self._url)

    def reset(self) -> None:
        """Also of the adapter, which remembers what the members of a group share: moto takes ids that do not exist."""
        httpx.post(f"{self._url}/moto-api/reset", timeout=PATIENCE, verify=NO_TLS).raise_for_status()
        self.provider = self.impatient = self._connected()

    def image(self) -> Image:
        if self._image is None:
            found = self._ec2.describe_images(Owners=["amazon"])["Images"][0]
            self._image = Image(id=found["ImageId"], name=found["Name"], root_device=found["RootDeviceName"])
        return self._image

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        answer = self._ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["running", "pending"]}]
        )
        found = [one for reservation in answer["Reservations"] for one in reservation["Instances"]]
        return {one["InstanceId"]: {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])} for one in found}

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        wanted = [vm_id]
        volumes = self._ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": wanted}])["Volumes"]
        cards = self._ec2.describe_network_interfaces(Filters=[{"Name": "attachment.instance-id", "Values": wanted}])
        found = {"volume": {tag["Key"]: tag["Value"] for one in volumes for tag in one.get("Tags", [])}}
        for card in cards["NetworkInterfaces"]:
            found["network_interface"] = {tag["Key"]: tag["Value"] for tag in card.get("TagSet", [])}
        return found

    def end_from_outside(self, vm_id: str) -> None:
        self._ec2.terminate_instances(InstanceIds=[vm_id])

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        self._plant(self._ec2, count, tags)

    def plant_elsewhere(self, tags: Mapping[str, str]) -> None:
        self._plant(boto3.client("ec2", region_name=self.other_region, endpoint_url=self._url), 1, tags)

    def _plant(self, ec2: "EC2Client", count: int, tags: Mapping[str, str]) -> None:
        named: Any = resource_tags.to_list(tags)
        ec2.run_instances(
            ImageId=self.image().id,
            InstanceType="g5.xlarge",
            MinCount=count,
            MaxCount=count,
            TagSpecifications=[{"ResourceType": "instance", "Tags": named}],
        )

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[contract.Inbound]]:
        return firewalls(self._ec2, vm_id)

    def open_ports(self, source: str, target: str, ports: Sequence[int]) -> tuple[int, ...]:
        return open_ports(self._ec2, source, target, ports)

    def placed(self, vm_id: str) -> str | None:
        raise NotImplementedError(LACKS[Power.PLACEMENT])

    def lose_reply(self, call: str) -> None:
        raise NotImplementedError(LACKS[Power.LOST_ANSWERS])

    def reboots(self) -> int:
        raise NotImplementedError(LACKS[Power.REBOOTS])

    def keeping_the_disk(self, params: Params) -> Params:
        device = params["BlockDeviceMappings"][0]
        kept = device | {"Ebs": device["Ebs"] | {"DeleteOnTermination": False}}
        return params | {"BlockDeviceMappings": [kept]}

    def refuse(self, kind: type[errors.ProviderError]) -> None:
        raise NotImplementedError(LACKS[Power.REFUSALS])

    def refuse_late(self) -> None:
        raise NotImplementedError(LACKS[Power.LATE_REFUSALS])

    def lose_next_launch_reply(self) -> None:
        raise NotImplementedError(LACKS[Power.LOST_ANSWERS])

    def break_firewall(self, stage: str) -> None:
        raise NotImplementedError(LACKS[Power.LOST_ANSWERS])

    def lose_next_batch_reply(self) -> None:
        raise NotImplementedError(LACKS[Power.LOST_ANSWERS])

    def shuffle_next_batch(self) -> None:
        raise NotImplementedError(LACKS[Power.CAPACITY])

    def leave_room(self, zone: str, count: int) -> None:
        raise NotImplementedError(LACKS[Power.CAPACITY])

    def hang_next_launch(self) -> None:
        raise NotImplementedError(LACKS[Power.LOST_ANSWERS])

    def exhaust(self, zone: str) -> None:
        raise NotImplementedError(LACKS[Power.CAPACITY])

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        raise NotImplementedError(LACKS[Power.INTERRUPTIONS])


def load_one_image(backend: Any) -> None:
    """In place of 1,300 public images, which moto makes anew after each reset in 60 ms for each region."""
    from moto.ec2.models import amis  # noqa: PLC0415 - see `server`

    image = amis.AMIS[0]
    backend.amis[image["ami_id"]] = amis.Ami(backend, owner_alias="amazon", **image)


@pytest.fixture(scope="module")
def server() -> Iterator[OnMoto]:
    # half a second and 140 MB, which the other tests do without
    from moto.ec2.models import amis  # noqa: PLC0415
    from moto.ec2.responses import EC2Response  # noqa: PLC0415
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amis.AmiBackend, "_load_amis", load_one_image)
        patch.setattr(EC2Response, "describe_placement_groups", lambda _: NO_PLACEMENT_GROUPS, raising=False)
        server.start()
        host, port = server.get_host_and_port()
        yield OnMoto(f"http://{host}:{port}")
        server.stop()


@pytest.fixture
def moto(server: OnMoto) -> OnMoto:
    server.reset()
    return server


@pytest.mark.parametrize("case", contract.cases(lacks=LACKS))
def test_contract(case: contract.Case, moto: OnMoto) -> None:
    case(moto)


def test_a_batch_call_is_accepted_and_started_as_far_as_moto_goes(moto: OnMoto) -> None:
    """moto starts MinCount VMs of a call: as EC2 does where there is room for no more."""
    batch = contract.batches.launched(moto)
    assert batch.vms[0].batch == (contract.batches.BATCH, 0)
    assert batch.missing.keys() == set(range(1, contract.batches.SIZE))
    params = contract.batches.planned(moto)
    filled = moto.provider.launch_batch(moto.region, params | {"MinCount": params["MaxCount"]})
    assert {slot: vm.batch for slot, vm in filled.vms.items()} == {
        slot: (contract.batches.BATCH, slot) for slot in range(contract.batches.SIZE)
    }
    owners = {vm.id: contract.batches.slots()[slot].owner for slot, vm in filled.vms.items()}
    assert moto.provider.label_slots(moto.region, owners).done == owners.keys()
    assert all(moto.alive()[vm_id].items() >= of.as_tags().items() for vm_id, of in owners.items())
