"""A real supervisord with small programs: it starts, restarts, stops in order, and leaves nothing."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.local.home import Home
from app.local.leftovers import MARKER, argv_of, end_leftovers, is_supervisor, processes_of, remove_stale_pid_file
from app.local.ports import LOOPBACK, free_port
from app.local.programs import Program, render
from app.local.supervision import Supervisor, last_lines, launch
from app.local.supervisord import FORKS
from app.local.waiting import wait_until
from app.settings import StartupError
from tests.harness.databases import ROOT

SLEEPER = """
import time
print("up", flush=True)
while True:
    time.sleep(60)
"""
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPER
ANSWERING = """
import os, socket
listener = socket.socket(fileno=0)
while True:
    peer, _ = listener.accept()
    peer.send(str(os.getpid()).encode())
    peer.close()
"""
Launch = Callable[..., Supervisor]


@pytest.fixture
def home() -> Iterator[Home]:
    """Its name has what configuration files stumble over."""
    path = Path(tempfile.mkdtemp(prefix="gpl 100%d é;#"))
    yield Home(path)
    shutil.rmtree(path)


@pytest.fixture
def launched(home: Home) -> Iterator[Launch]:
    started: list[Supervisor] = []

    def start(*programs: Program, private: Mapping[str, Mapping[str, str]] | None = None) -> Supervisor:
        user = "root" if os.geteuid() == 0 else None
        imports = [module for program in programs for module in program.imports]
        environment = {**os.environ, MARKER: str(home.path)}
        supervisor = launch(home, render(home, programs, user), environment, imports, private)
        started.append(supervisor)
        supervisor.await_calls()
        return supervisor

    yield start
    for supervisor in started:
        supervisor.shut_down()
    end_leftovers(home)
    assert processes_of(home) == []


def program(home: Home, name: str, code: str, **settings: Any) -> Program:
    script = home.path / f"{name}.py"
    script.write_text(code)
    return Program(name, (sys.executable, str(script)), **settings)


def program_at(script: Path) -> Program:
    return Program("one", (sys.executable, str(script)))


def script_of(process: psutil.Process) -> str:
    return Path(process.cmdline()[-1]).stem


def running(supervisor: Supervisor, group: str) -> bool:
    return all(process.state == "RUNNING" for process in supervisor.processes(group))


def is_up(home: Home, name: str) -> bool:
    return "up" in last_lines(home.logs / f"{name}.log")


def test_nothing_starts_before_it_is_told_to(home: Home, launched: Launch) -> None:
    supervisor = launched(program(home, "one", SLEEPER), program(home, "two", SLEEPER))
    supervisor.start("one")
    assert wait_until(lambda: is_up(home, "one"), timeout=10)
    assert [process.state for process in supervisor.processes("two")] == ["STOPPED"]


def test_a_secret_of_one_program_is_in_no_other_environment_and_in_no_file(home: Home, launched: Launch) -> None:
    show = "import os\nprint('SECRET' in os.environ, flush=True)\n" + SLEEPER
    programs = [program(home, "with", show), program(home, "without", show)]
    supervisor = launched(*programs, private={"with": {"SECRET": "s3cret-value"}})
    for one in programs:
        supervisor.start(one.name)
    assert wait_until(lambda: is_up(home, "with") and is_up(home, "without"), timeout=10)
    assert last_lines(home.logs / "with.log").split()[0] == "True"
    assert last_lines(home.logs / "without.log").split()[0] == "False"
    holders = [process for process in processes_of(home) if "SECRET" in process.environ()]
    assert [script_of(process) for process in holders] == ["with"]
    files = [path for path in home.path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret-value" in path.read_bytes()]


def test_a_killed_program_comes_back(home: Home, launched: Launch) -> None:
    supervisor = launched(program(home, "one", SLEEPER))
    supervisor.start("one")
    assert wait_until(lambda: running(supervisor, "one"), timeout=10)
    victim = next(process for process in processes_of(home) if script_of(process) == "one")
    victim.kill()
    assert wait_until(lambda: is_up(home, "one") and not victim.is_running() and running(supervisor, "one"), timeout=10)


def test_a_program_that_ends_at_once_is_reported_broken(home: Home, launched: Launch) -> None:
    supervisor = launched(program(home, "one", "raise SystemExit('no database')"))
    supervisor.start("one")
    assert wait_until(lambda: supervisor.broken("one") is not None, timeout=10)
    broken = supervisor.broken("one")
    assert broken is not None
    assert "no database" in last_lines(broken.log)


def test_a_program_that_ignores_the_signal_is_killed_in_the_end(home: Home, launched: Launch) -> None:
    supervisor = launched(program(home, "one", STUBBORN, stop_seconds=1))
    supervisor.start("one")
    assert wait_until(lambda: is_up(home, "one"), timeout=10)
    supervisor.stop(["one"])
    assert [process.state for process in supervisor.processes("one")] == ["STOPPED"]


def test_several_processes_answer_at_one_port(home: Home, launched: Launch) -> None:
    port = free_port()
    supervisor = launched(program(home, "api", ANSWERING, processes=2, socket=f"tcp://{LOOPBACK}:{port}"))
    supervisor.start("api")
    answers: set[bytes] = set()

    def both_answered() -> bool:
        with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
            answers.add(connection.recv(100))
        return len(answers) == 2

    assert wait_until(lambda: len(supervisor.processes("api")) == 2 and running(supervisor, "api"), timeout=10)
    assert wait_until(both_answered, timeout=10, poll=0.001)


def test_the_leftovers_of_a_killed_stack_are_ended(home: Home, launched: Launch) -> None:
    supervisor = launched(program(home, "one", SLEEPER))
    supervisor.start("one")
    assert wait_until(lambda: is_up(home, "one"), timeout=10)
    assert end_leftovers(home) == 2
    assert processes_of(home) == []


def test_the_leftovers_of_a_killed_supervisor_are_ended_too(home: Home, launched: Launch) -> None:
    supervisor = launched(program(home, "one", STUBBORN), program(home, "two", SLEEPER))
    for name in ("one", "two"):
        supervisor.start(name)
    assert wait_until(lambda: is_up(home, "one") and is_up(home, "two"), timeout=10)
    next(process for process in processes_of(home) if is_supervisor(process)).kill()
    supervisor.wait()
    next(process for process in processes_of(home) if script_of(process) == "one").kill()
    assert wait_until(lambda: len(processes_of(home)) == 1, timeout=10)
    assert end_leftovers(home) == 1


MODULE = """
import os, signal, sys, time
print("imported", "json.tool" in sys.modules, sys.argv[1:], os.environ["COLOUR"], __name__, flush=True)
print("signals", [signal.getsignal(number).name for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)], flush=True)
if "fail" in sys.argv:
    raise RuntimeError("broken")
