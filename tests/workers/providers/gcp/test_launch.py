"""The parameters of a launch, checked against Google's own description of the call."""

import json
import re
import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import tags
from app.domain.offerings import LISTED_MARKETS, Market
from app.domain.tags import OwnerTags
from app.domain.tokens import launch_name
from cloudsim.gce.labels import check as check_labels
from tests.cloudsim.gce.discovery import faults
from tests.workers.providers.gcp.accounts import PROJECT, REGION, account
from tests.workers.providers.gcp.specs import IMAGE, spec
from tests.workers.providers.samples import KEY, owner
from workers.providers.gcp import firewall, launch
from workers.providers.gcp.catalogue import Machine
from workers.providers.gcp.sdk import Firewall
from workers.providers.types import LaunchSpec, Params

NETWORKS = ("203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32")


def planned(wanted: LaunchSpec, boot_disk: str = "pd-balanced", **settings: Any) -> Params:
    machine = Machine(machine_type=wanted.instance_type, boot_disk=boot_disk, gpus=1)
    params = launch.plan(wanted, account("http://127.0.0.1:9", None, **settings), machine)
    assert list(faults(params["instance"], "Instance")) == []
    for rule in params["firewalls"]:
        assert list(faults(rule, "Firewall")) == []
    return params


def instance(wanted: LaunchSpec, **settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = planned(wanted, **settings)["instance"]
    return found


@pytest.mark.parametrize("market", LISTED_MARKETS)
@pytest.mark.parametrize("public_ip", [True, False])
@pytest.mark.parametrize("max_seconds", [None, 3600])
def test_the_parameters_fit_the_api_and_survive_json(market: Market, public_ip: bool, max_seconds: int | None) -> None:
    wanted = spec(market=market, public_ip=public_ip, max_seconds=max_seconds, allowed_cidrs=NETWORKS)
    params = planned(wanted)
    assert json.loads(json.dumps(params)) == params == planned(wanted)
    assert launch.body(params).name == params["instance"]["name"]


def test_the_name_comes_from_the_token_and_fits() -> None:
    made = instance(spec())
    assert re.fullmatch(r"gpulease-[0-9a-f]{40}", made["name"])
    assert made["name"] == launch_name(spec().token)
    assert made["tags"]["items"] == [made["name"], "gpulease-vm"]
    assert made["description"] == f"gpulease {spec().token}"


def test_the_vm_is_made_in_its_zone_from_the_image() -> None:
    params = planned(spec(zone=f"{REGION}-c"), boot_disk="hyperdisk-balanced")
    (disk,) = params["instance"]["disks"]
    assert params["zone"] == f"{REGION}-c"
    assert params["instance"]["machineType"] == f"zones/{REGION}-c/machineTypes/g2-standard-4"
    assert disk["initializeParams"]["sourceImage"] == IMAGE.id
    assert disk["initializeParams"]["diskType"] == f"zones/{REGION}-c/diskTypes/hyperdisk-balanced"


def test_nothing_outlives_the_vm_and_it_has_no_rights() -> None:
    made = instance(spec())
    assert all(disk["autoDelete"] for disk in made["disks"])
    assert made["serviceAccounts"] == []


@pytest.mark.parametrize(("asked", "least", "gets"), [(321, 20, "321"), (10, 50, "50")])
def test_the_disk_holds_the_image_and_what_was_asked_for(asked: int, least: int, gets: str) -> None:
    (disk,) = instance(spec(disk_gib=asked, image=replace(IMAGE, disk_gib=least)))["disks"]
    assert disk["initializeParams"]["diskSizeGb"] == gets


def test_spot_vms_are_deleted_when_they_are_taken_back() -> None:
    assert instance(spec(market=Market.SPOT))["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
    }
    assert "provisioningModel" not in instance(spec())["scheduling"]


@pytest.mark.parametrize(("seconds", "written"), [(3600, "3600"), (10**9, str(120 * 86_400))])
def test_google_itself_ends_the_vm_at_the_longest_term(seconds: int, written: str) -> None:
    scheduling = instance(spec(max_seconds=seconds))["scheduling"]
    assert scheduling["maxRunDuration"] == {"seconds": written}
    assert scheduling["instanceTerminationAction"] == "DELETE"


def test_the_network_is_the_accounts() -> None:
    assert (
        instance(spec(), network="vpc")["networkInterfaces"][0]["network"] == f"projects/{PROJECT}/global/networks/vpc"
    )
    for given_, used in {
        "gpus": f"projects/{PROJECT}/regions/{REGION}/subnetworks/gpus",
        "projects/host/regions/r/subnetworks/s": "projects/host/regions/r/subnetworks/s",
    }.items():
        (interface,) = instance(spec(), subnetworks={REGION: given_})["networkInterfaces"]
        assert interface["subnetwork"] == used
        assert "network" not in interface


def test_only_a_vm_that_asks_for_it_has_an_external_address() -> None:
    assert instance(spec(public_ip=True))["networkInterfaces"][0]["accessConfigs"]
    assert "accessConfigs" not in instance(spec(public_ip=False))["networkInterfaces"][0]


def test_the_same_parameters_are_the_same_request_and_others_another() -> None:
    first, same = launch.request_id(planned(spec())), launch.request_id(planned(spec()))
    assert first == same
    assert uuid.UUID(first).int
    assert first != launch.request_id(planned(spec(disk_gib=999)))
    assert first != launch.request_id(planned(spec(zone=f"{REGION}-b")))


def test_a_rule_is_for_the_accounts_own_ssh_port() -> None:
    (rule,) = planned(spec(allowed_cidrs=NETWORKS[:1], ssh_port=2222))["firewalls"]
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["2222"]}]


