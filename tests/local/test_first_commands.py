"""The commands that `make up` prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.first_commands import client_command
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
