"""What a launch asks Azure for when its VM is a member of a group, read by the SDK's own models."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from azure.mgmt.compute import models as compute
from azure.mgmt.network import models as network

from app.domain import tags
from app.domain.offerings import Market
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import GROUP as GROUP_NAME
from tests.workers.providers.azure.accounts import SECURITY_GROUPS, SUBNETS, account
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.azure.strict import checked, read
from tests.workers.providers.azure.test_launch import GROUP_ID, interface
from tests.workers.providers.contract.cases import as_stored
from tests.workers.providers.samples import GROUP, owner
from workers.providers import errors
from workers.providers.azure import firewall, groups, launch
from workers.providers.azure.adapter import AzureProvider
from workers.providers.types import GroupSpec

ND = "Standard_ND96isr_H100_v5"
"""A size with InfiniBand."""
ZONE = f"{REGION}-1"
NETWORKS = ("203.0.113.0/24",)
MODELS = {
    groups.MEMBERS: network.ApplicationSecurityGroup,
    groups.RULES: network.NetworkSecurityGroup,
    groups.NEAR: compute.ProximityPlacementGroup,
    groups.SET: compute.AvailabilitySet,
}


def planned(group: GroupSpec | None = GROUP, settings: Mapping[str, Any] | None = None, **changes: Any) -> Any:
    of = account("http://127.0.0.1:9", **(settings or {}))
    params = launch.plan(spec(group=group, **changes), of, group=GROUP_ID, subnet=SUBNETS[REGION])
    for kind, one in params.get(groups.PART, {}).items():
        read(one["body"], MODELS[kind], kind)
    assert json.loads(json.dumps(params)) == params
    return params


def made(params: Any) -> list[str]:
    return list(params.get(groups.PART, {}))


def test_a_cluster_is_in_one_proximity_placement_group_in_its_zone() -> None:
    params = planned(zone=ZONE)
    assert made(params) == [groups.MEMBERS, groups.RULES, groups.NEAR]
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
    assert made(params) == [groups.MEMBERS, groups.RULES, groups.NEAR, groups.SET]
    body = params[groups.PART][groups.SET]["body"]
    near = params["vm"]["properties"]["proximityPlacementGroup"]
    assert (body["sku"], body["properties"]) == ({"name": "Aligned"}, {"proximityPlacementGroup": near})
    assert params["vm"]["properties"]["availabilitySet"]["id"].endswith("-set")
    assert "zones" not in params["vm"]


def test_spot_vms_have_no_infiniband() -> None:
    preferred, required = (replace(GROUP, interconnect=one) for one in ("preferred", "required"))
    assert made(planned(preferred, instance_type=ND, market=Market.SPOT)) == [groups.MEMBERS, groups.RULES, groups.NEAR]
    with pytest.raises(errors.NotOffered, match="spot"):
        planned(required, instance_type=ND, market=Market.SPOT)


@pytest.mark.parametrize("placement", ["any", "same_zone"])
def test_without_cluster_and_fabric_members_only_reach_each_other(placement: str) -> None:
    assert made(planned(replace(GROUP, placement=placement, interconnect="none"), instance_type=ND)) == [
        groups.MEMBERS,
        groups.RULES,
    ]


def test_a_lease_of_its_own_makes_nothing_for_a_group() -> None:
    params = planned(None, instance_type=ND)
    assert made(params) == [groups.RULES]
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


def security_group(params: Any) -> str:
    return str(interface(params)["properties"]["networkSecurityGroup"]["id"])


def rules_of(params: Any, kind: str = groups.PART) -> list[tuple[str, str]]:
    body = params[kind][groups.RULES]["body"] if kind == groups.PART else params[kind]["body"]
    return [(one["name"], one["properties"]["access"]) for one in body["properties"]["securityRules"]]


def test_vms_of_all_tenants_share_one_group_of_the_region_that_lets_nothing_in() -> None:
    first, second = (planned(None), planned(None, labels={"a": "b"}))
    assert security_group(first) == security_group(second)
    one = first[groups.PART][groups.RULES]
    assert security_group(first).endswith(f"/networkSecurityGroups/{one['name']}")
    assert rules_of(first) == [("nothing-else", "Deny")]
    assert one["body"]["tags"] == {tags.INSTALLATION: owner().installation}
    elsewhere = spec(replace(owner(), installation="i" * 40), region="southafricanorthwest")
    assert (
        len(
            groups.plan(elsewhere, account("http://127.0.0.1:9"), GROUP_ID, (groups.RULES,))["group"][groups.RULES][
                "name"
            ]
        )
        <= 80
    )


def test_members_have_a_group_that_lets_in_the_members_alone() -> None:
    params = planned()
    assert security_group(params).endswith(params[groups.PART][groups.RULES]["name"])
    assert rules_of(params) == [("group-members", "Allow"), ("nothing-else", "Deny")]


def test_an_interface_has_the_group_of_its_networks_else_of_its_members_else_of_the_account() -> None:
    named = {"network_security_group_ids": SECURITY_GROUPS}
    params = planned(None, named)
    assert (made(params), security_group(params)) == ([], SECURITY_GROUPS[REGION])
    for params in (planned(None, named, allowed_cidrs=NETWORKS), planned(GROUP, named, allowed_cidrs=NETWORKS)):
        assert groups.RULES not in made(params)
        assert security_group(params).endswith(params["firewall"]["name"])
    assert security_group(planned(GROUP, named)) == security_group(planned(GROUP))
    digests = {planned(None, one)["vm"]["tags"]["gpulease-request"] for one in ({}, named)}
    assert len(digests) == 2


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
        while found := [one for one in azure.leftovers(REGION, owner().installation, None).resources if not one.in_use]:
            for one in found:
                azure.remove_leftover(one)
                kinds.append(one.kind)
        assert kinds.index("availability_set") < kinds.index("proximity_placement_group")
        assert kinds.index("security_group") < kinds.index("application_security_group")
        assert not azure.leftovers(REGION, owner().installation, None).resources


@pytest.mark.parametrize("instance_type", [ND, "Standard_NC24ads_A100_v4"])
def test_the_database_keeps_no_order_and_each_thing_is_created_before_what_names_it(instance_type: str) -> None:
    with connected() as (_, azure):
        wish = spec(owner("lease_0"), image=azure.image(REGION), instance_type=instance_type, zone=ZONE, group=GROUP)
        assert azure.launch(REGION, as_stored(azure.plan(wish))).id


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


def test_the_group_of_all_vms_is_made_again_when_somebody_removed_it() -> None:
    with connected() as (sim, azure):
        params = azure.plan(spec(image=azure.image(REGION)))
        name = params[groups.PART][groups.RULES]["name"]
        vm = azure.launch(REGION, params)
        with pytest.raises(errors.OutcomeUnknown, match="in use"):
            firewall.remove(azure._group.network, azure._group.name, name)
        azure.terminate(REGION, [vm.id])
        firewall.remove(azure._group.network, azure._group.name, name)
        params = azure.plan(spec(owner("lease_b"), image=azure.image(REGION)))
        with pytest.raises(errors.NotReady):
            azure.launch(REGION, params)
        azure.launch(REGION, params)
        assert sim.calls("azure")["NetworkSecurityGroups.CreateOrUpdate"] == 2


@pytest.mark.parametrize("group", [None, GROUP])
def test_no_vm_starts_behind_a_group_that_somebody_has_opened(group: GroupSpec | None) -> None:
    with connected() as (sim, azure):
        params = azure.plan(spec(image=azure.image(REGION), group=group))
        made = params[groups.PART][groups.RULES]
        azure.launch(REGION, params)
        opened = json.loads(json.dumps(made["body"]))
        opened["properties"]["securityRules"][-1]["properties"]["access"] = "Allow"
        azure._group.network.network_security_groups.begin_create_or_update(GROUP_NAME, made["name"], opened)
        azure._shared = groups.AzureGroupResources()
        with pytest.raises(errors.InvalidSpec, match="delete it") as refused:
            azure.launch(REGION, azure.plan(spec(owner("lease_b"), image=azure.image(REGION), group=group)))
        assert refused.value.code == "SeparationChanged"
        assert sim.calls("azure")["VirtualMachines.CreateOrUpdate"] == 1


def test_what_exists_and_is_not_ours_is_never_used() -> None:
    with connected() as (_, azure):
        of_others = spec(owner(installation="another"), image=azure.image(REGION), group=GROUP)
        azure.launch(REGION, azure.plan(of_others))
        azure._shared = groups.AzureGroupResources()
        with pytest.raises(errors.OutcomeUnknown, match="not ours"):
            azure.launch(REGION, azure.plan(spec(image=azure.image(REGION), group=GROUP)))
