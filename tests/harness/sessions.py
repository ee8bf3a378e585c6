"""Servers of a pytest process that was killed: the next one ends them."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.local.home import Home
from app.local.leftovers import end_leftovers
from app.local.private_files import write_private

PREFIX = "gpulease-test-"


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that says whose it is."""
    me = psutil.Process()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        write_private(Path(name) / "owner.json", json.dumps([me.pid, me.create_time()]))
        yield Path(name)


def end_dead() -> None:
    """End the servers in folders whose owner is gone, and remove those folders."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner.json"):
        if not _alive(owner):
            end_leftovers(Home(owner.parent))
            shutil.rmtree(owner.parent, ignore_errors=True)


def _alive(owner: Path) -> bool:
    try:
        pid, created = json.loads(owner.read_text())
        return bool(psutil.Process(pid).create_time() == created)
    except (OSError, ValueError, psutil.NoSuchProcess):
        return False
