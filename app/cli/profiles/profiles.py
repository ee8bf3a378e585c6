"""The profiles of `config.toml`: several APIs, each with its own key."""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.cli.errors import Json, NotConfiguredError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FIELDS = frozenset({"url", "key", "key_command"})
_READ_BY_OTHERS, _WRITTEN_BY_OTHERS = 0o077, 0o022


@dataclass(frozen=True)
class Profile:
    """One API. Has at most one of `key` and `key_command`, a command line that prints the key."""

    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    key_command: str | None = None


@dataclass(frozen=True)
class Profiles:
    """The text of the file, and its parsed profiles."""

    path: Path
    text: str = field(default="", repr=False)
    default: str | None = None
    by_name: Mapping[str, Profile] = field(default_factory=dict)

    def get(self, name: str) -> Profile:
        """The profile of that name. Raises NotConfiguredError."""
        profile = self.by_name.get(name)
        if profile is None:
            known = ", ".join(self.by_name) or (
                "there are no profiles: add one with `gpulease profile add NAME --url URL`"
            )
            msg = f"no profile has the name {name!r} in {self.path}; existing profiles: {known}"
            raise NotConfiguredError(msg)
        return profile


def config_path(environ: Mapping[str, str]) -> Path | None:
    """The path of the file. None if the environment has no home directory."""
    configured = environ.get("GPULEASE_CLI_CONFIG")
    if configured:
        return Path(configured).expanduser()
    base = environ.get("XDG_CONFIG_HOME", "")
    if not Path(base).is_absolute():  # such a value is to be ignored, says the XDG specification
        base = f"{environ['HOME']}/.config" if environ.get("HOME") else ""
    return Path(base, "gpulease", "config.toml") if base else None


def load(path: Path) -> Profiles:
    """The parsed file. Without a file there are no profiles.

    Raises NotConfiguredError for invalid content, for keys that other users of the machine can read, and for key
    commands that they can change.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read().decode()
        document = tomllib.loads(text)
    except FileNotFoundError:
        return Profiles(path)
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}"
        raise NotConfiguredError(msg) from None
    profiles = Profiles(path, text, _text(path, document, "default"), _profiles(path, document))
    _refuse_open(profiles, mode)
    return profiles


def _profiles(path: Path, document: Json) -> dict[str, Profile]:
    tables = document.get("profiles", {})
    if not isinstance(tables, dict):
        raise _fault(path, "profiles must be tables: write [profiles.NAME]")
    return {name: _profile(path, name, table) for name, table in tables.items()}


def _profile(path: Path, name: str, table: object) -> Profile:
    where = f"profile {name!r}"
    if not isinstance(table, dict):
        raise _fault(path, f"{where} must be a table: write [profiles.{name}]")
    unknown = sorted(set(table) - _FIELDS)
    if unknown:
        raise _fault(path, f"{where} has an unknown field {unknown[0]!r}: the fields are url, key and key_command")
    url, key, command = (_text(path, table, part) for part in ("url", "key", "key_command"))
    if not url:
        raise _fault(path, f"{where} has no url")
    if key and command:
        raise _fault(path, f"{where} has both key and key_command: remove one")
    return Profile(name, url, key, command)


def _text(path: Path, table: Json, name: str) -> str | None:
    value = table.get(name)
    if value is not None and not isinstance(value, str):
        raise _fault(path, f"{name} must be text")
    return value or None


def _refuse_open(known: Profiles, mode: int) -> None:
    profiles = known.by_name.values()
    if mode & _READ_BY_OTHERS and any(profile.key for profile in profiles):
        raise _fault(known.path, f"other users can read its keys: run `chmod 600 {known.path}`")
    if mode & _WRITTEN_BY_OTHERS and any(profile.key_command for profile in profiles):
        raise _fault(known.path, f"other users can change its key commands: run `chmod 600 {known.path}`")


def _fault(path: Path, message: str) -> NotConfiguredError:
    return NotConfiguredError(f"{path}: {message}")
