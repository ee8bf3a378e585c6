"""RunInstances for several VMs. The fixture checks each answer against botocore's model."""

from collections.abc import Callable
from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.refusals import refused

Batch = Callable[..., list[dict[str, Any]]]
ZONE = {"AvailabilityZone": "us-east-1a"}


@pytest.fixture
def batch(ec2: Any, ami: str) -> Batch:
    """Launches several VMs in one zone; answers the instances as listed."""

    def run(most: int, least: int = 1, token: str | None = None, **parameters: Any) -> list[dict[str, Any]]:
        wanted = {"ImageId": ami, "InstanceType": "g5.xlarge", "MinCount": least, "MaxCount": most, "Placement": ZONE}
        wanted |= {"ClientToken": token} if token is not None else {}
        instances: list[dict[str, Any]] = ec2.run_instances(**wanted, **parameters)["Instances"]
        return instances

    return run


def indexes(instances: list[dict[str, Any]]) -> list[int]:
    return [one["AmiLaunchIndex"] for one in instances]


def ids(instances: list[dict[str, Any]]) -> list[str]:
    return [one["InstanceId"] for one in instances]


def listed(ec2: Any, token: str) -> list[dict[str, Any]]:
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "client-token", "Values": [token]}], PaginationConfig={"PageSize": 5}
    )
    return [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]


def test_all_vms_of_a_call_have_a_number_and_parts_of_their_own(batch: Batch, ec2: Any, sim: Control) -> None:
    vms = batch(12, token="t")
    assert indexes(vms) == list(range(12))
    assert len(set(ids(vms))) == len({vm["PrivateIpAddress"] for vm in vms}) == 12
    assert len({part["id"] for part in sim.resources()}) == 24
    seen = {vm["InstanceId"]: vm["AmiLaunchIndex"] for vm in listed(ec2, "t")}
    assert seen == dict(zip(ids(vms), range(12), strict=True))
    assert sim.calls()["RunInstances"] == 1


def test_a_repeat_answers_the_same_vms_and_other_numbers_are_another_request(batch: Batch) -> None:
    first = batch(3, token="t")
    assert ids(batch(3, token="t")) == ids(first)
    with refused("IdempotentParameterMismatch"):
        batch(4, token="t")


def test_too_little_capacity_fills_a_part_and_a_repeat_fills_no_more(batch: Batch, sim: Control) -> None:
    sim.capacity(7, region="us-east-1")
    first = batch(100, token="t")
    assert indexes(first) == list(range(7))
    sim.capacity(None, region="us-east-1")
    assert ids(batch(100, token="t")) == ids(first)


def test_fewer_than_the_minimum_is_no_capacity(batch: Batch, sim: Control) -> None:
    sim.capacity(7, region="us-east-1")
    with refused("InsufficientInstanceCapacity"):
        batch(100, least=8)
    assert sim.instances() == []


def test_more_than_the_quota_is_refused_whole(batch: Batch, sim: Control) -> None:
    sim.quota("L-DB2E81BA", 11, region="us-east-1")
    with refused("VcpuLimitExceeded"):
        batch(3)
    assert len(batch(2)) == 2


@pytest.mark.parametrize(("least", "most"), [(0, 1), (2, 1)])
def test_numbers_that_make_no_sense_are_refused(batch: Batch, least: int, most: int) -> None:
    with refused("InvalidParameterValue"):
        batch(most, least=least)


def test_a_fault_fills_a_part(batch: Batch, sim: Control) -> None:
    sim.fault("RunInstances", "partial", count=2)
    assert indexes(batch(5, token="t")) == [0, 1]
    assert len(batch(5, token="t")) == 2
    assert len(batch(5)) == 5


def test_a_fault_lists_them_in_another_order(batch: Batch, sim: Control) -> None:
    sim.fault("RunInstances", "shuffle")
    shuffled = batch(4, token="t")
    assert indexes(shuffled) == [3, 2, 1, 0]
    again = {vm["InstanceId"]: vm["AmiLaunchIndex"] for vm in batch(4, token="t")}
    assert again == dict(zip(ids(shuffled), indexes(shuffled), strict=True))


def test_a_lost_answer_has_made_them_all(batch: Batch, ec2: Any, sim: Control) -> None:
    sim.fault("RunInstances", "lose_reply")
    with pytest.raises(Exception, match="Connection was closed"):
        batch(4, token="t")
    assert sorted(indexes(listed(ec2, "t"))) == [0, 1, 2, 3]


def test_vms_and_requests_have_buckets_of_their_own(batch: Batch, sim: Control, clock: ManualClock) -> None:
    sim.settings(rate_limits=True)
    for _ in range(4):
        batch(250)
    with refused("RequestLimitExceeded"):
        batch(1)
    clock.forward(2)
    with refused("RequestLimitExceeded"):
        batch(5)
    batch(4)


def test_tags_reach_many_vms_with_one_call(batch: Batch, ec2: Any, sim: Control) -> None:
    vms = ids(batch(5))
    ec2.create_tags(Resources=vms, Tags=[{"Key": "a", "Value": "1"}])
    assert {vm["id"] for vm in sim.instances(tag="a:1")} == set(vms)
