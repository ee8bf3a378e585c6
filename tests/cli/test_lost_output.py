"""Output that cannot be written: what a command has changed is named on standard error, and the exit code says why."""

import base64
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli import client
from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import OUTPUT_LOST
from app.cli.main import app
from cloudsim.testing import NO_TLS
from tests.cli.commands import COMMANDS, arguments
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, TENANT_ID, FakeApi, Json, a_lease

SECRET = "gpl_secret_that_is_shown_once"
MADE = "made_01m84jncx1es4vd0pkyemx4c99"
FULL = Path("/dev/full")


class Answers(httpx.BaseTransport):
    """Carries out every change. A POST makes something with an id and a secret."""

    def __init__(self) -> None:
        self.made: list[str] = []
        "Paths of the POSTs with an idempotency key."

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        one = a_lease(1, **ACTIVE) | {"tenant_id": TENANT_ID, "key_id": "key_01m84jncx1es4vd0pkyemx4c86", "members": []}
        whole: Json = {**one, "items": [], "next_cursor": None}
        if request.method == "POST" and "Idempotency-Key" in request.headers:
            self.made.append(request.url.path)
            whole |= {"id": MADE, "secret": SECRET}
        return httpx.Response(200, json=whole)


def _run(words: list[str], stdout: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """The exit code, and the paths of what was made."""
    answers = Answers()

    class Answered(Api):
        def __init__(self, _: Endpoint, **given: Any) -> None:
            super().__init__(Endpoint("https://api.test", "gpl_x"), **given, transport=answers)

    monkeypatch.setattr(client, "Api", Answered)
    monkeypatch.setattr(client, "tls_context", lambda _: NO_TLS)  # nothing connects
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as ended:
        app(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code, answers.made


def _creating() -> list[str]:
    """The commands that send a POST with an idempotency key whose answer has an id."""
    return [
        name
        for name in COMMANDS
        if name.split()[-1] in {"create", "add", "quote", "rotate", "rotate-secret", "replay", "test"}
    ]


@pytest.mark.parametrize("name", _creating())
@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_every_creating_command_names_what_it_made(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("GPULEASE_HOME", str(tmp_path))
    monkeypatch.setenv("GPULEASE_URL", "https://api.test")
    monkeypatch.setenv("GPULEASE_KEY", "gpl_x")
    key = tmp_path / "key.pub"
    key.write_text(
        f"ssh-ed25519 {base64.b64encode(bytes([0, 0, 0, 11]) + b'ssh-ed25519' + bytes([0, 0, 0, 32]) * 9).decode()}\n"
    )
    words = [f"--output={form}", *(str(key) if word == "/dev/null" else word for word in arguments(name, None, ""))]
    with FULL.open("w") if FULL.exists() else os.fdopen(os.open(os.devnull, os.O_RDONLY), "w") as full:
        code, made = _run(words, full, monkeypatch)
    errors = capfd.readouterr().err
    assert made, "the test needs the arguments with which the command creates something"
    assert code == OUTPUT_LOST
    (line,) = [line for line in errors.splitlines() if "the output could not be written" in line]
    assert f"{made[-1]} {MADE} {SECRET}" in line
    assert "Traceback" not in errors


@pytest.mark.parametrize("how", [">&-", ">/dev/full", "| true"])
def test_the_program_names_a_lease_in_one_line(api: FakeApi, cli: Cli, how: str) -> None:
    words = ["lease", "create", "--gpu", "T4:1", "--ttl", "1h", "--no-ssh-key", "--yes", "--json"]
    line = shlex.join([sys.executable, "-m", "app.cli", *words])
    script = f"{line} {how}" if how != "| true" else f"set -o pipefail; {line} {how}"
    environ = {**os.environ, **cli.environ}
    done = subprocess.run(["/bin/bash", "-c", script], env=environ, capture_output=True, text=True, check=False)
    (lease,) = api.leases
    assert done.returncode == OUTPUT_LOST, done.stderr
    (error,) = done.stderr.splitlines()
    assert error.startswith("error: the output could not be written: ")
    assert error.endswith(f"; carried out: POST /v1/leases {lease}")


def test_a_reading_command_says_that_its_output_is_lost(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease())
    with FULL.open("w") as full:
        process = cli.fork("lease", "list", stdout=full.fileno())
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, len(errors.splitlines())) == (OUTPUT_LOST, 1), errors
    assert "No space left on device" in errors


def test_text_that_the_terminal_cannot_show_is_lost_output_too(api: FakeApi, cli: Cli) -> None:
    words = ["lease", "create", "--gpu", "T4:1", "--ttl", "1h", "--no-ssh-key", "--yes", "--json", "--label", "a=é"]
    process = cli.start(*words, environ={"PYTHONIOENCODING": "ascii:strict"})
    _, errors = process.communicate(timeout=60)
    (lease,) = api.leases
    assert process.returncode == OUTPUT_LOST, errors
    assert f"carried out: POST /v1/leases {lease}" in errors
    assert "Traceback" not in errors
