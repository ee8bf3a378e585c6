"""`python -m tools.installed_clients` installs both packages into clean environments and runs the programs of docs/clients.md.

Needs the packages that `make clients` builds, `GPULEASE_URL` and `GPULEASE_KEY` of a running API, and a package index.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.clients import CLIENTS, NODE_MODULES, ROOT
from tools.runtimes import find_node, find_npm, path_with_node

PAGE = ROOT / "docs" / "clients.md"
COMPILER = "--strict --target es2022 --lib es2022 --module nodenext --types node --skipLibCheck --outDir ."


def programs(language: str) -> list[str]:
    """The programs of that language in docs/clients.md."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def install_python(wheel: Path, folder: Path, *, offline: bool = False) -> list[str]:
    """A new virtual environment with the wheel; the command of its Python.

    `offline`: the dependencies are those of this environment, and nothing is downloaded.
    """
    uv = str(Path(sys.executable).with_name("uv"))
    _run([uv, "venv", "--quiet", "--no-config", "--offline", "--python", sys.executable, str(folder)], ROOT)
    python = folder / "bin" / "python"
    options = ["--offline", "--no-deps"] if offline else []
    _run([uv, "pip", "install", "--quiet", "--no-config", *options, "--python", str(python), str(wheel)], ROOT)
    if offline:
        (site,) = (folder / "lib").glob("python*/site-packages")
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return [str(python), "-P"]


def install_typescript(tarball: Path, folder: Path, *, offline: bool = False) -> None:
    """A new project in `folder` with the tarball, and the compiler of this checkout.

    `offline`: the dependencies are those of the lock file, and nothing is downloaded.
    """
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"type": "module", "private": true}', encoding="utf-8")
    local = [str(NODE_MODULES / name) for name in ("openapi-fetch", "openapi-typescript-helpers")]
    options = ["--offline", *local] if offline else []
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    _run([str(find_npm()), "install", *quiet, *options, str(tarball)], folder)
    for name in ("@types", "undici-types", "typescript"):
        (folder / "node_modules" / name).symlink_to(NODE_MODULES / name)


def compile_typescript(folder: Path, *sources: str) -> None:
    """The JavaScript of these sources of a project, beside them. A type error fails."""
    _run([str(find_node()), "node_modules/typescript/bin/tsc", *COMPILER.split(), *sources], folder)


def _run(argv: Sequence[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{Path(argv[0]).name} failed:\n{done.stdout}{done.stderr}")


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": path_with_node()}


def main() -> int:
    """0 when both programs have succeeded."""
    (wheel,) = (CLIENTS / "python" / "dist").glob("*.whl")
    (tarball,) = (CLIENTS / "typescript").glob("*.tgz")
    folder = Path(tempfile.mkdtemp(prefix="gpulease-clients-"))
    try:
        python = install_python(wheel, folder / "python")
        (folder / "program.py").write_text(programs("python")[0], encoding="utf-8")
        install_typescript(tarball, folder / "typescript")
        (folder / "typescript" / "program.ts").write_text(programs("ts")[0], encoding="utf-8")
        compile_typescript(folder / "typescript", "program.ts")
        for argv in ([*python, "program.py"], [str(find_node()), "typescript/program.js"]):
            sys.stdout.write(f"\n{argv[-1]}\n")
            sys.stdout.flush()
            subprocess.run(argv, cwd=folder, env=_environment(), check=True)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
