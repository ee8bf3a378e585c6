"""Compact placement policies. The fixture holds each call and answer against Google's own description."""

from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.gce.conftest import Gce, Refused
from tests.cloudsim.gce.test_bulk_insert import bulk

REGION = "us-central1"
NAME = "gpulease-group-a"
LINK = f"projects/sim-project/regions/{REGION}/resourcePolicies/{NAME}"
GCP: dict[str, Any] = {"provider": "gcp"}


@pytest.fixture
def policy(gce: Gce) -> None:
    body = {"name": NAME, "description": "{}", "groupPlacementPolicy": {"collocation": "COLLOCATED"}}
    gce("resourcePolicies.insert", body, region=REGION)


def refusal(gce: Gce, method: str, *arguments: Any, **parameters: Any) -> str:
    with pytest.raises(Refused) as refused:
        gce(method, *arguments, **parameters)
    return refused.value.reason


@pytest.mark.usefixtures("policy")
def test_a_policy_is_listed_in_its_region_and_its_name_is_taken(gce: Gce) -> None:
    wanted = 'name eq "gpulease-group-[a-z0-9]+"'
    (found,) = gce("resourcePolicies.list", region=REGION, filter=wanted)["items"]
    assert (found["name"], found["status"]) == (NAME, "READY")
    assert "items" not in gce("resourcePolicies.list", region="europe-west4", filter=wanted)
    body = {"name": NAME, "groupPlacementPolicy": {"collocation": "COLLOCATED"}}
    assert refusal(gce, "resourcePolicies.insert", body, region=REGION) == "alreadyExists"


@pytest.mark.usefixtures("policy")
def test_a_policy_with_vms_stays(gce: Gce, clock: ManualClock) -> None:
    gce.insert(resourcePolicies=[LINK])
    assert gce.vm()["resourcePolicies"][0].endswith(LINK)
    named = {"region": REGION, "resourcePolicy": NAME}
    assert refusal(gce, "resourcePolicies.delete", **named) == "resourceInUseByAnotherResource"
    gce("instances.delete", zone="us-central1-a", instance="vm")
    clock.forward(3600)
    gce("resourcePolicies.delete", **named)
    assert refusal(gce, "resourcePolicies.get", **named) == "notFound"


def test_a_vm_needs_a_policy_that_exists_in_its_region(gce: Gce) -> None:
    with pytest.raises(Refused, match="was not found"):
        gce.insert(resourcePolicies=[LINK])
    with pytest.raises(Refused, match="region"):
        gce.insert(resourcePolicies=[LINK.replace(REGION, "europe-west4")])


@pytest.mark.usefixtures("policy")
def test_a_bulk_insert_names_the_policy_and_fills_what_is_close_together(gce: Gce, sim: Control) -> None:
    with pytest.raises(Refused, match="a name here"):
        bulk(gce, properties={"resourcePolicies": [LINK]})
    sim.settings(placement_group_capacity=3)
    bulk(gce, properties={"resourcePolicies": [NAME]})
    assert len(sim.instances(alive="true", **GCP)) == 3
