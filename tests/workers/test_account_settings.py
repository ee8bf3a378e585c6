"""A lease in an account with tags, copied labels and a data disk, from its request to its end."""

from collections.abc import Callable
from pathlib import Path

from cloudsim.credentials import DEFAULT_ACCOUNT
from cloudsim.ec2 import default_vpc
from cloudsim.testing import Control
from tests.workers.fleet import ACCOUNT, REGION, Fleet


def test_a_lease_gets_what_its_account_adds_and_leaves_nothing(
    make_fleet: Callable[..., Fleet], sim: Control, tmp_path: Path
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
        'tags = { CostCenter = "4711" }\ncopy_labels = ["project"]\ndata_disk_gib = 500\n'
        'kms_key_id = "alias/gpulease"\ninstance_profile = "gpulease-node"\npublic_addresses = false\nssh_port = 2222\n'
    )
    fleet = make_fleet(config=config)
    lease_id = fleet.create(labels={"project": "apollo", "team": "vision"}, allowed_cidrs=["203.0.113.0/24"])
    fleet.drive_to(lease_id, "active")
    (vm,) = fleet.vms()
    resources = sim.resources()
    assert sorted(one["kind"] for one in resources) == ["network_interface", "security_group", "volume", "volume"]
    for one in (vm, *resources):
        assert (one["tags"]["CostCenter"], one["tags"]["project"]) == ("4711", "apollo")
        assert one["tags"]["gpulease-lease"] == lease_id
        assert "team" not in one["tags"]
    lease = fleet.lease(lease_id)
    assert (lease.state, lease.connection["ssh_port"]) == ("active", 2222)
    assert lease.connection["ssh_command"] == f"ssh -p 2222 ubuntu@{lease.connection['private_ip']}"
    (attempt,) = fleet.attempts(lease_id)
    assert attempt.params["Firewall"]["Ingress"][0]["FromPort"] == 2222
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert sim.resources() == []
    assert "disk_iops" not in fleet.account().config
    assert fleet.account().config["tags"] == {"CostCenter": "4711"}


def test_a_lease_whose_subnet_is_full_starts_in_the_other_subnet_of_the_zone(
    make_fleet: Callable[..., Fleet], sim: Control, tmp_path: Path
) -> None:
    zone = f"{REGION}a"
    subnets = [default_vpc.subnet_id(DEFAULT_ACCOUNT, zone, kind) for kind in (default_vpc.DEFAULT, default_vpc.SECOND)]
    config = tmp_path / "subnets.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
        f"subnet_ids = {subnets}\n"
    )
    fleet = make_fleet(config=config)
    sim.fault("RunInstances", "error", code="InsufficientFreeAddressesInSubnet", times=1)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    refused, launched = fleet.attempts(lease_id)
    assert (refused.state, refused.zone, refused.error["class"]) == ("refused", zone, "NetworkFull")
    assert (launched.state, launched.zone, launched.instance_type) == ("known", zone, refused.instance_type)
    used = [attempt.params["NetworkInterfaces"][0]["SubnetId"] for attempt in (refused, launched)]
    assert used == subnets[::-1]
    assert fleet.cooling() == []
    sim.fault("RunInstances", "error", code="InsufficientFreeAddressesInSubnet")
    full = fleet.create()
    fleet.drive_to(full, "failed", "released")
    assert len(fleet.attempts(full)) <= 2
