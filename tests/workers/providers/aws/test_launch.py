"""The parameters of RunInstances, checked against botocore's own model of the call."""

import json
from dataclasses import replace
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from app.domain import tags
from app.domain.offerings import LISTED_MARKETS, Market
from tests.workers.providers.samples import IMAGE, owner, spec
from workers.providers.aws import firewall
from workers.providers.aws import groups as shared
from workers.providers.aws.launch import plan
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnet
from workers.providers.errors import InvalidSpec
from workers.providers.types import LaunchSpec, Params

RUN_INSTANCES: Any = botocore.session.Session().get_service_model("ec2").operation_model("RunInstances")


SUBNET = Subnet("subnet-0123456789abcdef0", "vpc-0123456789abcdef0")


def account(**settings: Any) -> AwsAccount:
    return AwsAccount(provider="aws", name="main", regions=("us-east-1",), **settings)


def planned(wanted: LaunchSpec, subnet: Subnet | None = None, groups: tuple[str, ...] = (), **settings: Any) -> Params:
    params = plan(wanted, account(security_group_ids=groups, **settings), subnet=subnet)
    sent = {key: value for key, value in params.items() if key != shared.PART}
    report = ParamValidator().validate(sent, RUN_INSTANCES.input_shape)
    assert not report.has_errors(), report.generate_report()
    return params


def tags_of(params: Params, kind: str) -> dict[str, str]:
    (found,) = (one for one in params["TagSpecifications"] if one["ResourceType"] == kind)
    assert len({tag["Key"] for tag in found["Tags"]}) == len(found["Tags"])
    return {tag["Key"]: tag["Value"] for tag in found["Tags"]}


@pytest.mark.parametrize("market", LISTED_MARKETS)
@pytest.mark.parametrize("subnet", [None, SUBNET])
@pytest.mark.parametrize("public_ip", [True, False])
def test_the_parameters_fit_the_api_and_survive_json(market: Market, subnet: Subnet | None, *, public_ip: bool) -> None:
    params = planned(spec(market=market, public_ip=public_ip), subnet, ("sg-0123456789abcdef0",))
    assert json.loads(json.dumps(params)) == params
    assert params == planned(spec(market=market, public_ip=public_ip), subnet, ("sg-0123456789abcdef0",))


def test_exactly_one_vm_under_the_token_in_the_zone() -> None:
    params = planned(spec(zone="us-east-1c"))
    assert (params["MinCount"], params["MaxCount"]) == (1, 1)
    assert params["ClientToken"] == spec().token
    assert params["Placement"] == {"AvailabilityZone": "us-east-1c"}


def test_the_vm_has_no_rights_and_its_metadata_need_a_session() -> None:
    params = planned(spec())
    assert "IamInstanceProfile" not in params
    assert "KeyName" not in params
    assert params["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
        "InstanceMetadataTags": "enabled",
    }


