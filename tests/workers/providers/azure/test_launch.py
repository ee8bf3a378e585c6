"""A specification as the PUT that makes a VM, and as the group before it."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from app.domain.offerings import Market
from app.domain.tags import LABEL_PREFIX
from app.domain.tokens import launch_name
from cloudsim.user_data import first_boot
from tests.workers.providers.azure.accounts import GROUP, SUBNETS, SUBSCRIPTION, account
from tests.workers.providers.azure.specs import spec
from tests.workers.providers.samples import KEY, owner
from workers.providers.azure import launch, resource_tags, userdata
from workers.providers.errors import InvalidSpec
from workers.providers.types import HostKeyReport, Image

GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ= me@example"


def plan(settings: Mapping[str, Any] | None = None, **changes: Any) -> Any:
    """The parameters for an account with `settings`."""
    of = account("http://127.0.0.1:9", **(settings or {}))
    return launch.plan(spec(**changes), of, group=GROUP_ID, subnet=SUBNETS["eastus"])


def interface(params: Any) -> Any:
    (one,) = params["vm"]["properties"]["networkProfile"]["networkInterfaceConfigurations"]
    return one


def config(params: Any) -> Any:
    """What cloud-init reads."""
    return first_boot(params["vm"]["properties"]["osProfile"]["customData"]).config


def test_whatever_is_made_goes_with_the_vm() -> None:
    params = plan()
    nic = interface(params)["properties"]
    options = [
        params["vm"]["properties"]["storageProfile"]["osDisk"]["deleteOption"],
        nic["deleteOption"],
        nic["ipConfigurations"][0]["properties"]["publicIPAddressConfiguration"]["properties"]["deleteOption"],
    ]
    assert options == ["Delete"] * 3


def test_whatever_is_made_carries_the_owner() -> None:
    params = plan(allowed_cidrs=("203.0.113.0/24",))
    nic = interface(params)
    address = nic["properties"]["ipConfigurations"][0]["properties"]["publicIPAddressConfiguration"]
    for one in (params["vm"], nic, address, params["firewall"]["body"]):
        assert one["tags"].items() >= owner().as_tags().items()
        assert one["tags"]["Name"] == "train-7b"


def test_only_keys_open_the_vm() -> None:
    system = plan()["vm"]["properties"]["osProfile"]
    assert "adminPassword" not in system
    assert system["linuxConfiguration"]["disablePasswordAuthentication"] is True
    (key,) = system["linuxConfiguration"]["ssh"]["publicKeys"]
    assert key == {"path": f"/home/{launch.USER}/.ssh/authorized_keys", "keyData": KEY}
    assert "identity" not in plan()["vm"], "the VM has no rights at Azure"


@pytest.mark.parametrize("keys", [(), (ECDSA,)])
def test_a_lease_without_a_key_that_azure_takes_gets_one_that_nobody_holds(keys: tuple[str, ...]) -> None:
    params = plan(ssh_public_keys=keys)
    (key,) = params["vm"]["properties"]["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]
    kind, blob, comment = key["keyData"].split()
    assert (kind, comment) == ("ssh-ed25519", "nobody")
    assert len(base64.b64decode(blob)) == 4 + 11 + 4 + 32
    assert config(params)["ssh_authorized_keys"] == list(keys)
    assert plan(ssh_public_keys=keys) == params


def test_no_watch_over_the_deadline_runs_in_the_vm_because_a_shutdown_still_bills() -> None:
    assert config(plan(startup_script=None)).keys() == {"ssh_authorized_keys"}
    told = config(
        plan(startup_script=None, host_keys=HostKeyReport(url="https://gpu.example.org/v1/host-keys", token="f" * 64))
    )
    assert [one["path"] for one in told["write_files"]] == [
        "/usr/local/sbin/gpulease-host-keys",
        "/etc/systemd/system/gpulease-host-keys.service",
    ]


def test_custom_data_beyond_what_azure_takes_is_refused() -> None:
    noise = base64.b64encode(bytes(number * 7919 % 251 for number in range(200_000))).decode()
    incompressible = "".join(chr(33 + (ord(one) * position) % 90) for position, one in enumerate(noise, start=1))
    with pytest.raises(InvalidSpec, match="at most 49149 fit"):
        userdata.packed(spec(startup_script=f"#!/bin/sh\n# {incompressible}\n"))


def test_spot_is_deallocated_when_it_is_evicted_and_never_evicted_for_its_price() -> None:
    properties = plan(market=Market.SPOT)["vm"]["properties"]
    assert {name: properties[name] for name in ("priority", "evictionPolicy", "billingProfile")} == {
        "priority": "Spot",
        "evictionPolicy": "Deallocate",
        "billingProfile": {"maxPrice": -1},
    }
    assert not {"priority", "evictionPolicy", "billingProfile"} & plan()["vm"]["properties"].keys()


def test_a_zone_is_asked_for_by_its_number_and_a_region_without_one() -> None:
    assert plan(zone="eastus-2")["vm"]["zones"] == ["2"]
    assert "zones" not in plan(zone="eastus")["vm"]


def test_an_image_is_named_by_its_parts_or_by_its_id() -> None:
    reference = plan()["vm"]["properties"]["storageProfile"]["imageReference"]
    assert reference == {
        "publisher": "microsoft-dsvm",
        "offer": "ubuntu-hpc",
        "sku": "2204",
        "version": "22.04.2026060801",
    }
    own = Image(id=f"{GROUP_ID}/providers/Microsoft.Compute/images/mine", name="mine")
    assert plan(image=own)["vm"]["properties"]["storageProfile"]["imageReference"] == {"id": own.id}


def test_a_disk_holds_its_image() -> None:
    assert plan(disk_gib=50)["vm"]["properties"]["storageProfile"]["osDisk"]["diskSizeGB"] == 128
    assert plan(disk_gib=500)["vm"]["properties"]["storageProfile"]["osDisk"]["diskSizeGB"] == 500


def test_without_public_address_none_is_asked_for() -> None:
    configuration = interface(plan(public_ip=False))["properties"]["ipConfigurations"][0]["properties"]
    assert "publicIPAddressConfiguration" not in configuration
    assert configuration["subnet"] == {"id": SUBNETS["eastus"]}


def test_the_group_opens_the_accounts_own_ssh_port() -> None:
    params = plan(allowed_cidrs=("203.0.113.0/24",), ssh_port=2222)
    first, _ = params["firewall"]["body"]["properties"]["securityRules"]
    assert first["properties"]["destinationPortRange"] == "2222"


def test_networks_make_a_group_of_their_own_that_lets_nothing_else_in() -> None:
    params = plan(allowed_cidrs=("203.0.113.0/24", "2001:db8::/32", "203.0.113.0/24"))
    group = params["firewall"]
    rules = [rule["properties"] for rule in group["body"]["properties"]["securityRules"]]
    seen = [(one["access"], one["destinationPortRange"], one.get("sourceAddressPrefixes")) for one in rules]
    assert seen == [("Allow", "22", ["203.0.113.0/24"]), ("Allow", "22", ["2001:db8::/32"]), ("Deny", "*", None)]
    attached = interface(params)["properties"]["networkSecurityGroup"]["id"]
    assert attached == f"{GROUP_ID}/providers/Microsoft.Network/networkSecurityGroups/{group['name']}"


def test_other_parameters_are_another_request_under_the_same_name() -> None:
    first = plan()
    for changed in (plan(disk_gib=999), plan(public_ip=False), plan(allowed_cidrs=("203.0.113.0/24",))):
        assert changed["name"] == first["name"]
        assert changed["vm"]["tags"][resource_tags.REQUEST] != first["vm"]["tags"][resource_tags.REQUEST]
    assert json.loads(json.dumps(first)) == plan()


def test_a_name_fits_a_host_name_and_differs_by_attempt() -> None:
    found = {launch_name(spec(owner(n=n)).token) for n in range(1, 4)}
    assert len(found) == 3
    assert all(len(one) <= 63 and one.replace("-", "").isalnum() for one in found)


def test_labels_are_kept_inside_what_azure_takes() -> None:
    labels = {
        "a/b": "x\ny",
        "b<c>": "v",
        "Team": "1",
        "team": "2",
        **{f"k{n:02}": "v" for n in range(60)},
        "long": "v" * 300,
    }
    found = resource_tags.of(spec(labels=labels), account("http://127.0.0.1:9"))
    assert len(found) < 50
    assert found[f"{LABEL_PREFIX}a:b"] == "x_y"
    assert found[f"{LABEL_PREFIX}team"] == "2"
    assert len({key.lower() for key in found}) == len(found)
    assert all(len(value) <= 256 for value in found.values())
    assert found.items() >= owner().as_tags().items()
