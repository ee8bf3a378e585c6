"""The generated clients, made anew from the committed description, and an API on a real socket."""

import asyncio
import os
import re
import socket
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI

from app.local.ports import LOOPBACK
from tests.api.fleet import Fleet
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
async def address(app: FastAPI) -> AsyncIterator[str]:
    """Where the running API listens."""
    listener = socket.create_server((LOOPBACK, 0))
    server = uvicorn.Server(uvicorn.Config(app, ws="none", lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    server.should_exit = True
    await serving


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


async def live_a_lease(argv: Sequence[str], folder: Path, fleet: Fleet, address: str, key: str) -> list[str]:
    """The lines that the program wrote, while somebody plays the workers for its lease."""
    playing = asyncio.create_task(play_workers(fleet))
    try:
        text = await said(argv, folder, GPULEASE_URL=address, GPULEASE_KEY=key)
    finally:
        playing.cancel()
    return text.splitlines()


async def play_workers(fleet: Fleet) -> None:
    """Makes what is queued active, ends what shall end, numbers events; until it is cancelled."""
    while True:
        for lease in fleet.run("SELECT id, state, desired FROM lease WHERE ended_at IS NULL"):
            if lease["desired"] == "end":
                fleet.finish(lease["id"])
            elif lease["state"] == "queued":
                fleet.activate(lease["id"])
        fleet.number_events()
        await asyncio.sleep(0.3)
