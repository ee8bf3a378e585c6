"""Redocly and Spectral find neither an error nor a warning in openapi.json. Both read local files only."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tools.runtimes import find_node

TOOLS = ROOT / "tools" / "openapi"
MODULES = TOOLS / "node_modules"
REDOCLY = [str(MODULES / "@redocly" / "cli" / "bin" / "cli.js"), "lint", "--config", str(TOOLS / "redocly.yaml")]
SPECTRAL = [
    str(MODULES / "@stoplight" / "spectral-cli" / "dist" / "index.js"),
    *("lint", "--ruleset", str(TOOLS / "spectral.yaml"), "--fail-severity", "hint"),
]
OFFLINE = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "CI": "true"}


def lint(argv: list[str], description: Path) -> str:
    """What the linter finds, empty when it finds nothing."""
    assert MODULES.is_dir(), f"{MODULES} is missing: run make test, which installs it"
    done = subprocess.run(
        [str(find_node()), *argv, str(description)],
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        check=False,
    )
    found = done.stdout + done.stderr
    clean = done.returncode == 0 and "warning " not in found and "problem" not in found
    return "" if clean else found


@pytest.mark.parametrize("argv", [REDOCLY, SPECTRAL], ids=["redocly", "spectral"])
def test_it_finds_nothing_in_the_document(argv: list[str]) -> None:
    assert lint(argv, ROOT / "openapi.json") == ""


@pytest.mark.parametrize(("argv", "line"), [(REDOCLY, "no-empty-servers"), (SPECTRAL, "oas3-api-servers")])
def test_it_finds_what_is_missing(argv: list[str], line: str, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text('{"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {}}', encoding="utf-8")
    assert line in lint(argv, document)
