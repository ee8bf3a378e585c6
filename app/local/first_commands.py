"""The client's command, as `make up` prints it: it works when pasted into another terminal."""

import shlex
import shutil
from pathlib import Path

from app.local.home import Home


def client_command(home: Home, directory: Path, executable: Path, search_path: str | None) -> str:
    """`gpulease`, with its path and with GPULEASE_HOME where the command needs them.

    `directory`: the current one. `executable`: the running Python. `search_path`: $PATH. The client finds a `.gpulease`
    in its directory and above by itself.
    """
    found_by_itself = home.path.name == ".gpulease" and home.path.parent in (directory, *directory.parents)
    variable = "" if found_by_itself else f"GPULEASE_HOME={shlex.quote(str(home.path))} "
    return variable + _program(directory, executable, search_path)


def _program(directory: Path, executable: Path, search_path: str | None) -> str:
    script = executable.with_name("gpulease")
    if not script.exists():
        return f"{shlex.quote(str(executable))} -P -m app.cli"
    on_path = shutil.which("gpulease", path=search_path)
    if on_path is not None and Path(on_path).samefile(script):
        return "gpulease"
    path = script.relative_to(directory) if script.is_relative_to(directory) else script
    return shlex.quote(str(path))
