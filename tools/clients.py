"""`python -m tools.clients` makes both clients, clients/python and clients/typescript, and their installable packages.

A client is a handwritten layer (clients/python-src, clients/typescript-src) and a part that is made from openapi.json.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools import client_sources
from tools.runtimes import MissingRuntimeError, find_node, find_npm, path_with_node

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = ROOT / "clients"
DESCRIPTION = ROOT / "openapi.json"
PYTHON_SOURCES = CLIENTS / "python-src"
PYTHON_TOOLS = CLIENTS / "python-tools"
TYPESCRIPT_SOURCES = CLIENTS / "typescript-src"
TYPESCRIPT_TOOLS = CLIENTS / "typescript-tools"
NODE_MODULES = TYPESCRIPT_TOOLS / "node_modules"
NOT_SOURCES = shutil.ignore_patterns("__pycache__", "node_modules", "dist", ".*_cache")


class GenerationError(Exception):
    """A generator is missing or failed; the message says what to do."""


def write_python(into: Path, description: Path = DESCRIPTION) -> None:
    """The package `gpulease_client` with its pyproject.toml, in the folder `into`, whose content it replaces."""
    _copy_sources(PYTHON_SOURCES, into)
    package = into / "gpulease_client"
    _write_python_core(package / "core", description)
    (package / "_described.py").write_text(client_sources.python_facts(description), encoding="utf-8")
    (package / "event.py").write_text(client_sources.python_events(description), encoding="utf-8")
    (package / "problems.py").write_text(client_sources.python_problems(), encoding="utf-8")
    for name in client_sources.SHARED:
        (package / f"{name}.py").write_text(client_sources.shared(name), encoding="utf-8")
    (package / "_sync").mkdir()
    for path in sorted((package / "_async").glob("*.py")):
        twin = client_sources.synchronous(path.read_text(encoding="utf-8"))
        (package / "_sync" / path.name).write_text(twin, encoding="utf-8")


def _copy_sources(sources: Path, into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(sources, into, ignore=NOT_SOURCES)
    shutil.copy(ROOT / "LICENSE", into)


def _write_python_core(into: Path, description: Path) -> None:
    generator = Path(sys.prefix) / "clients" / "bin" / "openapi-python-client"
    if not generator.exists():
        raise GenerationError(f"{generator} is missing: run make clients")
    with tempfile.TemporaryDirectory() as folder:
        readable = Path(folder) / description.name
        readable.write_text(json.dumps(readable_by_python_client(description)), encoding="utf-8")
        places = ["--path", str(readable), "--output-path", str(into), "--overwrite"]
        options = ["--config", str(PYTHON_TOOLS / "config.yml"), "--meta", "none", "--fail-on-warning"]
        _run([str(generator), "generate", *places, *options])
    shutil.rmtree(into / ".ruff_cache", ignore_errors=True)


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


def build_python(folder: Path) -> list[Path]:
    """The wheel and the sdist of the package in `folder`, in its `dist`."""
    dist = folder / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    uv = str(Path(sys.executable).with_name("uv"))
    # with the backend of the lock file, so that nothing is downloaded
    options = ["--no-build-isolation", "--offline", "--no-config", "--python", sys.executable, "--out-dir", str(dist)]
    _run([uv, "build", *options, str(folder)])
    return sorted(path for path in dist.iterdir() if path.suffix in {".whl", ".gz"})


def write_typescript(into: Path, description: Path = DESCRIPTION) -> None:
    """The package with its types and compiled modules, in the folder `into`, whose content it replaces. Needs Node."""
    _copy_sources(TYPESCRIPT_SOURCES, into)
    package = json.loads((into / "package.json").read_text(encoding="utf-8"))
    text = json.dumps({"name": package["name"], "version": client_sources.version(), **package}, indent=2)
    (into / "package.json").write_text(text + "\n", encoding="utf-8")
    (into / "src" / "described.ts").write_text(client_sources.typescript_facts(description), encoding="utf-8")
    generator = str(NODE_MODULES / "openapi-typescript" / "bin" / "cli.js")
    # what has a default may be left out of a request
    options = ["--alphabetize", "--default-non-nullable=false", "--output", str(into / "src" / "schema.ts")]
    _run([node(), generator, str(description), *options])
    (into / "node_modules").symlink_to(NODE_MODULES)
    _run([node(), str(NODE_MODULES / "typescript" / "bin" / "tsc"), "--project", str(into)])


def build_typescript(folder: Path) -> Path:
    """The tarball of the package in `folder`, as npm would publish it."""
    _run([str(find_npm()), "pack", "--offline", "--ignore-scripts", "--pack-destination", str(folder)], cwd=folder)
    (tarball,) = folder.glob("*.tgz")
    return tarball


def node() -> str:
    """The path of Node. Raises GenerationError when Node or the pinned packages are not there."""
    try:
        found = find_node()
    except MissingRuntimeError as error:
        raise GenerationError(str(error)) from error
    if not NODE_MODULES.is_dir():
        raise GenerationError(f"{NODE_MODULES} is missing: run make clients")
    return str(found)


def _run(argv: Sequence[str], cwd: Path = ROOT) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), path_with_node()])
    done = subprocess.run(argv, cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GenerationError(f"{Path(argv[0]).name} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """0 when both are written and built."""
    try:
        write_python(CLIENTS / "python")
        write_typescript(CLIENTS / "typescript")
        packages = [*build_python(CLIENTS / "python"), build_typescript(CLIENTS / "typescript")]
    except GenerationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.writelines(f"{path.relative_to(ROOT)}\n" for path in packages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
