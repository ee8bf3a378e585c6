"""The tests take the machine's Node and Chromium when they serve, else the ones from pinned packages."""

import sys
from pathlib import Path

import pytest

from tools.runtimes import MissingRuntimeError, find_chromium, find_node, main


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of PATH. The virtual environment has neither Node nor Chromium."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    return folder


def put_program(path: Path, answer: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {answer}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_new_enough_node_with_npm_is_taken(programs: Path) -> None:
    node = put_program(programs / "node", "v22.1.0")
    put_program(programs / "npm")
    assert find_node() == node


@pytest.mark.parametrize("answer", ["v18.20.0", "nothing of use"])
def test_another_node_gives_way_to_the_packaged_one(programs: Path, tmp_path: Path, answer: str) -> None:
    put_program(programs / "node", answer)
    put_program(programs / "npm")
    packaged = put_program(tmp_path / "venv" / "node" / "bin" / "node")
    assert find_node() == packaged


def test_a_node_without_npm_is_not_enough(programs: Path) -> None:
    put_program(programs / "node", "v22.1.0")
    with pytest.raises(MissingRuntimeError, match="run `make test`"):
        find_node()


def test_the_machines_browser_comes_before_the_packaged_one(programs: Path, tmp_path: Path) -> None:
    packaged = put_program(tmp_path / "venv" / "chromium" / "start")
    assert find_chromium() == packaged
    chrome = put_program(programs / "google-chrome")
    assert find_chromium() == chrome


def test_a_missing_node_is_a_message_and_not_a_traceback(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(programs.iterdir()) == []
    assert main(["npm", "ci"]) == 2
    assert "install Node 20 or newer with npm" in capsys.readouterr().err
