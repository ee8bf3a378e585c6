"""What a launch asks EC2 for when its VM is a member of a group, checked against botocore's own model."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.domain import tags
from app.domain.offerings import Market
from app.settings.reservations import ReservationSettings
from tests.workers.providers.aws.ec2_model import must_be_valid
from tests.workers.providers.aws.test_launch import SUBNET, account
from tests.workers.providers.samples import GROUP, owner, spec
from workers.providers import errors
from workers.providers.aws import catalogue, firewall, groups, launch, resource_tags
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnet
from workers.providers.types import GroupSpec, Params

ACCOUNT = account()
RESERVATION = ReservationSettings(
    id="cr-0123456789abcdef0",
    kind="reservation",
    name="pool",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="p5.48xlarge",
)
NAME = f"gpulease-{GROUP.group_id}"


def valid(operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    must_be_valid(operation, arguments)
    return arguments


def planned(
    instance_type: str = "g5.xlarge", of: GroupSpec = GROUP, *, account: AwsAccount = ACCOUNT, **changes: Any
) -> Params:
    wanted = spec(instance_type=instance_type, group=of, **changes)
    efa = catalogue.load().efa.get(instance_type, ())
    reservation = RESERVATION if wanted.market is Market.RESERVED else None
    params = launch.plan(wanted, account, subnet=SUBNET, efa_cards=efa, reservation=reservation)
    valid("RunInstances", {key: value for key, value in params.items() if key not in (groups.PART, firewall.PART)})
    assert json.loads(json.dumps(params)) == params
    return params


def test_the_placement_group_and_the_security_group_are_tagged_for_the_group_and_its_first_member() -> None:
    part = planned()[groups.PART]
    for operation, body in (
        ("CreatePlacementGroup", part["PlacementGroup"]),
        ("CreateSecurityGroup", part["SecurityGroup"]),
    ):
        found = resource_tags.to_dict(valid(operation, body)["TagSpecifications"][0]["Tags"])
        assert found[tags.GROUP] == GROUP.group_id
        assert tags.attempt_key(found) == (owner().lease_id, 1)
        assert tags.NAME not in found
    assert part["PlacementGroup"]["Strategy"] == "cluster"


def test_the_vm_is_launched_in_the_placement_group() -> None:
    assert planned()["Placement"] == {"AvailabilityZone": "us-east-1a", "GroupName": NAME}


@pytest.mark.parametrize("placement", ["any", "same_zone"])
def test_only_a_cluster_has_a_placement_group(placement: str) -> None:
    params = planned(of=replace(GROUP, placement=placement))
    assert params["Placement"] == {"AvailabilityZone": "us-east-1a"}
    assert params[groups.PART]["PlacementGroup"] == {}


def test_a_lease_of_its_own_has_no_placement_group_and_no_efa() -> None:
    params = launch.plan(spec(), account(), subnet=SUBNET, efa_cards=range(4))
    assert (params[groups.PART]["PlacementGroup"], params[groups.PART]["Efa"]) == ({}, False)
    assert "InterfaceType" not in params["NetworkInterfaces"][0]


def test_a_reservation_places_its_vms_itself() -> None:
    params = planned("p5.48xlarge", market=Market.RESERVED, reservation="pool")
    assert "GroupName" not in params["Placement"]
    assert params[groups.PART]["PlacementGroup"] == {}


def test_the_placement_group_of_the_account_comes_before_the_groups() -> None:
    params = planned(account=account(placement_group="of-the-account"))
    assert params["Placement"]["GroupName"] == "of-the-account"
    assert params[groups.PART]["PlacementGroup"] == {}


@pytest.mark.parametrize(
    ("instance_type", "cards"), [("p4d.24xlarge", 4), ("p5.48xlarge", 32), ("p6-b200.48xlarge", 8)]
)
def test_every_network_card_has_one_efa_interface_and_no_public_address(instance_type: str, cards: int) -> None:
    first, *others = planned(instance_type)["NetworkInterfaces"]
    assert (first["DeviceIndex"], first["NetworkCardIndex"], first["InterfaceType"]) == (0, 0, "efa")
    assert [one["NetworkCardIndex"] for one in others] == list(range(1, cards))
    assert {(one["DeviceIndex"], one["InterfaceType"]) for one in others} == {(1, "efa-only")}
    assert not any("AssociatePublicIpAddress" in one for one in (first, *others))


def test_one_card_keeps_the_public_address() -> None:
    (only,) = planned("g5.8xlarge")["NetworkInterfaces"]
    assert (only["InterfaceType"], only["AssociatePublicIpAddress"]) == ("efa", True)


def test_the_first_card_of_p6_b300_has_ethernet_alone() -> None:
    first, *others = planned("p6-b300.48xlarge")["NetworkInterfaces"]
    assert "InterfaceType" not in first
    assert [one["NetworkCardIndex"] for one in others] == list(range(1, 17))


def test_a_group_without_interconnect_has_ordinary_interfaces() -> None:
    (only,) = planned("p5.48xlarge", of=replace(GROUP, interconnect="none"))["NetworkInterfaces"]
    assert "InterfaceType" not in only


class Ec2:
    """Answers like EC2 with one security group; notes the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.opened: list[tuple[str, Any]] = []
        self._tags: Any = None

    def forget(self) -> None:
        """Somebody deletes the security group."""
        self._tags = None

    def create_placement_group(self, **_: Any) -> Any:
        self.calls.append("placement")
        return {}

    def create_security_group(self, **create: Any) -> Any:
        self.calls.append("security")
        self._tags = create["TagSpecifications"][0]["Tags"]
        return {"GroupId": "sg-own"}

    def describe_security_groups(self, **_: Any) -> Any:
        own = {"GroupId": "sg-own", "GroupName": f"gpulease/{owner().installation}/{GROUP.group_id}", "VpcId": "vpc"}
        return {"SecurityGroups": [{**own, "Tags": self._tags}] if self._tags else []}

    def authorize_security_group_ingress(self, **rule: Any) -> Any:
        self.opened.append(("in", valid("AuthorizeSecurityGroupIngress", rule)))
        return {}

    def authorize_security_group_egress(self, **rule: Any) -> Any:
        self.opened.append(("out", valid("AuthorizeSecurityGroupEgress", rule)))
        return {}


