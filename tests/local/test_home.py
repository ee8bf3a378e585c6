"""The home of a stack: private, held by one stack at a time, and easy to empty."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.home import Home, claimed, find_home, start_over
from app.settings import StartupError

HOLD = """
import sys
from pathlib import Path
from app.local.home import Home, claimed
with claimed(Home(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_it_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    with claimed(home):
        assert stat.S_IMODE(home.path.stat().st_mode) == 0o700


def test_a_second_stack_is_told_who_has_it_and_what_to_set(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with claimed(home), pytest.raises(StartupError, match=f"process {os.getpid()}.*GPULEASE_HOME"), claimed(home):
        raise AssertionError


def test_it_is_free_again_after_the_holder_was_killed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StartupError), claimed(home):
            raise AssertionError
        holder.kill()
    with claimed(home):
        assert home.lock_file.exists()


def test_an_unusable_folder_is_a_clear_message(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StartupError, match="GPULEASE_HOME"), claimed(Home(file / "home")):
        raise AssertionError


def test_the_environment_says_where_it_is(tmp_path: Path) -> None:
    assert find_home({"GPULEASE_HOME": str(tmp_path)}) == Home(tmp_path)
    assert find_home({}).path.name == ".gpulease"


@pytest.mark.parametrize("length", [10, 200])
def test_the_control_socket_can_be_bound_however_long_the_path_is(tmp_path: Path, length: int) -> None:
    home = Home(tmp_path / ("h" * length))
    home.path.mkdir()
    path = home.supervisor_socket
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    path.unlink()


def test_two_long_homes_have_two_sockets(tmp_path: Path) -> None:
    first, second = (Home(tmp_path / (letter * 200)) for letter in "ab")
    assert first.supervisor_socket != second.supervisor_socket


def test_starting_over_removes_what_a_stack_made_and_nothing_else(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.postgres / "base").mkdir(parents=True)
    for file in (home.credentials_file, home.state_file, home.cloudsim_file, tmp_path / "cloudsim.json-wal"):
        file.touch()
    mine = tmp_path / "notes.txt"
    mine.touch()
    start_over(home)
    assert list(tmp_path.iterdir()) == [mine]
