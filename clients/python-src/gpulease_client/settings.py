"""Finds the API address and key as the command line does: arguments, environment, profiles, `credentials.json`."""

import ipaddress
import json
import os
import shlex
import stat
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpulease_client.errors import NotConfiguredError

_HOW = (
    "pass url and key, set GPULEASE_URL and GPULEASE_KEY, or add a profile with `gpulease profile add` "
    "(see docs/clients.md)"
)
_KEY_COMMAND_SECONDS = 60.0


@dataclass(frozen=True)
class Endpoint:
    """An API address without a trailing slash, and the key for it."""

    url: str
    key: str = field(repr=False)

    @property
    def is_loopback(self) -> bool:
        """True for this machine's own addresses, which no proxy can reach."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


@dataclass(frozen=True)
class _Source:
    """May name an address, a key, or both. `bound`: the key belongs to this source's address alone."""

    url: str | None
    key: Callable[[], str | None]
    bound: bool


def find_endpoint(
    url: str | None = None,
    key: str | None = None,
    profile: str | None = None,
    *,
    operator: bool = False,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Endpoint:
    """Takes address and key each from the first source that names it.

    The order: the arguments, the named profile, `GPULEASE_URL` and `GPULEASE_KEY`, the profile of `GPULEASE_PROFILE`
    or the default one, `credentials.json` of a local stack. An empty profile name means no profile. `operator`: takes
    the operator's key of `credentials.json`. Raises NotConfiguredError.
    """
    environ = os.environ if environ is None else environ
    address = secret = None
    for source in _sources(url, key, profile, operator, environ, directory or Path.cwd()):
        if address is None and source.url:
            address = _clean_url(source.url)
        if not secret and (not source.bound or (source.url and _clean_url(source.url) == address)):
            secret = source.key()
        if address and secret:
            return Endpoint(address, secret.strip())
    raise NotConfiguredError(f"no {'key for ' + address if address else 'API address'}: {_HOW}")


def _sources(
    url: str | None,
    key: str | None,
    profile: str | None,
    operator: bool,  # noqa: FBT001 - passed on as it came
    environ: Mapping[str, str],
    directory: Path,
) -> Iterator[_Source]:
    yield _Source(url, lambda: key, bound=False)
    if profile is not None:
        yield from _profile(profile, environ)
    yield _Source(environ.get("GPULEASE_URL"), lambda: environ.get("GPULEASE_KEY"), bound=False)
    if profile is None:
        yield from _profile(environ.get("GPULEASE_PROFILE"), environ)
    saved = _saved(environ, directory)
    name = "operator_key" if operator else "tenant_key"
    yield _Source(saved.get("api_url"), lambda: saved.get(name), bound="api_url" in saved)


def _profile(name: str | None, environ: Mapping[str, str]) -> Iterator[_Source]:
    """The profile of that name. None: the default profile."""
    path = _config_path(environ)
    if path is None or name == "":
        return
    document, mode = _load(path)
    profiles = document.get("profiles", {})
    chosen = name if name is not None else document.get("default") or None
    if chosen is None:
        return
    if not isinstance(profiles, dict) or not isinstance(profiles.get(chosen), dict):
        known = ", ".join(profiles) or "none"
        raise NotConfiguredError(f"no profile has the name {chosen!r} in {path}; existing profiles: {known}")
    table = profiles[chosen]
    if (table.get("key") and mode & 0o077) or (table.get("key_command") and mode & 0o022):
        raise NotConfiguredError(f"other users can read or change {path}: run `chmod 600 {path}`")
    yield _Source(table.get("url"), lambda: _profile_key(chosen, table), bound=True)


def _load(path: Path) -> tuple[dict[str, Any], int]:
    """The parsed file and its mode. An absent file is empty."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return {}, 0
    except (OSError, ValueError) as error:
        raise NotConfiguredError(f"cannot read {path}: {error}") from None


def _config_path(environ: Mapping[str, str]) -> Path | None:
    given = environ.get("GPULEASE_CLI_CONFIG")
    if given:
        return Path(given).expanduser()
    base = environ.get("XDG_CONFIG_HOME", "")
    if not Path(base).is_absolute():
        base = f"{environ['HOME']}/.config" if environ.get("HOME") else ""
    return Path(base, "gpulease", "config.toml") if base else None


def _profile_key(name: str, table: Mapping[str, Any]) -> str | None:
    """The profile's key: from the file, or the first line that its command prints."""
    if not table.get("key_command"):
        return table.get("key")
    try:
        words = shlex.split(table["key_command"])
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=_KEY_COMMAND_SECONDS, check=True)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        raise NotConfiguredError(f"profile {name!r}: its key_command failed; run it by hand") from None
    key = done.stdout.decode(errors="replace").partition("\n")[0].strip()
    if not key:
        raise NotConfiguredError(f"profile {name!r}: its key_command printed nothing")
    return key


def _saved(environ: Mapping[str, str], directory: Path) -> dict[str, Any]:
    """`credentials.json` of the local stack, in `GPULEASE_HOME` or in `.gpulease` of a parent directory."""
    home = environ.get("GPULEASE_HOME")
    places = [Path(home)] if home else [parent / ".gpulease" for parent in (directory, *directory.parents)]
    path = next((place / "credentials.json" for place in places if (place / "credentials.json").is_file()), None)
    if path is None:
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotConfiguredError(f"cannot read {path}: {error}") from None
    return document if isinstance(document, dict) else {}


def _clean_url(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise NotConfiguredError(f"{address!r} is not an API address: use a form like http://127.0.0.1:8000")
    return address.rstrip("/")
