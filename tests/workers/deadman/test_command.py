"""The dead-man switch as a program: nothing of ours runs but the cloud."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from cloudsim.testing import Control, running
from workers.deadman.command import heartbeat, main

INSTALLATION = "gpl-0123456789ab"
REGION = "us-east-1"
SECONDS = 60


@pytest.fixture
def sim() -> Any:
    with running(boot_seconds=0.1) as control:
        yield control


@pytest.fixture
def config(tmp_path: Path, sim: Control) -> Path:
    path = tmp_path / "gpulease.toml"
    path.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "sim"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
    )
    return path


def plant(sim: Control, *, deadline: str | None, installation: str = INSTALLATION) -> str:
    tags = {"gpulease-installation": installation}
    if deadline is not None:
        tags["gpulease-deadline"] = deadline
    (vm_id,) = sim.plant(region=REGION, zone=f"{REGION}a", instance_type="g5.xlarge", tags=tags)
    return vm_id


def deadman(config: Path, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    """Runs the command with no database and no broker to be had; exit code, facts, stderr."""
    env = {
        "PATH": os.environ["PATH"],
        "AWS_ACCESS_KEY_ID": "AKIASIMULATED0000001",
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AWS_EC2_METADATA_DISABLED": "true",
        "GPULEASE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "GPULEASE_BROKER_URL": "redis://127.0.0.1:1/0",
        "GPULEASE_LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "app.cli", "deadman", "--installation", INSTALLATION, "--config", str(config)]
    done = subprocess.run([*command, *more], env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, config: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[Any], str]]:
    """As `deadman`, in this process. An interpreter of its own takes a second."""
    # the stream of this test is closed after it, and loggers of this process would keep it
    monkeypatch.setattr("workers.deadman.command.configure_logs", lambda *_: None)
    environment = {"AWS_ACCESS_KEY_ID": "AKIASIMULATED0000001", "AWS_SECRET_ACCESS_KEY": "x"}
    for name, value in (environment | {"GPULEASE_HEARTBEAT_KEY": "gpl_key", "AWS_CONFIG_FILE": "/dev/null"}).items():
        monkeypatch.setenv(name, value)

    def run(*more: str) -> tuple[int, list[Any], str]:
        code = main(["--installation", INSTALLATION, "--config", str(config), *more])
        written = capsys.readouterr()
        return code, [json.loads(line) for line in written.out.splitlines()], written.err

    return run


def alive(sim: Control) -> set[str]:
    return {vm["id"] for vm in sim.instances(alive="true") if vm["state"] in ("pending", "running")}


def test_an_expired_vm_is_ended_and_everything_else_left_alone(sim: Control, config: Path) -> None:
    now = int(time.time())
    expired = plant(sim, deadline=str(now - 1))
    kept = {
        plant(sim, deadline=str(now + 3600)),
        plant(sim, deadline=None),
        plant(sim, deadline="soon"),
        plant(sim, deadline=str(now - 1), installation="gpl-another"),
    }
    code, facts, _ = deadman(config)
    assert code == 0
    assert [fact["instance_id"] for fact in facts if fact["event"] == "ended"] == [expired]
    assert alive(sim) == kept
    assert len([fact for fact in facts if fact["event"] == "no deadline"]) == 2


def test_a_dry_run_says_what_it_would_end(sim: Control, here: Callable[..., tuple[int, list[Any], str]]) -> None:
    expired = plant(sim, deadline="1")
    code, facts, _ = here("--dry-run")
    assert code == 0
    assert [fact["instance_id"] for fact in facts if fact["event"] == "would end"] == [expired]
    assert alive(sim) == {expired}


def test_a_cloud_that_does_not_answer_is_told_by_the_exit_code(
    sim: Control, here: Callable[..., tuple[int, list[Any], str]]
) -> None:
    sim.credentials(bad=["AKIASIMULATED0000001"])
    code, facts, _ = here()
    assert code == 1
    assert facts[0]["event"] == "failed"
    assert facts[0]["code"] == "AuthFailure"


def test_a_whole_pass_is_told_where_somebody_listens(
    sim: Control, here: Callable[..., tuple[int, list[Any], str]]
) -> None:
    heard: list[tuple[str, str | None]] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append((self.path, self.headers.get("Authorization")))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object, **_named: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/ops/deadman"
        assert here("--heartbeat-url", url)[0] == 0
        assert here("--heartbeat-url", url, "--dry-run")[0] == 0
        sim.credentials(bad=["AKIASIMULATED0000001"])
        assert here("--heartbeat-url", url)[0] == 1
        sim.credentials(bad=[])
        server.shutdown()
    assert heard == [("/v1/ops/deadman", "Bearer gpl_key")], "only of the one pass that did its whole work"
    code, facts, _ = here("--heartbeat-url", url)
    assert code == 0, "the switch does not depend on being heard"
    assert "heartbeat not sent" in [fact["event"] for fact in facts]
    assert here("--heartbeat-url", "gpu.example.org")[0] == 2


class Heard:
    """A local HTTP server that keeps what it was sent, and answers POST with `status` and `location`."""

    def __init__(self, status: int = 204, location: str | None = None) -> None:
        self.requests: list[tuple[str, str | None]] = []
        heard = self

        class Listener(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.requests.append((self.path, self.headers.get("Authorization")))
                self.send_response(status)
                if location is not None:
                    self.send_header("Location", location)
                self.end_headers()

            def do_GET(self) -> None:
                """What a client makes of some redirects."""
                self.do_POST()

            def log_message(self, *_: object, **_named: object) -> None:
                """Quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Listener)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def heard() -> Iterator[Heard]:
    server = Heard()
    yield server
    server.close()


