"""A pytest process that is killed leaves nothing for long."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from app.local.home import Home
from app.local.leftovers import MARKER, processes_of
from tests.harness import sessions
from tests.harness.databases import ROOT

KILLED = """
import os, signal, subprocess, sys
from app.local.leftovers import MARKER
from tests.harness import sessions
with sessions.folder() as folder:
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], env={**os.environ, MARKER: str(folder)})
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_servers_of_a_killed_session_are_ended_by_the_next_one() -> None:
    argv = [sys.executable, "-c", KILLED]
    env = {name: value for name, value in os.environ.items() if name != MARKER}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        folder = Path(killed.stdout.readline().strip())
        assert killed.wait() == -signal.SIGKILL
    assert len(processes_of(Home(folder))) == 1
    sessions.end_dead()
    assert processes_of(Home(folder)) == []
    assert not folder.exists()


def test_a_living_session_is_left_alone(server_directory: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as server:
        sessions.end_dead()
        assert server_directory.exists()
        assert psutil.pid_exists(server.pid)
        server.kill()
