"""Folders that are made once in a run, for all of its pytest processes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.clients import write_python


def shared_folder(factory: pytest.TempPathFactory, name: str, write: Callable[[Path], object]) -> Path:
    """The folder that `write` filled. The first process that asks makes it, and the others wait."""
    own = factory.getbasetemp()
    run = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, unfinished = run / name, run / f"{name}-unfinished"
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            write(unfinished)
            unfinished.rename(folder)
    return folder


def python_client(factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `gpulease_client`, from which a wheel can be built. Takes 4 seconds of CPU time."""
    return shared_folder(factory, "python-client", write_python)
