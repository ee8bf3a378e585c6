"""The command line, pointed at a fake API by a credentials.json of its own."""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from app.cli.main import app, main
from tests.cli.fake_api import OPERATOR_KEY, TENANT_ID, TENANT_KEY, FakeApi


@dataclass(frozen=True)
class Cli:
    """`gpulease`, in this process or as one of its own."""

    home: Path
    environ: dict[str, str]

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner(env={"COLUMNS": None, **self.environ}).invoke(app, list(arguments), input=stdin)

    def start(self, *arguments: str, **given: Any) -> "subprocess.Popen[str]":
        """An interpreter that imports the command line, which takes 0.2 s or more of CPU time."""
        return self._popen(arguments, before=lambda _: _heed_ctrl_c(), **given)

    def fork(self, *arguments: str, **given: Any) -> "subprocess.Popen[str]":
        """As `start`, but this process has imported the command line already: its fork becomes the command."""
        return self._popen(arguments, before=lambda environ: _become_command(arguments, environ), **given)

    def _popen(
        self,
        arguments: Sequence[str],
        *,
        before: Callable[[dict[str, str]], object],
        stdin: int | None = None,
        stdout: int = subprocess.PIPE,
        environ: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPULEASE_")}
        whole = {**inherited, **self.environ, **(environ or {})}
        return subprocess.Popen(
            [sys.executable, "-m", "app.cli", *arguments],
            env=whole,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # without the terminal of whoever runs the tests
            preexec_fn=lambda: before(whole),  # noqa: PLW1509 - this process has no threads that hold locks
        )


def _heed_ctrl_c() -> None:
    """A test run in the background ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _become_command(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """What a new interpreter would do, in a fork whose first three descriptors are those of the command."""
    code = 1
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["gpulease", *arguments]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the process ends
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the outermost of the process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


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
