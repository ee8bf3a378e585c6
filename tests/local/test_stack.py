"""The whole stack, started as a user starts it."""

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from app.local.home import Home
from app.local.leftovers import end_leftovers, processes_of
from app.local.ports import LOOPBACK, free_port
from app.local.waiting import wait_until
from tests.harness.databases import ROOT

UP = (
    sys.executable,
    "-m",
    "app.local",
    "--profile",
    "fast",
    "--clouds",
    "aws",
    "--inventories",
    "1",
    "--gpu-agents",
    "0",
)
UP_SECONDS = 120.0


class Up:
    """One `python -m app.local` with ports of its own."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.environment = {
            **os.environ,
            "GPULEASE_HOME": str(home.path),
            "GPULEASE_PORT": str(free_port()),
            "GPULEASE_CLOUDSIM_PORT": str(free_port()),
        }

    def start(self, *arguments: str) -> "Running":
        argv = [*UP, *arguments]
        said = self.home.path.parent / f"{self.home.path.name}.out"
        with said.open("w") as output:
            child = subprocess.Popen(
                argv, cwd=ROOT, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        return Running(self, child, said)

    def refuse(self, *arguments: str, **environment: str) -> str:
        argv = [*UP, *arguments]
        env = {**self.environment, **environment}
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr


class Running:
    def __init__(self, up: Up, child: subprocess.Popen[bytes], output: Path) -> None:
        self.home = up.home
        self.child = child
        self._output = output

    def said(self) -> str:
        return self._output.read_text()

    def wait_until_up(self) -> dict[str, str]:
        wait_until(lambda: "Ctrl-C ends" in self.said() or self.child.poll() is not None, timeout=UP_SECONDS, poll=0.2)
        assert self.child.poll() is None, self.said()
        credentials: dict[str, str] = json.loads(self.home.credentials_file.read_text())
        return credentials

    def end(self, number: signal.Signals) -> int:
        self.child.send_signal(number)
        return self.child.wait(60)


def back_up(home: Home) -> None:
    """As the page says for a local stack: its block in `bash`, then its first one in `sh`."""
    page = (ROOT / "docs" / "howto" / "backup.md").read_text(encoding="utf-8")
    dump, where = (
        re.findall(rf"^```{shell}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0] for shell in ("sh", "bash")
    )
    lines = where.replace(".venv/bin/python", shlex.quote(sys.executable)).replace(".gpulease/", f"{home.path}/")
    file = home.path.with_name("gpulease.dump")
    script = (
        lines + dump.replace("gpulease.dump", shlex.quote(str(file))) + f"pg_restore --list {shlex.quote(str(file))}\n"
    )
    done = subprocess.run(["/bin/bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " TABLE DATA public lease " in done.stdout


COMMAND = """
import json, os, sys, urllib.request
def get(url, key=""):
    request = urllib.request.Request(os.environ[url[0]] + url[1], headers={"Authorization": "Bearer " + key})
    return json.load(urllib.request.urlopen(request))