def test_the_key_is_sent_to_the_apis_heartbeat_alone(heard: Heard) -> None:
    for path in ("/v1/ops/deadman", "/ping/0b1c", "/", "/v1/ops/deadman/elsewhere"):
        heartbeat(heard.url + path, "gpl_key")()
    assert heard.requests == [
        ("/v1/ops/deadman", "Bearer gpl_key"),
        ("/ping/0b1c", None),
        ("/", None),
        ("/v1/ops/deadman/elsewhere", None),
    ]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(heard: Heard, status: int) -> None:
    api = Heard(status, f"{heard.url}/v1/ops/deadman")
    with pytest.raises(httpx.HTTPError):
        heartbeat(f"{api.url}/v1/ops/deadman", "gpl_key")()
    api.close()
    assert (len(api.requests), heard.requests) == (1, [])


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
def test_no_proxy_is_given_the_key_in_the_clear(heard: Heard, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Heard()
    monkeypatch.setenv(name, proxy.url)
    heartbeat(f"{heard.url}/v1/ops/deadman", "gpl_key")()
    proxy.close()
    assert (len(heard.requests), proxy.requests) == (1, [])


@pytest.mark.parametrize("host", ["gpu.example.org", "192.0.2.1", "127.0.0.1.example.org", "127.0.0.1@gpu.example.org"])
def test_over_plain_http_the_key_leaves_for_no_other_host(host: str) -> None:
    """The tests reach loopback alone: another error would be one of the connection."""
    with pytest.raises(httpx.UnsupportedProtocol, match="https"):
        heartbeat(f"http://{host}/v1/ops/deadman", "gpl_key")()


def test_without_accounts_it_says_what_to_name(here: Callable[..., tuple[int, list[Any], str]], config: Path) -> None:
    config.write_text("")
    code, _, said = here()
    assert code == 2
    assert said == "gpulease deadman: no accounts: name the accounts file with --config or GPULEASE_CONFIG\n"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--every", "nan"),
        ("--every", "inf"),
        ("--every", "9"),
        ("--every", "often"),
        ("--installation", "gpl-…"),
        ("--installation", ""),
    ],
)
def test_an_interval_or_installation_that_is_none_stops_the_switch(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise it would look without a pause, or for VMs that cannot exist and report that all is well."""
    with pytest.raises(SystemExit) as ended:
        main(["--installation", INSTALLATION, option, value, "--config", "nowhere"])
    assert ended.value.code == 2
    assert f"argument {option}: {value!r} is" in capsys.readouterr().err
