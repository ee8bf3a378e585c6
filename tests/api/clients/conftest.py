"""The generated clients, made anew from the committed description, and an API on a real socket."""

import asyncio
import os
import re
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from app.db.core.ids import new_id
from tests.api.conftest import MakeSettings
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running, running
from tests.databases import ROOT
from tools.clients import NODE_MODULES, write_python, write_typescript

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


def program(language: str) -> str:
    """The program of that language in docs/clients.md."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def python_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and the program of the page, `program.py`."""
    folder = tmp_path_factory.mktemp("python") / "client"
    write_python(folder)
    (folder / "program.py").write_text(program("python"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def typescript_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the types and the program of the page, `program.ts`, beside the packages that they need."""
    folder = tmp_path_factory.mktemp("typescript")
    write_typescript(folder)
    (folder / "program.ts").write_text(program("ts"), encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(NODE_MODULES)
    return folder


@pytest.fixture
async def api(make_settings: MakeSettings, database_url: str) -> AsyncIterator[Running]:
    async with running(make_settings, database_url) as up:
        yield up


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def said(argv: Sequence[str], folder: Path, **environment: str) -> str:
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
        return await said(argv, folder, GPULEASE_URL=api.url, GPULEASE_KEY=api.alice.key)
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
