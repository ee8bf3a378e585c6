"""Style, types and import rules hold. Configured in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

BIN = Path(sys.executable).parent


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_finds_nothing(command: list[str]) -> None:
    done = run(str(BIN / "ruff"), *command, "--no-cache", "--quiet", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_mypy_finds_nothing() -> None:
    done = run(str(BIN / "mypy"), "--no-error-summary")
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_contracts_are_kept() -> None:
    done = run(str(BIN / "lint-imports"), "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