def test_rules_hold_one_family_each_and_apply_to_this_vm_alone() -> None:
    params = planned(spec(allowed_cidrs=NETWORKS), network="vpc")
    four, six = params["firewalls"]
    name = params["instance"]["name"]
    assert [four["name"], six["name"]] == [name, f"{name}-v6"]
    assert four["sourceRanges"] == list(NETWORKS[:2])
    assert six["sourceRanges"] == list(NETWORKS[2:])
    for rule in (four, six):
        assert rule["targetTags"] == [name]
        assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
        assert rule["network"] == f"projects/{PROJECT}/global/networks/vpc"
        assert len(rule["name"]) <= 63
        assert len(rule["description"]) <= 2048
        assert OwnerTags.parse(json.loads(rule["description"])) == owner()


@pytest.mark.parametrize("networks", [NETWORKS[:1], NETWORKS[2:], (NETWORKS[0], NETWORKS[0])])
def test_one_family_makes_one_rule_and_a_network_stands_once(networks: tuple[str, ...]) -> None:
    (rule,) = planned(spec(allowed_cidrs=networks))["firewalls"]
    assert rule["sourceRanges"] == [networks[0]]


def test_a_rule_without_our_description_has_no_owner() -> None:
    for text in ("", "made by hand", "[]", "{"):
        assert firewall.owner_of(Firewall(description=text)) == {}


# --- labels -----------------------------------------------------------------------------------------------


def test_vm_and_disk_carry_owner_name_and_the_tenants_labels() -> None:
    made = instance(spec(name="Train 7B", labels={"Team/Name": "Vision & Co", "team": "x"}))
    labels = made["labels"]
    assert made["disks"][0]["initializeParams"]["labels"] == labels
    assert OwnerTags.parse(labels) == owner()
    assert labels["name"] == "train_7b"
    assert labels[tags.LABEL_PREFIX + "team_name"] == "vision___co"
    assert labels[tags.LABEL_PREFIX + "team"] == "x"


def test_a_label_of_a_tenant_never_overwrites_ours() -> None:
    theirs = {"": "x", "../gpulease-lease": "stolen", "gpulease-lease": "stolen"}
    assert instance(spec(labels=theirs))["labels"][tags.LEASE] == "lease_a"


def test_what_google_would_not_take_of_the_owner_is_shortened_the_same_way_each_time() -> None:
    long = owner(installation="An Installation with a Name that Google does not take, and too long at that")
    labels = instance(spec(long))["labels"]
    assert re.fullmatch(r"[a-z0-9_-]{1,63}", labels[tags.INSTALLATION])
    assert labels == instance(spec(long))["labels"]
    near = replace(long, installation=long.installation + "!")
    assert labels[tags.INSTALLATION] != instance(spec(near))["labels"][tags.INSTALLATION]


@given(labels=st.dictionaries(st.text(max_size=80), st.text(max_size=80), max_size=70), name=st.text(max_size=90))
def test_any_labels_and_name_are_taken(labels: dict[str, str], name: str) -> None:
    made = instance(spec(labels=labels, name=name))["labels"]
    check_labels(made)
    assert OwnerTags.parse(made) == owner()


# --- SSH keys ---------------------------------------------------------------------------------------------


def test_keys_are_the_login_users_and_no_others_get_in() -> None:
    items = {item["key"]: item["value"] for item in instance(spec(ssh_public_keys=(KEY, KEY)))["metadata"]["items"]}
    assert items["ssh-keys"].splitlines() == [f"ubuntu:{KEY}"] * 2
    assert items["block-project-ssh-keys"] == "TRUE"
    assert items["enable-oslogin"] == "FALSE"
    assert items["enable-guest-attributes"] == "TRUE"
