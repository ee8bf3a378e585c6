"""Forked programs behave like those of new interpreters, and end with whoever has started them."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.local.leftovers import argv_of
from app.local.supervisord import FORKS
from app.local.waiting import wait_until
from tests.harness.forks import Forked, ForkServer, Program, fork_server

PROGRAM = """
import os, signal, sys, time
print("colour", os.environ.get("COLOUR"), "argv", sys.argv[1:], "imported", "quopri" in sys.modules, os.getcwd())
print("own session", os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGTERM).name, sys.stdin.read() == "")
if "fail" in sys.argv:
    sys.exit(3)
print("up")
while True:
    time.sleep(60)
"""
PATIENCE = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "somebodys_program.py").write_text(PROGRAM)
    return tmp_path


def started(forks: ForkServer, folder: Path, *arguments: str) -> Program:
    argv = [sys.executable, "-m", "somebodys_program", *arguments]
    return forks.start(argv, {"COLOUR": "green"}, folder / "log", imports=["quopri"], folder=folder)


def log_of(folder: Path) -> list[str]:
    return (folder / "log").read_text(encoding="utf-8").splitlines()


def wait_until_up(folder: Path) -> None:
    assert wait_until(lambda: log_of(folder)[-1:] == ["up"], timeout=PATIENCE), log_of(folder)


def test_a_program_has_its_arguments_environment_folder_and_exit_code(forks: ForkServer, folder: Path) -> None:
    program = started(forks, folder, "fail", "a b")
    assert program.wait(PATIENCE) == program.poll() == 3
    assert log_of(folder) == [
        f"colour green argv ['fail', 'a b'] imported {FORKS} {folder}",
        "own session True SIG_DFL True",
    ]


def test_the_system_shows_its_words_and_its_environment(forks: ForkServer, folder: Path) -> None:
    program = started(forks, folder)
    wait_until_up(folder)
    process = psutil.Process(program.pid)
    assert process.environ() == {"COLOUR": "green"}
    assert argv_of(process)[1:] == ["-m", "somebodys_program"]
    program.terminate()
    assert program.wait(PATIENCE) == -signal.SIGTERM


def test_a_program_that_is_waited_for_too_shortly_is_still_there(forks: ForkServer, folder: Path) -> None:
    program = started(forks, folder)
    wait_until_up(folder)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    assert program.poll() is None
    program.kill()
    assert program.wait(PATIENCE) == -signal.SIGKILL


def test_a_program_ends_with_its_connection(forks: ForkServer, folder: Path) -> None:
    program = started(forks, folder)
    wait_until_up(folder)
    if isinstance(program, Forked):
        program.hang_up()
    else:
        program.kill()
        program.wait()
    assert wait_until(lambda: not psutil.pid_exists(program.pid), timeout=PATIENCE)


def test_the_server_ends_its_programs(folder: Path) -> None:
    with fork_server(folder) as server:
        program = started(server, folder)
        wait_until_up(folder)
        if not isinstance(program, Forked):
            program.terminate()
            program.wait()
    assert not psutil.pid_exists(program.pid)
    if isinstance(program, Forked):
        program.hang_up()