if "refuse" in sys.argv:
    sys.exit("refused")
while True:
    time.sleep(60)
"""


def module(home: Home, monkeypatch: pytest.MonkeyPatch, *argv: str) -> Program:
    """A program that is started as `python -m`."""
    (home.path / "somebodys_module.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{home.path}")
    words = (sys.executable, "-m", "somebodys_module", *argv)
    return Program("one", words, environment={"COLOUR": "green"}, imports=("json.tool",))


def log_of(home: Home) -> str:
    return last_lines(home.logs / "one.log")


def test_a_module_starts_with_its_imports_as_a_new_interpreter_would_start_it(
    home: Home, launched: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = launched(module(home, monkeypatch, "a b"))
    supervisor.start("one")
    assert wait_until(lambda: "signals" in log_of(home), timeout=10)
    assert f"imported {FORKS} ['a b'] green __main__" in log_of(home)
    assert "['SIG_DFL', 'SIG_DFL', 'SIG_DFL']" in log_of(home)
    (process,) = (process for process in processes_of(home) if argv_of(process)[2:3] == ["somebodys_module"])
    supervisor.stop(["one"])
    assert not process.is_running()


@pytest.mark.parametrize(("argument", "words"), [("fail", "RuntimeError: broken"), ("refuse", "refused")])
def test_a_module_that_ends_leaves_its_words_and_exit_code(
    home: Home, launched: Launch, monkeypatch: pytest.MonkeyPatch, argument: str, words: str
) -> None:
    supervisor = launched(module(home, monkeypatch, argument))
    supervisor.start("one")
    assert wait_until(lambda: supervisor.broken("one") is not None, timeout=10)
    assert words in log_of(home)
    assert "exit status 1" in last_lines(home.logs / "supervisord.log")


def test_an_import_that_fails_is_in_the_message(home: Home, launched: Launch) -> None:
    with pytest.raises(StartupError, match="no_such_module"):
        launched(program(home, "one", SLEEPER, imports=("no_such_module",)))


def test_another_homes_processes_are_spared(home: Home, tmp_path: Path) -> None:
    env = {**os.environ, MARKER: str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SLEEPER], env=env, stdout=subprocess.DEVNULL) as other:
        assert end_leftovers(home) == 0
        assert psutil.pid_exists(other.pid)
        assert end_leftovers(Home(tmp_path)) == 1
        assert not psutil.pid_exists(other.pid)


def test_a_path_that_the_configuration_cannot_hold_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "a #1")
    with pytest.raises(StartupError, match="cannot be used"):
        render(home, [program_at(home.path / "x.py")], None)


def test_a_pid_file_whose_number_belongs_to_another_program_now_is_removed(tmp_path: Path) -> None:
    pid_file = tmp_path / "postmaster.pid"
    started = int(psutil.Process().create_time())
    pid_file.write_text(f"{os.getpid()}\n{tmp_path}\n{started}\n5432\n")
    remove_stale_pid_file(tmp_path)
    assert not pid_file.exists()
    remove_stale_pid_file(tmp_path)


@pytest.mark.parametrize("content", ["", "nonsense\n", "999999999\n/data\n1\n"])
def test_a_pid_file_without_a_process_is_removed(tmp_path: Path, content: str) -> None:
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text(content)
    remove_stale_pid_file(tmp_path)
    assert not pid_file.exists()


def test_a_pid_file_that_another_process_removes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text("999999999\n/data\n1\n")

    def gone(pid: int) -> psutil.Process:
        pid_file.unlink()
        raise psutil.NoSuchProcess(pid)

    monkeypatch.setattr(psutil, "Process", gone)
    remove_stale_pid_file(tmp_path)
