"""Node and Chromium for the tests: the system's when they are there, else from packages with pinned hashes.

`python -m tools.runtimes` installs what the machine lacks below `.venv`. `python -m tools.runtimes npm ARGUMENTS` runs npm.
Uses the standard library only, since it runs before the test dependencies are installed.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NODE_LOCK = ROOT / "tools" / "node.lock"
CHROMIUM_PACKAGE = ROOT / "tools" / "chromium"
OLDEST_NODE = 20

_BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{home}/fonts</dir><cachedir>{home}/fonts-cache</cachedir></fontconfig>
"""
_START = """#!/bin/sh
export FONTCONFIG_FILE="{home}/fonts.conf"
export LD_LIBRARY_PATH="{home}/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "{home}/chromium" "$@"
"""
_UNPACK = (
    "const fs = require('fs'); fs.createReadStream(process.argv[1])"
    ".pipe(require('zlib').createBrotliDecompress()).pipe(fs.createWriteStream(process.argv[2]))"
)


class MissingRuntimeError(Exception):
    """A program that the tests need is not there and cannot be installed; the message says what to do."""


def find_node() -> Path:
    """The path of Node: the system's when it has npm and is new enough. Raises MissingRuntimeError."""
    system = shutil.which("node")
    if system and shutil.which("npm") and _major_version(system) >= OLDEST_NODE:
        return Path(system)
    installed = _packaged_node() / "bin" / "node"
    if installed.exists():
        return installed
    raise MissingRuntimeError(
        "Node is missing: run `make test`, which installs it, or install Node 20 or newer with npm"
    )


def find_chromium() -> Path:
    """The path of Chromium or Chrome: the system's, else the installed package's. Raises MissingRuntimeError."""
    system = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if system:
        return Path(system)
    installed = _packaged_chromium() / "start"
    if installed.exists():
        return installed
    raise MissingRuntimeError("Chromium is missing: run `make test`, which installs it, or install Chromium or Chrome")


def run_npm(arguments: list[str], folder: Path) -> None:
    """Runs npm in `folder`. Raises MissingRuntimeError without Node, CalledProcessError when npm fails."""
    environment = {**os.environ, "PATH": path_with_node()}
    subprocess.run([str(find_npm()), *arguments], cwd=folder, env=environment, check=True)


def find_npm() -> Path:
    """The path of npm. It needs the PATH of `path_with_node`. Raises MissingRuntimeError."""
    npm = shutil.which("npm", path=path_with_node())
    if npm is None:
        raise MissingRuntimeError(f"{find_node()} has no npm beside it: install npm")
    return Path(npm)


def path_with_node() -> str:
    """The PATH on which Node comes first. Raises MissingRuntimeError without Node."""
    return os.pathsep.join([str(find_node().parent), os.environ.get("PATH", os.defpath)])


def install_missing() -> None:
    """Installs Node and Chromium where the machine has none. Does nothing when both are there."""
    try:
        find_node()
    except MissingRuntimeError:
        _install_node()
    try:
        find_chromium()
    except MissingRuntimeError:
        _install_chromium()


def _major_version(node: str) -> int:
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = answer.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _packaged_node() -> Path:
    return Path(sys.prefix) / "node"


def _packaged_chromium() -> Path:
    return Path(sys.prefix) / "chromium"


def _install_node() -> None:
    _report("installing Node from tools/node.lock")
    home = _packaged_node()
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(NODE_LOCK)]
    subprocess.run([str(home / "bin" / "python"), "-m", "pip", "install", *options], check=True)


def _install_chromium() -> None:
    """Unpacks the browser that the npm package ships, which is compiled for Linux on x86-64. Raises MissingRuntimeError."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise MissingRuntimeError(
            f"no package ships Chromium for {platform.system()} {platform.machine()}: install Chromium or Google Chrome"
        )
    _report("installing Chromium from tools/chromium/package-lock.json (70 MB, once)")
    run_npm(["ci", "--silent"], CHROMIUM_PACKAGE)
    packed = CHROMIUM_PACKAGE / "node_modules" / "@sparticuz" / "chromium" / "bin"
    home = _packaged_chromium()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for archive in packed.glob("*.br"):
        _unpack(archive, home)
    (home / "chromium").chmod(0o755)
    (home / "fonts.conf").write_text(_FONTS.format(home=home), encoding="utf-8")
    start = home / "start"
    start.write_text(_START.format(home=home), encoding="utf-8")
    start.chmod(0o755)
    shutil.rmtree(CHROMIUM_PACKAGE / "node_modules")


def _unpack(archive: Path, home: Path) -> None:
    """Brotli is not in Python's standard library, and Node has it."""
    unpacked = home / archive.stem
    subprocess.run([str(find_node()), "-e", _UNPACK, str(archive), str(unpacked)], check=True)
    if unpacked.suffix == ".tar":
        shutil.unpack_archive(unpacked, home)
        unpacked.unlink()


def _report(message: str) -> None:
    sys.stdout.write(message + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """0 when everything is there or npm succeeded; 2 when something is missing."""
    try:
        if arguments[:1] == ["npm"]:
            run_npm(arguments[1:], Path.cwd())
        else:
            install_missing()
    except MissingRuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
