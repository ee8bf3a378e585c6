"""What a launch asks Azure for when its VM is a member of a group, read by the SDK's own models."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from azure.mgmt.compute import models as compute
from azure.mgmt.network import models as network

from app.domain import tags
from app.domain.offerings import Market
from cloudsim.testing import Control, running
from tests.cached_settings import read_settings
from tests.workers.providers.azure.accounts import SUBNETS, account
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.azure.strict import checked, read
from tests.workers.providers.azure.test_launch import GROUP_ID, interface
from tests.workers.providers.samples import GROUP, owner
from workers.providers import errors
from workers.providers.azure import groups, launch
from workers.providers.azure.adapter import AzureProvider
from workers.providers.types import GroupSpec

ND = "Standard_ND96isr_H100_v5"
"""A size with InfiniBand."""
ZONE = f"{REGION}-1"
MODELS = {
    groups.MEMBERS: network.ApplicationSecurityGroup,
    groups.NEAR: compute.ProximityPlacementGroup,
    groups.SET: compute.AvailabilitySet,
}


def planned(group: GroupSpec | None = GROUP, **changes: Any) -> Any:
    of = account("http://127.0.0.1:9")
    params = launch.plan(spec(group=group, **changes), of, group=GROUP_ID, subnet=SUBNETS[REGION])
    for kind, one in params.get(groups.PART, {}).items():
        read(one["body"], MODELS[kind], kind)
    assert json.loads(json.dumps(params)) == params
    return params


def made(params: Any) -> list[str]:
    return list(params.get(groups.PART, {}))


def test_a_cluster_is_in_one_proximity_placement_group_in_its_zone() -> None:
    params = planned(zone=ZONE)
    assert made(params) == [groups.MEMBERS, groups.NEAR]
    assert params["vm"]["zones"] == ["1"]
    near = params["vm"]["properties"]["proximityPlacementGroup"]["id"]
    assert (
        near
        == f"{GROUP_ID}/providers/Microsoft.Compute/proximityPlacementGroups/gpulease-{GROUP.group_id}-{REGION}-ppg"
    )


@pytest.mark.parametrize("interconnect", ["preferred", "required"])
@pytest.mark.parametrize("placement", ["same_zone", "cluster"])
def test_infiniband_needs_one_availability_set_which_has_no_zones(interconnect: str, placement: str) -> None:
    group = replace(GROUP, interconnect=interconnect, placement=placement)
    params = planned(group, instance_type=ND, zone=ZONE)
    assert made(params) == [groups.MEMBERS, groups.NEAR, groups.SET]
    body = params[groups.PART][groups.SET]["body"]
    near = params["vm"]["properties"]["proximityPlacementGroup"]
    assert (body["sku"], body["properties"]) == ({"name": "Aligned"}, {"proximityPlacementGroup": near})
    assert params["vm"]["properties"]["availabilitySet"]["id"].endswith("-set")
    assert "zones" not in params["vm"]


def test_spot_vms_have_no_infiniband() -> None:
    preferred, required = (replace(GROUP, interconnect=one) for one in ("preferred", "required"))
    assert made(planned(preferred, instance_type=ND, market=Market.SPOT)) == [groups.MEMBERS, groups.NEAR]
    with pytest.raises(errors.NotOffered, match="spot"):
        planned(required, instance_type=ND, market=Market.SPOT)


@pytest.mark.parametrize("placement", ["any", "same_zone"])
def test_without_cluster_and_fabric_members_only_reach_each_other(placement: str) -> None:
    assert made(planned(replace(GROUP, placement=placement, interconnect="none"), instance_type=ND)) == [groups.MEMBERS]


def test_a_lease_of_its_own_makes_nothing_for_a_group() -> None:
    params = planned(None, instance_type=ND)
    assert made(params) == []
    assert "applicationSecurityGroups" not in interface(params)["properties"]["ipConfigurations"][0]["properties"]


def test_what_is_shared_is_tagged_for_the_group_and_its_first_member() -> None:
    for one in planned(instance_type=ND)[groups.PART].values():
        found = one["body"]["tags"]
        assert (found[tags.SHARED], tags.attempt_key(found)) == (GROUP.group_id, (owner().lease_id, 1))
        assert REGION in one["name"]
        assert len(one["name"]) <= 80


def test_with_networks_the_members_come_before_the_rule_that_denies_the_rest() -> None:
    params = planned(allowed_cidrs=("203.0.113.0/24",))
    rules = {one["name"]: one["properties"] for one in params["firewall"]["body"]["properties"]["securityRules"]}
    members = rules["group-members"]
    (configuration,) = interface(params)["properties"]["ipConfigurations"]
    assert members["sourceApplicationSecurityGroups"] == configuration["properties"]["applicationSecurityGroups"]
    assert (members["access"], members["protocol"], members["destinationPortRange"]) == ("Allow", "*", "*")
    assert members["priority"] < rules["nothing-else"]["priority"]


def test_another_group_is_another_request() -> None:
    digests = {
        planned(one)["vm"]["tags"]["gpulease-request"] for one in (None, GROUP, replace(GROUP, group_id="group_b"))
    }
    assert len(digests) == 3


@contextmanager
def connected() -> Iterator[tuple[Control, AzureProvider]]:
    with running(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as sim:
        yield sim, checked(AzureProvider(account(sim.url), read_settings(call_timeout=60.0)))


def test_azure_takes_members_with_infiniband_and_gives_all_back() -> None:
    with connected() as (sim, azure):
        vms = []
        for n in range(2):
            wish = spec(owner(f"lease_{n}"), image=azure.image(REGION), instance_type=ND, zone=ZONE, group=GROUP)
            vms.append(azure.launch(REGION, azure.plan(wish)))
        assert {vm.zone for vm in vms} == {REGION}
        calls = sim.calls("azure")
        for name in ("ApplicationSecurityGroups", "ProximityPlacementGroups", "AvailabilitySets"):
            assert calls[f"{name}.CreateOrUpdate"] == 1
        azure.terminate(REGION, [vm.id for vm in vms])
        kinds: list[str] = []
        while found := [one for one in azure.leftovers(REGION, owner().installation, None).found if not one.in_use]:
            for one in found:
                azure.remove_leftover(one)
                kinds.append(one.kind)
        assert kinds.index("availability_set") < kinds.index("proximity_placement_group")
        assert not azure.leftovers(REGION, owner().installation, None).found


@pytest.mark.parametrize("code", ["InvalidResourceReference", "ResourceNotFound"])
def test_what_was_removed_meanwhile_is_made_again_by_the_repeat(code: str) -> None:
    with connected() as (sim, azure):
        params = azure.plan(spec(image=azure.image(REGION), group=GROUP))
        name = params[groups.PART][groups.NEAR]["name"]
        shared: Any = azure._shared
        for _ in range(2):
            with pytest.raises(errors.NotReady), shared.ensure(azure._group, params[groups.PART]):
                raise errors.InvalidSpec(f"Resource {name} was not found", code=code)
        assert sim.calls("azure")["ProximityPlacementGroups.Get"] == 2


def test_what_exists_and_is_not_ours_is_never_used() -> None:
    with connected() as (_, azure):
        of_others = spec(owner(installation="another"), image=azure.image(REGION), group=GROUP)
        azure.launch(REGION, azure.plan(of_others))
        azure._shared = groups.AzureGroupResources()
        with pytest.raises(errors.OutcomeUnknown, match="not ours"):
            azure.launch(REGION, azure.plan(spec(image=azure.image(REGION), group=GROUP)))