def test_nothing_outlives_the_vm() -> None:
    params = planned(spec())
    (disk,) = params["BlockDeviceMappings"]
    (interface,) = params["NetworkInterfaces"]
    assert disk["Ebs"]["DeleteOnTermination"] is True
    assert interface["DeleteOnTermination"] is True
    assert params["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert params["DisableApiTermination"] is False


def test_one_encrypted_root_disk_of_the_size_asked_for() -> None:
    (disk,) = planned(spec(disk_gib=321))["BlockDeviceMappings"]
    assert disk["DeviceName"] == IMAGE.root_device
    assert disk["Ebs"]["VolumeType"] == "gp3"
    assert disk["Ebs"]["VolumeSize"] == 321
    assert disk["Ebs"]["Encrypted"] is True


def test_the_disk_is_never_smaller_than_the_image() -> None:
    (disk,) = planned(spec(disk_gib=1))["BlockDeviceMappings"]
    assert disk["Ebs"]["VolumeSize"] == IMAGE.disk_gib


def test_an_image_without_root_device_is_refused_because_it_would_get_a_second_disk() -> None:
    with pytest.raises(InvalidSpec, match="root device"):
        planned(spec(image=replace(IMAGE, root_device=None)))


def test_spot_is_bought_once_and_ends_when_interrupted() -> None:
    options = planned(spec(market=Market.SPOT))["InstanceMarketOptions"]
    assert options == {
        "MarketType": "spot",
        "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
    }
    assert "InstanceMarketOptions" not in planned(spec(market=Market.ON_DEMAND))


def test_everything_that_costs_money_is_tagged_with_its_owner() -> None:
    for kind in ("instance", "volume", "network-interface"):
        assert tags_of(planned(spec()), kind).items() >= (owner().as_tags() | {"Name": "train-7b"}).items()


def test_only_a_spot_launch_tags_a_spot_request() -> None:
    assert tags_of(planned(spec(market=Market.SPOT)), "spot-instances-request")[tags.LEASE] == "lease_a"
    kinds = {one["ResourceType"] for one in planned(spec())["TagSpecifications"]}
    assert "spot-instances-request" not in kinds


def test_the_network_is_the_accounts() -> None:
    (interface,) = planned(spec(public_ip=False), SUBNET, ("sg-1", "sg-2"))["NetworkInterfaces"]
    assert interface["SubnetId"] == SUBNET.id
    assert interface["Groups"] == ["sg-1", "sg-2"]
    assert interface["AssociatePublicIpAddress"] is False
    (interface,) = planned(spec())["NetworkInterfaces"]
    assert {"SubnetId", "Groups"}.isdisjoint(interface)


EC2_MODEL: Any = botocore.session.Session().get_service_model("ec2")


def wall(wanted: LaunchSpec, subnet: Subnet | None = None) -> Any:
    """The firewall's part of a plan, each call of it checked against botocore's model."""
    part = plan(wanted, account(), subnet=subnet)[firewall.PART]
    calls = {
        "CreateSecurityGroup": part["Create"],
        "AuthorizeSecurityGroupIngress": {"GroupId": "sg-1", "IpPermissions": part["Ingress"]},
    }
    for name, arguments in calls.items():
        report = ParamValidator().validate(arguments, EC2_MODEL.operation_model(name).input_shape)
        assert not report.has_errors(), report.generate_report()
    return part


def test_allowed_networks_become_one_rule_for_port_22_without_duplicates() -> None:
    networks = ("203.0.113.0/24", "203.0.113.0/24", "2001:db8::/32", "2001:0db8::/32")
    assert wall(spec(allowed_cidrs=networks))["Ingress"] == [
        {
            "IpProtocol": "tcp",
            "FromPort": 22,
            "ToPort": 22,
            "IpRanges": [{"CidrIp": "203.0.113.0/24"}],
            "Ipv6Ranges": [{"CidrIpv6": "2001:db8::/32"}],
        }
    ]


def test_the_rule_is_for_the_accounts_own_ssh_port() -> None:
    (rule,) = wall(spec(allowed_cidrs=("203.0.113.0/24",), ssh_port=2222))["Ingress"]
    assert (rule["FromPort"], rule["ToPort"]) == (2222, 2222)


def test_the_group_lies_in_the_vpc_of_the_subnet_or_in_the_default_one() -> None:
    assert wall(spec(allowed_cidrs=("0.0.0.0/0",)), SUBNET)["Create"]["VpcId"] == SUBNET.vpc
    assert "VpcId" not in wall(spec(allowed_cidrs=("0.0.0.0/0",)))["Create"]


def test_each_attempt_has_a_group_of_its_own_name_and_tags() -> None:
    first, second = (wall(spec(owner(n=n), allowed_cidrs=("10.0.0.0/8",)))["Create"] for n in (1, 2))
    assert first["GroupName"] != second["GroupName"]
    assert len(first["GroupName"]) <= 255
    (tagged,) = first["TagSpecifications"]
    assert {tag["Key"]: tag["Value"] for tag in tagged["Tags"]}.items() >= owner().as_tags().items()


def test_without_networks_there_is_nothing_but_the_launch() -> None:
    assert firewall.PART not in planned(spec())


HOSTILE = st.dictionaries(st.text(max_size=200), st.text(max_size=400), max_size=60)


@given(labels=HOSTILE, name=st.text(max_size=400))
def test_no_label_or_name_can_break_the_tags_or_overwrite_ours(labels: dict[str, str], name: str) -> None:
    params: Any = planned(spec(labels=labels, name=name))
    found = tags_of(params, "instance")
    assert found.items() >= owner().as_tags().items()
    assert len(found) <= 50
    for key, value in found.items():
        assert 0 < len(key) <= 128
        assert not set("/ ") & set(key)
        assert len(value) <= 256
        assert not key.startswith("aws:")


def test_labels_stand_under_their_prefix() -> None:
    found = tags_of(planned(spec(labels={"gpulease-lease": "stolen", "example.org/b": "x<y>"})), "instance")
    assert found["gpulease-label-gpulease-lease"] == "stolen"
    assert found[tags.LEASE] == "lease_a"
    assert found["gpulease-label-example.org:b"] == "x=3C=y=3E="
