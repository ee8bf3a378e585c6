"""`python -m tools.clients` writes the clients that are made from openapi.json: clients/python and clients/typescript."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.runtimes import MissingRuntimeError, find_node

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = ROOT / "clients"
DESCRIPTION = ROOT / "openapi.json"
PYTHON_TOOLS = CLIENTS / "python-tools"
TYPESCRIPT_TOOLS = CLIENTS / "typescript-tools"
NODE_MODULES = TYPESCRIPT_TOOLS / "node_modules"


class GenerationError(Exception):
    """A generator is missing or failed; the message says what to do."""


def write_python(into: Path, description: Path = DESCRIPTION) -> None:
    """The package `gpulease_client` with its pyproject.toml, in the folder `into`, whose content it replaces."""
    generator = Path(sys.prefix) / "clients" / "bin" / "openapi-python-client"
    if not generator.exists():
        raise GenerationError(f"{generator} is missing: run make clients")
    with tempfile.TemporaryDirectory() as folder:
        readable = Path(folder) / description.name
        readable.write_text(json.dumps(readable_by_python_client(description)), encoding="utf-8")
        places = ["--path", str(readable), "--output-path", str(into), "--overwrite"]
        options = ["--config", str(PYTHON_TOOLS / "config.yml"), "--meta", "uv", "--fail-on-warning"]
        _run([str(generator), "generate", *places, *options])


def readable_by_python_client(description: Path) -> dict[str, Any]:
    """The description without what openapi-python-client types wrongly.

    304 has no body, and the client sends no If-None-Match. The event stream does not end, and the client waits for the end.
    """
    document: dict[str, Any] = json.loads(description.read_text(encoding="utf-8"))
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("304", None)
            content = operation["responses"].get("200", {}).get("content", {})
            if "text/event-stream" in content:
                content["text/event-stream"] = {"schema": {"type": "string"}}
    return document


def write_typescript(into: Path, description: Path = DESCRIPTION) -> None:
    """`schema.d.ts`, the types for openapi-fetch, in the folder `into`. Needs Node and the packages of the lock file."""
    into.mkdir(parents=True, exist_ok=True)
    generator = str(NODE_MODULES / "openapi-typescript" / "bin" / "cli.js")
    # what has a default may be left out of a request
    options = ["--alphabetize", "--default-non-nullable=false", "--output", str(into / "schema.d.ts")]
    _run([node(), generator, str(description), *options])


def node() -> str:
    """The path of Node. Raises GenerationError when Node or the pinned packages are not there."""
    try:
        found = find_node()
    except MissingRuntimeError as error:
        raise GenerationError(str(error)) from error
    if not NODE_MODULES.is_dir():
        raise GenerationError(f"{NODE_MODULES} is missing: run make clients")
    return str(found)


def _run(argv: Sequence[str]) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(argv, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GenerationError(f"{Path(argv[0]).name} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """0 when both are written."""
    try:
        write_python(CLIENTS / "python")
        write_typescript(CLIENTS / "typescript")
    except GenerationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
