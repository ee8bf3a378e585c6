"""The command line, pointed at a fake API by a credentials.json of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from app.cli.main import app
from tests.cli.fake_api import OPERATOR_KEY, TENANT_ID, TENANT_KEY, FakeApi


@dataclass(frozen=True)
class Cli:
    """`gpulease`, in this process or as one of its own."""

    home: Path
    environ: dict[str, str]

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner(env={"COLUMNS": None, **self.environ}).invoke(app, list(arguments), input=stdin)

    def start(
        self,
        *arguments: str,
        stdin: int | None = None,
        stdout: int = subprocess.PIPE,
        environ: dict[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPULEASE_")}
        return subprocess.Popen(
            [sys.executable, "-m", "app.cli", *arguments],
            env={**inherited, **self.environ, **(environ or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # without the terminal of whoever runs the tests
            preexec_fn=_heed_ctrl_c,  # noqa: PLW1509 - this process has no threads that hold locks
        )


def _heed_ctrl_c() -> None:
    """A test run in the background ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    with fake.serving():
        yield fake
    assert not fake.faults


@pytest.fixture(scope="session", autouse=True)
def command_built_once() -> Iterator[None]:
    """Typer builds the tree of commands anew for each one that is run, and the command itself: 6 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def cli(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in ("GPULEASE_URL", "GPULEASE_KEY", "GPULEASE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    saved = {"api_url": api.url, "tenant_id": TENANT_ID, "tenant_key": TENANT_KEY, "operator_key": OPERATOR_KEY}
    (tmp_path / "credentials.json").write_text(json.dumps(saved))
    config = tmp_path / "config.toml"
    return Cli(tmp_path, {"GPULEASE_HOME": str(tmp_path), "GPULEASE_CLI_CONFIG": str(config)})
