"""`python -m tools.try_generators` makes clients from openapi.json with five generators and checks each with strict types.

Nothing is kept: `make clients` writes the clients that the project supports. A generator that fails is an error in
openapi.json, or a defect of the generator that docs/decisions/0044-the-api-describes-itself.md names.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.clients import DESCRIPTION, PYTHON_TOOLS, ROOT, readable_by_python_client
from tools.runtimes import find_node

TOOLS = ROOT / "tools" / "generators"
MODULES = TOOLS / "node_modules"
PYTHON = Path(sys.prefix) / "generators" / "bin"

_TSC = (
    *("--strict", "--noEmit", "--skipLibCheck", "--noUncheckedIndexedAccess", "--target", "es2022"),
    *("--lib", "es2022,dom,dom.iterable", "--module", "esnext", "--moduleResolution", "bundler", "--types", "node"),
)
_DATAMODEL = (
    *("--input-file-type", "openapi", "--output-model-type", "pydantic_v2.BaseModel", "--use-annotated"),
    *("--target-python-version", "3.11", "--formatters", "builtin", "--deserialize-default-values", "enum"),
    *("--collapse-root-models", "--capitalise-enum-members"),
)
_ORVAL = """module.exports = {{ gpulease: {{
  input: {{ target: {description} }}, output: {{ target: "./client.ts", client: "fetch", mode: "single" }},
}} }};
"""


class FailedError(Exception):
    """A generator or a type checker failed; the message is what it wrote."""


def datamodel_code_generator(folder: Path) -> None:
    """Pydantic models."""
    models = folder / "models.py"
    _run([PYTHON / "datamodel-codegen", "--input", DESCRIPTION, "--output", models, *_DATAMODEL], folder)
    _mypy(models)


def openapi_python_client(folder: Path) -> None:
    """A Python client for httpx."""
    readable = folder / "openapi.json"
    readable.write_text(json.dumps(readable_by_python_client(DESCRIPTION)), encoding="utf-8")
    places: list[str | Path] = [
        "--path",
        readable,
        "--output-path",
        folder / "client",
        "--config",
        PYTHON_TOOLS / "config.yml",
    ]
    _run([PYTHON / "openapi-python-client", "generate", *places, "--meta", "uv", "--fail-on-warning"], folder)
    _mypy(folder / "client")


def openapi_typescript(folder: Path) -> None:
    """TypeScript types."""
    _node("openapi-typescript/bin/cli.js", [DESCRIPTION, "--output", folder / "schema.ts"], folder)
    _tsc(folder)


def hey_api(folder: Path) -> None:
    """A TypeScript client for fetch."""
    _node("@hey-api/openapi-ts/bin/run.js", ["--input", DESCRIPTION, "--output", folder / "client"], folder)
    _tsc(folder)


def orval(folder: Path) -> None:
    """TypeScript functions for fetch."""
    config = folder / "orval.config.cjs"
    config.write_text(_ORVAL.format(description=json.dumps(str(DESCRIPTION))), encoding="utf-8")
    _node("orval/dist/bin/orval.js", ["--config", config], folder)
    _tsc(folder)


GENERATORS: tuple[Callable[[Path], None], ...] = (
    datamodel_code_generator,
    openapi_python_client,
    openapi_typescript,
    hey_api,
    orval,
)


def _mypy(target: Path) -> None:
    cache = TOOLS / "node_modules" / ".mypy_cache"
    _run([PYTHON / "mypy", "--strict", "--config-file=", "--cache-dir", cache, target.name], target.parent)


def _tsc(folder: Path) -> None:
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    sources = [path for path in folder.rglob("*.ts") if "node_modules" not in path.parts]
    _node("typescript/bin/tsc", [*_TSC, *sources], folder)


def _node(script: str, arguments: Sequence[str | Path], folder: Path) -> None:
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(MODULES)
    _run([find_node(), MODULES / script, *arguments], folder)


def _run(argv: Sequence[str | Path], folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise FailedError(f"{Path(argv[0]).name} {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def main(names: Sequence[str]) -> int:
    """How many of the generators failed. `names`: only these."""
    failed = 0
    for generate in GENERATORS:
        if names and generate.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                generate(Path(folder).resolve())
            except FailedError as error:
                failed += 1
                sys.stderr.write(f"{generate.__name__}: {error}\n")
            else:
                sys.stdout.write(f"{generate.__name__}: passed\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
