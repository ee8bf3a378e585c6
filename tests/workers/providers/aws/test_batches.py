"""Parameters and answers of RunInstances for several VMs, checked against botocore's own model."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain import tags
from app.domain.offerings import LISTED_MARKETS, Market
from tests.workers.providers.aws.ec2_model import must_be_valid
from tests.workers.providers.aws.test_launch import SUBNET, account, tags_of
from tests.workers.providers.contract.batches import BATCH, SECRET, TOKEN, slots
from tests.workers.providers.samples import owner, spec
from workers.providers import errors
from workers.providers.aws import batches, firewall, groups, resource_tags
from workers.providers.aws.groups import Ec2GroupResources
from workers.providers.types import Params

NETWORKS = ("203.0.113.0/24",)


def planned(size: int = 3, **changes: Any) -> Params:
    wanted = spec(slot_secret=SECRET, **changes)
    params = batches.plan(wanted, account(), BATCH, TOKEN, slots(size), subnet=SUBNET, ena_express=False)
    sent = {key: value for key, value in params.items() if key not in (firewall.PART, groups.PART)}
    must_be_valid("RunInstances", sent)
    assert json.loads(json.dumps(params)) == params
    return params


@pytest.mark.parametrize("market", LISTED_MARKETS)
def test_one_to_all_vms_under_the_batchs_token(market: Market) -> None:
    params = planned(100, market=market)
    assert (params["MinCount"], params["MaxCount"], params["ClientToken"]) == (1, 100, TOKEN)


def test_everything_is_tagged_with_the_batch_and_nothing_with_a_lease() -> None:
    params = planned(market=Market.SPOT)
    for kind in ("instance", "volume", "network-interface", "spot-instances-request"):
        found = tags_of(params, kind)
        assert found[tags.BATCH] == BATCH
        assert found[tags.TENANT] == owner().tenant_id
        assert not {tags.LEASE, tags.ATTEMPT, tags.NAME} & set(found)


def test_the_group_is_that_of_the_first_slot() -> None:
    create = planned(allowed_cidrs=NETWORKS)[firewall.PART]["Create"]
    found = resource_tags.to_dict(create["TagSpecifications"][0]["Tags"])
    assert create["GroupName"].endswith("/lease_0/1")
    assert (found[tags.BATCH], tags.attempt_key(found)) == (BATCH, ("lease_0", 1))


def test_the_tags_leave_room_for_those_of_a_slot() -> None:
    labels = {f"label-{n}": "x" for n in range(60)}
    of_batch = resource_tags.of_batch(spec(labels=labels), account(), BATCH)
    assert len({**of_batch, **resource_tags.of_slot(owner(), "name")}) == 50


def record(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "InstanceId": f"i-{index:017x}",
        "AmiLaunchIndex": index,
        "State": {"Name": "pending", "Code": 0},
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "InstanceType": "g5.xlarge",
        "LaunchTime": datetime(2026, 11, 20, 12, 0, tzinfo=UTC),
        "ClientToken": TOKEN,
        "Tags": [{"Key": tags.BATCH, "Value": BATCH}],
        **changes,
    }


class Ec2:
    """Answers RunInstances with these records."""

    def __init__(self, *records: dict[str, Any]) -> None:
        self._records = records

    def run_instances(self, **_: Any) -> Any:
        return {"Instances": list(self._records)}


def created(*records: dict[str, Any]) -> Any:
    ec2: Any = Ec2(*records)
    params = {key: value for key, value in planned().items() if key != groups.PART}
    return batches.create(ec2, "us-east-1", params, Ec2GroupResources())


def test_the_index_decides_not_the_order() -> None:
    batch = created(record(2), record(0))
    assert {slot: vm.id[-1] for slot, vm in batch.vms.items()} == {0: "0", 2: "2"}
    assert batch.vms[2].batch == (BATCH, 2)
    (error,) = batch.missing.values()
    assert list(batch.missing) == [1]
    assert type(error) is errors.InsufficientCapacity
    assert error.code == "InsufficientInstanceCapacity"
    assert "2 of the 3" in error.message


@pytest.mark.parametrize(
    "records",
    [
        [record(0), record(0, InstanceId="i-1")],
        [record(0), record(3)],
        [record(0), {key: value for key, value in record(1).items() if key != "AmiLaunchIndex"}],
    ],
)
def test_indexes_that_cannot_be_right_leave_the_outcome_unknown(records: list[dict[str, Any]]) -> None:
    with pytest.raises(errors.OutcomeUnknown):
        created(*records)
