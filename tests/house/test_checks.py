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


def test_pyrefly_finds_nothing() -> None:
    done = run(str(BIN / "pyrefly"), "check", "--output-format=min-text", "--summary=none")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_ignored_error_is_named() -> None:
    unnamed = r"# (typ[e]: ignore|pyrefly: ignore([^[]|$))"
    folders = ("app", "workers", "cloudsim", "migrations", "tests", "bench", "tools")
    assert run("git", "grep", "-nE", unnamed, "--", *(f"{folder}/*.py" for folder in folders)).stdout == ""


def test_import_contracts_are_kept() -> None:
    done = run(str(BIN / "lint-imports"), "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
