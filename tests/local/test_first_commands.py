"""The commands that `make up` prints."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.local.demo import AccountReport, Credentials
from app.local.first_commands import client_command, first_lines
from app.local.home import Home
from tests.house.sources import ROOT


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A Python with a `gpulease` beside it."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "gpulease"):
        (folder / name).touch(mode=0o755)
    return folder / "python"


def test_a_stack_of_the_current_folder_needs_no_variable(tmp_path: Path, installed: Path) -> None:
    home = Home(tmp_path / ".gpulease")
    assert client_command(home, tmp_path, installed, "/nonexistent") == "venv/bin/gpulease"
    below = tmp_path / "below"
    assert client_command(home, below, installed, "/nonexistent") == f"{installed.parent}/gpulease"
    assert client_command(home, tmp_path, installed, str(installed.parent)) == "gpulease"


@pytest.mark.parametrize("folder", ["state", "other/.gpulease", "with blank"])
def test_another_home_is_part_of_the_command(tmp_path: Path, installed: Path, folder: str) -> None:
    command = client_command(Home(tmp_path / folder), tmp_path, installed, "/nonexistent")
    shell = f'gpulease() {{ printf %s "$GPULEASE_HOME"; }}; {command.replace("venv/bin/gpulease", "gpulease")}'
    printed = subprocess.run(
        ["/bin/sh", "-c", shell], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert printed.stdout == str(tmp_path / folder)


def test_without_a_script_python_runs_the_client(tmp_path: Path) -> None:
    command = client_command(
        Home(tmp_path / ".gpulease"), tmp_path, Path(sys.executable).parent / "none" / "python", ""
    )
    assert command.endswith(" -P -m app.cli")


def test_the_printed_command_runs_in_this_environment(tmp_path: Path) -> None:
    command = client_command(Home(tmp_path / "state"), ROOT, Path(sys.executable), "/usr/bin:/bin")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} lease list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert (done.returncode, "no credentials" in done.stderr) == (2, True)


def _credentials(cloudsim_url: str | None) -> Credentials:
    return Credentials(
        api_url="http://127.0.0.1:8000",
        cloudsim_url=cloudsim_url,
        database_url="",
        broker_url="",
        operator_key="",
        tenant_id="tenant_1",
        tenant_key="",
    )


_ACCOUNT = AccountReport(name="research", identity="123456789012", state="ok", cause=None, has_offerings=True)


def test_simulated_vms_have_a_ready_first_lease(tmp_path: Path) -> None:
    printed = first_lines(Home(tmp_path), _credentials("http://127.0.0.1:8010"), "gpulease", [_ACCOUNT])
    assert "gpulease lease create --name first" in printed
    assert "cost money" not in printed


def test_with_real_accounts_nothing_that_buys_is_printed(tmp_path: Path) -> None:
    accounts = [_ACCOUNT, replace(_ACCOUNT, name="new", identity=None, has_offerings=False)]
    printed = first_lines(Home(tmp_path), _credentials(None), "gpulease", accounts)
    assert "VMs cost money in account 123456789012 (research)\nVMs cost money in account new\n" in printed
    assert "lease create" not in printed
    assert "simulated" not in printed
    assert "cloudsim" not in printed
    assert "gpulease lease plan --gpu MODEL:COUNT --ttl 1h" in printed


def test_without_offerings_no_lease_is_suggested(tmp_path: Path) -> None:
    account = replace(_ACCOUNT, state="failing_catalogue", cause="us-east-1: Unreachable", has_offerings=False)
    for url in ("http://127.0.0.1:8010", None):
        printed = first_lines(Home(tmp_path), _credentials(url), "gpulease", [account])
        assert "lease create" not in printed
        assert "lease plan" not in printed
        assert "gpulease ops accounts" in printed
    assert account.trouble() == "account research is failing (catalogue): us-east-1: Unreachable"
