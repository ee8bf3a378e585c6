"""`pip install gpulease` without extras: the command line runs with httpx, Typer and Rich alone."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cli.conftest import Cli
from tests.cli.fake_api import FakeApi, a_lease
from tests.house.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HIDE = "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split()))"
SERVER_PACKAGES = {"boto3", "sqlalchemy", "celery", "fastapi", "redis", "alembic", "asyncpg", "structlog"}


def _with_dependencies(names: list[str]) -> set[str]:
    """The distributions that pip installs for these."""
    found: set[str] = set()
    while names:
        name = canonicalize_name(names.pop())
        if name in found:
            continue
        found.add(name)
        try:
            needed = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:  # for another system or another version of Python
            continue
        names += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


@cache
def _hidden_packages() -> list[str]:
    """The packages of this environment that an installation without extras lacks."""
    present = _with_dependencies([Requirement(line).name for line in PROJECT["dependencies"]]) | {"gpulease"}
    return [
        package
        for package, distributions in packages_distributions().items()
        if present.isdisjoint(map(canonicalize_name, distributions)) and package.isidentifier()
    ]


def _run(cli: Cli, *arguments: str, module: str = "app.cli.main") -> "subprocess.CompletedProcess[str]":
    program = f"{HIDE}; from {module} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, " ".join(_hidden_packages()), *arguments],
        env={**cli.environ, "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_client_needs_three_packages_and_theirs() -> None:
    assert {Requirement(line).name for line in PROJECT["dependencies"]} == {"httpx", "typer", "rich"}
    assert set(_hidden_packages()) >= SERVER_PACKAGES


@pytest.mark.parametrize(
    "arguments", [["--help"], ["lease", "create", "--help"], ["lease", "list"], ["lease", "show", "train-1"]]
)
def test_commands_run_without_the_server_packages(api: FakeApi, cli: Cli, arguments: list[str]) -> None:
    api.add(a_lease(1))
    done = _run(cli, *arguments)
    assert done.returncode == 0, done.stderr
    assert "lease" in done.stdout.lower()


@pytest.mark.parametrize(("command", "extra"), [("up", "local"), ("deadman", "server"), ("mcp", "mcp")])
def test_a_program_of_the_server_names_its_extra(cli: Cli, command: str, extra: str) -> None:
    done = _run(cli, command)
    assert done.returncode == 2
    assert re.fullmatch(rf"error: .*pip install 'gpulease\[{extra}\]' adds this command\n", done.stderr)


def test_the_server_names_its_extra(cli: Cli) -> None:
    done = _run(cli, "api", module="app.server.main")
    assert done.returncode == 2
    assert done.stderr == "gpulease-server: this installation is the client alone: pip install 'gpulease[server]'\n"