def joined(ec2: Any, params: Params, shared: groups.Ec2GroupResources | None = None) -> Params:
    with (shared or groups.Ec2GroupResources()).ensure(ec2, "us-east-1", params) as run:
        return run


def test_the_group_is_open_to_itself_and_outwards_only_where_efa_needs_it() -> None:
    plain, fabric = Ec2(), Ec2()
    joined(plain, planned())
    joined(fabric, planned("p4d.24xlarge"))
    assert [way for way, _ in plain.opened] == ["in"]
    assert [way for way, _ in fabric.opened] == ["in", "out"]
    for _, rule in (*plain.opened, *fabric.opened):
        assert rule["IpPermissions"] == [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-own"}]}]


def test_each_interface_is_in_the_security_group_and_nothing_of_ours_is_sent() -> None:
    run = joined(Ec2(), planned("p4d.24xlarge"))
    assert groups.PART not in run
    assert [one["Groups"] for one in run["NetworkInterfaces"]] == [["sg-own"]] * 4
    valid("RunInstances", run)


def test_the_groups_of_the_account_stay() -> None:
    run = joined(Ec2(), planned(account=account(security_group_ids=("sg-of-the-account",))))
    assert run["NetworkInterfaces"][0]["Groups"] == ["sg-of-the-account", "sg-own"]


@pytest.mark.parametrize("subnet", [None, SUBNET])
def test_a_lease_of_its_own_is_in_the_closed_group_of_the_installation(subnet: Subnet | None) -> None:
    ec2 = Ec2()
    params = launch.plan(spec(), account(), subnet=subnet)
    create = valid("CreateSecurityGroup", params[groups.PART]["SecurityGroup"])
    vpc = subnet.vpc if subnet is not None else None
    assert create["GroupName"] == f"gpulease/{owner().installation}/closed" + (f"/{vpc}" if vpc else "")
    assert create.get("VpcId") == vpc
    assert resource_tags.to_dict(create["TagSpecifications"][0]["Tags"]) == {tags.INSTALLATION: owner().installation}
    assert [one["Groups"] for one in joined(ec2, params)["NetworkInterfaces"]] == [["sg-own"]]
    assert ec2.opened == []


@pytest.mark.parametrize(
    ("of", "changes"),
    [(account(security_group_ids=("sg-of-the-account",)), {}), (ACCOUNT, {"allowed_cidrs": ("203.0.113.0/24",)})],
)
def test_a_lease_with_another_security_group_is_not_in_the_closed_one(
    of: AwsAccount, changes: Mapping[str, Any]
) -> None:
    assert groups.PART not in launch.plan(spec(**changes), of, subnet=SUBNET)


def test_what_exists_is_made_once_a_minute_for_many_members() -> None:
    ec2, now = Ec2(), [0.0]
    shared = groups.Ec2GroupResources(monotonic=lambda: now[0])
    for n in range(3):
        joined(ec2, planned(token=f"{n}" * 64), shared)
    assert ec2.calls == ["placement", "security"]
    now[0] = 61.0
    joined(ec2, planned(), shared)
    assert ec2.calls == ["placement", "security", "placement"]


@pytest.mark.parametrize(
    ("code", "message"),
    [("InvalidGroup.NotFound", "no group sg-own"), ("InvalidPlacementGroup.Unknown", f"'{NAME}' is unknown")],
)
def test_what_was_removed_meanwhile_is_made_again_by_the_repeat(code: str, message: str) -> None:
    ec2: Any = Ec2()
    shared = groups.Ec2GroupResources()
    with pytest.raises(errors.NotReady), shared.ensure(ec2, "us-east-1", planned()):
        raise errors.InvalidSpec(message, code=code)
    ec2.forget()
    joined(ec2, planned(), shared)
    assert len(ec2.calls) == 4


def test_a_missing_group_of_the_account_is_the_accounts_fault() -> None:
    ec2: Any = Ec2()
    with pytest.raises(errors.InvalidSpec), groups.Ec2GroupResources().ensure(ec2, "us-east-1", planned()):
        raise errors.InvalidSpec("no group sg-of-the-account", code="InvalidGroup.NotFound")
