"""The clients, made anew from the committed description and installed, and an API on a real socket."""

import asyncio
import importlib
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from app.db.core.ids import new_id
from tests.api.clients.typescript import DOORS, GROWTH
from tests.api.conftest import MakeSettings
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running, running
from tests.harness import made_once
from tools.clients import build_python, build_typescript, write_typescript
from tools.installed_clients import compile_typescript, install_python, install_typescript, programs


@pytest.fixture(scope="session")
def python_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `gpulease_client`, from which a wheel can be built."""
    return made_once.python_client(tmp_path_factory)


@pytest.fixture(scope="session")
def gpulease_client(python_client: Path) -> Iterator[ModuleType]:
    """The package, imported from its folder."""
    sys.path.insert(0, str(python_client))
    try:
        yield importlib.import_module("gpulease_client")
    finally:
        sys.path.remove(str(python_client))


@pytest.fixture(scope="session")
def python_wheel(python_client: Path) -> Path:
    """The wheel, built from the sdist."""
    (wheel,) = (path for path in build_python(python_client) if path.suffix == ".whl")
    return wheel


@pytest.fixture(scope="session")
def installed_python(python_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the Python of an environment that has the wheel."""
    return install_python(python_wheel, tmp_path_factory.mktemp("python") / "environment", offline=True)


@pytest.fixture(scope="session")
def typescript_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has the tarball, and the programs of all tests: the compiler takes 2 s to begin."""

    def write(folder: Path) -> None:
        write_typescript(folder / "client")
        project = folder / "project"
        install_typescript(build_typescript(folder / "client"), project, offline=True)
        sources = {"program.ts": programs("ts")[0], "growth.ts": GROWTH, "doors.ts": DOORS}
        for name, text in sources.items():
            (project / name).write_text(text)
        compile_typescript(project, *sources)

    return made_once.shared_folder(tmp_path_factory, "typescript", write) / "project"


@pytest.fixture
async def api(make_settings: MakeSettings, database_url: str) -> AsyncIterator[Running]:
    async with running(make_settings, database_url) as up:
        yield up


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def run(argv: Sequence[str], folder: Path, **environment: str) -> str:
    """What a program wrote. Fails when its exit code is not 0."""
    child = await asyncio.create_subprocess_exec(
        *argv, cwd=folder, env={**os.environ, **environment}, stdout=PIPE, stderr=STDOUT
    )
    output, _ = await child.communicate()
    text = output.decode()
    assert child.returncode == 0, text
    return text


async def live_a_lease(argv: Sequence[str], folder: Path, fleet: Fleet, api: Running) -> str:
    """What the program wrote, while somebody plays the workers for its lease."""
    playing = asyncio.create_task(play_workers(fleet))
    try:
        return await run(argv, folder, GPULEASE_URL=api.url, GPULEASE_KEY=api.alice.key)
    finally:
        playing.cancel()


async def play_workers(fleet: Fleet) -> None:
    """Makes what is queued active, ends what shall end, numbers events; until it is cancelled."""
    while True:
        for lease in fleet.run("SELECT id, state, desired FROM lease WHERE ended_at IS NULL"):
            if lease["desired"] == "end":
                fleet.finish(lease["id"])
                tell(fleet, lease["id"], "lease.released")
            elif lease["state"] == "queued":
                fleet.activate(lease["id"])
                tell(fleet, lease["id"], "lease.active")
        fleet.number_events()
        await asyncio.sleep(0.3)


def tell(fleet: Fleet, lease_id: str, kind: str) -> None:
    """Appends an event of the lease."""
    fleet.run(
        """
        WITH changed AS (UPDATE lease SET events_count = events_count + 1 WHERE id = %s RETURNING *)
        INSERT INTO event (id, tenant_id, lease_id, lease_sequence, type, data)
        SELECT %s, tenant_id, id, events_count, %s, '{}' FROM changed
        """,
        lease_id,
        new_id("event"),
        kind,
    )
