"""What `make up` prints when everything runs: commands that work when pasted into another terminal."""

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.local.demo import AccountReport, Credentials
from app.local.home import Home

_LOGIN = """\
A first lease, a login to its simulated VM, and the release, in another terminal:

  {gpulease} lease create --name first --gpu A10G:1 --ttl 1h --watch
  {gpulease} ssh first
  {gpulease} lease release first
"""
_PRICES = """\
Prices, and what a lease would cost without creating it, in another terminal:

  {gpulease} offerings
  {gpulease} lease plan --gpu MODEL:COUNT --ttl 1h
"""


def first_lines(home: Home, credentials: Credentials, gpulease: str, accounts: Sequence[AccountReport]) -> str:
    """Where everything is, and what to do next. `gpulease`: the client's command.

    Only simulated VMs have a ready command for a first lease. No command stands where no lease can start.
    """
    return "\n".join(_lines(home, credentials, gpulease, accounts))


def _lines(home: Home, credentials: Credentials, gpulease: str, accounts: Sequence[AccountReport]) -> Iterator[str]:
    yield ""
    yield f"API          {credentials.api_url}   (its docs: {credentials.api_url}/docs)"
    yield f"dashboard    {credentials.api_url}/dashboard   (sign in with a key of the file below)"
    if credentials.cloudsim_url is not None:
        yield f"cloudsim     {credentials.cloudsim_url}"
    yield f"credentials  {home.credentials_file}"
    yield ""
    if credentials.cloudsim_url is None:
        yield from (f"VMs cost money in account {account.label}" for account in accounts)
        yield ""
    if any(account.has_offerings for account in accounts):
        yield (_PRICES if credentials.cloudsim_url is None else _LOGIN).format(gpulease=gpulease)
    else:
        yield f"No account has offerings, so no lease can start: {gpulease} ops accounts\n"
    yield f"Ctrl-C ends everything; data stay in {home.path}."


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
