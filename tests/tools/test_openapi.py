"""Redocly and Spectral find neither an error nor a warning in openapi.json. Both read local files only."""

import json
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

NO_INTEGER = {"schema": {"type": "integer"}, "example": "x"}
RESPONSE = {"description": "x", "content": {"application/json": NO_INTEGER}}
OPERATION = {"parameters": [{"name": "n", "in": "query", **NO_INTEGER}], "responses": {"200": RESPONSE}, "none": 1}
FAULTY = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {"/x": {"get": OPERATION}}}
EXAMPLES = {"no-invalid-media-type-examples", "no-invalid-parameter-examples"}


def lint(argv: list[str], *documents: Path) -> str:
    """What the linter finds: the names of the documents that break rules, each with the rules."""
    assert MODULES.is_dir(), f"{MODULES} is missing: run make test, which installs it"
    done = subprocess.run(
        [str(find_node()), *argv, "--format", "stylish", *map(str, documents)],
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("argv", "rules"),
    [(REDOCLY, {"struct", "no-empty-servers", *EXAMPLES}), (SPECTRAL, {"oas3-schema", "oas3-api-servers"})],
    ids=["redocly", "spectral"],
)
def test_it_finds_nothing_in_the_document_and_much_in_a_faulty_one(
    argv: list[str], rules: set[str], tmp_path: Path
) -> None:
    faulty = tmp_path / "faulty.json"
    faulty.write_text(json.dumps(FAULTY), encoding="utf-8")
    found = lint(argv, ROOT / "openapi.json", faulty)
    assert "openapi.json" not in found
    assert [rule for rule in rules if rule not in found] == []
