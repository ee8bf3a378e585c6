"""Temporary files go to memory where that is possible, and else to where they always go."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.harness.temporary_files import ROOM, keep_in_memory


@pytest.fixture(autouse=True)
def _nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    # what is set by a test is unset after it
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", "where the run keeps its own")
    monkeypatch.setattr(os, "ST_NOEXEC", 8, raising=False)
    has(monkeypatch, blocks=ROOM)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=ROOM))


def has(patch: pytest.MonkeyPatch, *, blocks: int, flags: int = 0) -> None:
    """A file system with so many free blocks of one byte."""
    patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=blocks, f_frsize=1, f_flag=flags))


def test_a_folder_with_room_is_used(tmp_path: Path) -> None:
    keep_in_memory(tmp_path)
    assert os.environ["TMPDIR"] == tempfile.gettempdir() == str(tmp_path)


def test_a_folder_that_somebody_named_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    keep_in_memory(tmp_path)
    assert os.environ["TMPDIR"] == "/elsewhere"


def test_a_folder_that_cannot_serve_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in_memory(tmp_path / "missing")
    has(monkeypatch, blocks=ROOM - 1)
    keep_in_memory(tmp_path)
    has(monkeypatch, blocks=ROOM, flags=os.ST_NOEXEC)
    keep_in_memory(tmp_path)
    has(monkeypatch, blocks=ROOM)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=ROOM - 1))
    keep_in_memory(tmp_path)
    assert "TMPDIR" not in os.environ
