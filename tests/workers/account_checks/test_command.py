"""`gpulease-server check` against the simulated clouds: what is wrong with an account is named with its fix."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.settings import StartupError, load_accounts
from cloudsim.credentials import DEFAULT_ACCOUNT
from cloudsim.ec2 import default_vpc
from cloudsim.testing import Control, running
from tests.workers.clouds import CLOUDS, ENVIRONMENT, PLACES, account_text
from tests.workers.providers.azure.accounts import GROUP, SUBNETS, SUBSCRIPTION
from workers.account_checks import command
from workers.account_checks.command import choose


@dataclass(frozen=True)
class Faults:
    """One fault of each subject: what the simulated cloud takes away, and what the check must show."""

    right: str
    image: str
    subnet: str
    quota: str
    images: str
    shown: Mapping[str, tuple[str, str]]


FAULTS = {
    "aws": Faults(
        right="ec2:TerminateInstances",
        image="/aws/our/image",
        subnet=default_vpc.subnet_id(DEFAULT_ACCOUNT, "us-east-1a"),
        quota="L-DB2E81BA",
        images='{ ours = "/aws/our/image" }',
        shown={
            "right": ("ec2:TerminateInstances", "grant ec2:TerminateInstances"),
            "image": ("ours", "correct `images.ours`"),
            "subnet": (default_vpc.subnet_id(DEFAULT_ACCOUNT, "us-east-1a"), "use another subnet of this zone"),
            "quota": ("L-DB2E81BA", "Running On-Demand G and VT instances"),
        },
    ),
    "gcp": Faults(
        right="compute.instances.delete",
        image="common-cu129-ubuntu-2404-nvidia-580",
        subnet="us-central1/default",
        quota="NVIDIA_L4_GPUS",
        images='{ ours = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-580" }',
        shown={
            "right": ("compute.instances.delete", "add compute.instances.delete to the role"),
            "image": ("ours", "correct `images.ours`"),
            "subnet": ("default", "name another subnetwork of this region"),
            "quota": ("NVIDIA_L4_GPUS", "request more of NVIDIA_L4_GPUS"),
        },
    ),
    "azure": Faults(
        right="Microsoft.Compute/virtualMachines/delete",
        image="microsoft-dsvm:ubuntu-hpc:2204-rocm",
        subnet=SUBNETS["eastus"],
        quota="Standard NCASv3_T4 Family",
        images='{ ours = "microsoft-dsvm:ubuntu-hpc:2204-rocm:latest" }',
        shown={
            "right": ("Microsoft.Compute/virtualMachines/delete", "add Microsoft.Compute/virtualMachines/delete"),
            "image": ("ours", "correct `images.ours`"),
            "subnet": ("eastus/gpus", "name another one in `subnet_ids`"),
            "quota": ("Standard NCASv3_T4 Family", "request more of Standard NCASv3_T4 Family vCPUs"),
        },
    ),
}
READS = (
    "token",
    "Describe",
    "Get",
    "List",
    "Simulate",
    ".get",
    ".aggregatedList",
    ".list",
    ".testIamPermissions",
    ".Get",
    ".List",
)
DRY_RUNS = {"RunInstances", "CreateSecurityGroup", "CreatePlacementGroup", "CreateVolume"}


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(command, "configure_logs", lambda *_: None)


def take_away(sim: Control, cloud: str) -> None:
    faults = FAULTS[cloud]
    sim.deny(faults.right, provider=cloud)
    sim.remove_image(faults.image, provider=cloud)
    sim.close_subnet(faults.subnet, provider=cloud)
    sim.quota(faults.quota, 0, provider=cloud)


def check(config: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = command.main(["--config", str(config), "--json", "--installation", "test-installation"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_four_faults_are_named_with_their_fixes_and_nothing_is_changed(
    cloud: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gpulease.toml"
    with running() as sim:
        config.write_text(account_text(cloud, sim.url, tmp_path, images=FAULTS[cloud].images))
        take_away(sim, cloud)
        code, report = check(config, capsys)
        assert (code, report["passed"]) == (1, False)
        assert sim.instances() == []
        assert sim.resources() == []
        others = {name for name in sim.calls(cloud) if not any(part in name for part in READS)}
        assert others == (DRY_RUNS if cloud == "aws" else set())
    failed = {one["subject"]: one for one in report["accounts"][0]["checks"] if one["result"] == "failed"}
    assert failed.keys() == {"right", "image", "subnet", "quota"}
    for subject, (name, fix) in FAULTS[cloud].shown.items():
        assert failed[subject]["name"] == name
        assert fix in failed[subject]["fix"]


def test_an_account_without_faults_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gpulease.toml"
    with running() as sim:
        config.write_text(account_text("azure", sim.url, tmp_path))
        code, report = check(config, capsys)
    assert (code, report["passed"]) == (0, True)


def test_wrong_credentials_end_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "gpulease.toml"
    with running() as sim:
        config.write_text(account_text("azure", sim.url, tmp_path))
        sim.credentials(bad=[ENVIRONMENT["AZURE_CLIENT_SECRET"]])
        code, report = check(config, capsys)
    (only,) = report["accounts"][0]["checks"]
    assert (code, only["subject"], only["result"]) == (1, "credentials", "failed")


def test_without_accounts_nothing_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--config", str(tmp_path / "none.toml")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_options_choose_accounts_and_regions(tmp_path: Path) -> None:
    config = tmp_path / "gpulease.toml"
    config.write_text(account_text("aws", "http://127.0.0.1:1", tmp_path, regions='["us-east-1", "eu-west-1"]'))
    accounts = load_accounts(config)
    assert [regions for _, regions in choose(accounts, None, None)] == [["us-east-1", "eu-west-1"]]
    assert [regions for _, regions in choose(accounts, "sim", "eu-west-1")] == [["eu-west-1"]]
    with pytest.raises(StartupError, match="no account is named 'other'; there are sim"):
        choose(accounts, "other", None)
    with pytest.raises(StartupError, match="no account has the region 'mars'"):
        choose(accounts, None, "mars")
    with pytest.raises(StartupError, match="no accounts"):
        choose({}, None, None)


RESERVED = {
    "aws": ("capacity_reservation", "cr-0000000000000000a", "ec2:DescribeCapacityReservations"),
    "gcp": ("reservation", "gpus", "compute.reservations.get"),
    "azure": (
        "capacity_reservation_group",
        f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/capacityReservationGroups/gpus",
        "Microsoft.Compute/capacityReservationGroups/deploy/action",
    ),
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_rights_to_reservations_are_checked_where_an_account_names_some(
    cloud: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gpulease.toml"
    kind, reservation_id, right = RESERVED[cloud]
    reservation = {"name": "lab", "kind": kind, "id": reservation_id, **PLACES[cloud]}
    section = "\n".join(f'{name} = "{value}"' for name, value in reservation.items())
    with running() as sim:
        sim.deny(right, provider=cloud)
        for text, failing in (("", []), (f"\n[[accounts.reservations]]\n{section}\n", [right])):
            config.write_text(account_text(cloud, sim.url, tmp_path) + text)
            _, report = check(config, capsys)
            checks = report["accounts"][0]["checks"]
            assert [one["name"].partition(" on ")[0] for one in checks if one["result"] == "failed"] == failing