keys = [os.environ["GPULEASE_KEY"], os.environ["GPULEASE_OPERATOR_KEY"]]
me = get(("GPULEASE_URL", "/v1/me"), keys[0])
print(json.dumps({"me": me, "keys": keys, "cloud": get(("GPULEASE_CLOUDSIM_URL", "/_sim/health"))}), flush=True)
sys.exit(3)
"""
"""Asks the stack that the environment names."""


def me(credentials: dict[str, str], key: str) -> httpx.Response:
    return httpx.get(f"{credentials['api_url']}/v1/me", headers={"Authorization": f"Bearer {credentials[key]}"})


@pytest.fixture
def new_home() -> Iterator[Callable[[str], Up]]:
    with ExitStack() as finally_, tempfile.TemporaryDirectory(prefix="gpulease-up-") as folder:

        def make(name: str) -> Up:
            home = Home(Path(folder) / name)
            finally_.callback(end_leftovers, home)
            return Up(home)

        yield make


def test_a_stack_lives_through_everything(new_home: Callable[[str], Up]) -> None:
    """One story, because each start costs seconds of CPU: kill -9, the same data again, a command."""
    up = new_home("home with blanks")
    first = up.start()
    credentials = first.wait_until_up()
    assert stat.S_IMODE(up.home.credentials_file.stat().st_mode) == 0o600
    assert me(credentials, "tenant_key").json()["tenant_id"] == credentials["tenant_id"]
    assert me(credentials, "operator_key").json()["role"] == "operator"
    assert "already running" in up.refuse()

    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    assert {"postgres", "redis-server"} <= {process.name() for process in processes_of(up.home)}
    second = up.start()
    assert second.wait_until_up() == credentials
    assert "an earlier run left behind" in second.said()
    assert me(credentials, "tenant_key").is_success
    back_up(up.home)

    for process in processes_of(up.home):
        process.kill()
    assert second.child.wait(60) == 1
    third = up.start("--fresh", "--", sys.executable, "-c", COMMAND)
    assert third.child.wait(UP_SECONDS) == 3, third.said()
    (line,) = (line for line in third.said().splitlines() if line.startswith("{"))
    fresh = json.loads(line)
    assert fresh["me"]["role"] == "admin"
    assert fresh["cloud"] == {"status": "ok", "instances": 0, "alive": 0}
    assert fresh["me"]["tenant_id"] != credentials["tenant_id"]
    assert not set(fresh["keys"]) & set(credentials.values())
    assert processes_of(up.home) == []


def test_an_interrupted_start_leaves_nothing(new_home: Callable[[str], Up]) -> None:
    up = new_home("home")
    starting = up.start()
    assert wait_until(lambda: "Redis" in starting.said(), timeout=UP_SECONDS)
    assert starting.end(signal.SIGINT) == 0
    assert processes_of(up.home) == []


def test_a_taken_port_is_named_with_what_to_set(new_home: Callable[[str], Up]) -> None:
    up = new_home("home")
    with psutil.Popen(
        [sys.executable, "-m", "http.server", "--bind", LOOPBACK, up.environment["GPULEASE_PORT"]],
        stderr=subprocess.DEVNULL,
    ) as other:
        port = int(up.environment["GPULEASE_PORT"])
        assert wait_until(lambda: any(c.laddr.port == port for c in other.net_connections()), timeout=20)
        message = up.refuse()
        other.terminate()
    assert f"port {port} is taken" in message
    assert "GPULEASE_PORT" in message


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GPULEASE_PORT", "http"),
        ("GPULEASE_CONFIG", "no-such-file.toml"),
        ("GPULEASE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing"),
    ],
)
def test_a_wrong_setting_is_named(new_home: Callable[[str], Up], variable: str, value: str) -> None:
    assert variable in new_home("home").refuse(**{variable: value})


ACCOUNT = """
[[accounts]]
provider = "aws"
name = "{name}"
regions = ["us-east-1"]
endpoint_url = "{url}"
"""


@pytest.fixture
def moto() -> Iterator[str]:
    """A server that is no simulated cloud of ours, in a process of its own."""
    port = free_port()
    argv = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    with psutil.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        assert wait_until(lambda: any(c.laddr.port == port for c in server.net_connections()), timeout=UP_SECONDS)
        yield f"http://{LOOPBACK}:{port}"
        server.terminate()


def test_accounts_of_ones_own_cost_money_and_a_failing_one_is_named(
    new_home: Callable[[str], Up], moto: str, tmp_path: Path
) -> None:
    config = tmp_path / "mine.toml"
    dead = f"http://{LOOPBACK}:{free_port()}"
    config.write_text(ACCOUNT.format(name="research", url=moto) + ACCOUNT.format(name="broken", url=dead))
    up = new_home("home")
    up.environment |= {
        "GPULEASE_CONFIG": str(config),
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    stack = up.start()
    credentials = stack.wait_until_up()
    printed = stack.said()
    assert "VMs cost money in account 123456789012 (research)\n" in printed
    assert "warning: account broken is failing (catalogue): us-east-1: " in printed
    assert "lease create" not in printed
    assert "simulated" not in printed
    assert credentials["cloudsim_url"] is None
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{LOOPBACK}:{up.environment['GPULEASE_CLOUDSIM_PORT']}/_sim/health")
    assert "cloudsim" not in {path.stem for path in (up.home.path / "logs").iterdir()}
    offerings = float(next(line for line in printed.splitlines() if " offerings." in line).split()[-2])
    assert offerings < 40, printed
    assert stack.end(signal.SIGINT) == 0
