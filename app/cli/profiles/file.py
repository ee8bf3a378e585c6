"""Changes to `config.toml` that keep all other text of the file."""

import json
import os
import re
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path

from app.cli.errors import CliError, Json
from app.cli.profiles.profiles import Profile, Profiles

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_DEFAULT = re.compile(r"^[ \t]*default[ \t]*=.*\n?", re.MULTILINE)


def add(before: Profiles, profile: Profile) -> None:
    """Appends the profile."""
    members = {"url": profile.url, "key": profile.key, "key_command": profile.key_command}
    table = {name: value for name, value in members.items() if value is not None}
    lines = [f"[profiles.{profile.name}]", *(f"{name} = {_quoted(value)}" for name, value in table.items())]
    start = before.text.rstrip() + "\n\n" if before.text.strip() else ""
    document = _document(before)
    document["profiles"] = {**document.get("profiles", {}), profile.name: table}
    _save(before, start + "\n".join(lines) + "\n", document)


def use(before: Profiles, name: str) -> None:
    """Makes the profile the default."""
    _save(before, _with_default(before.text, name), {**_document(before), "default": name})


def remove(before: Profiles, name: str) -> None:
    """Removes the profile. If it was the default, no default remains."""
    section = rf"^[ \t]*\[[ \t]*profiles[ \t]*\.[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*\].*?(?=^[ \t]*\[|\Z)"
    text = re.sub(section, "", before.text, flags=re.MULTILINE | re.DOTALL)
    document = _document(before)
    document["profiles"] = {other: table for other, table in document["profiles"].items() if other != name}
    if before.default == name:
        text = _with_default(text, None)
        del document["default"]
    if not document["profiles"]:
        del document["profiles"]
    _save(before, text, document)


def _document(before: Profiles) -> Json:
    return tomllib.loads(before.text)


def _with_default(text: str, name: str | None) -> str:
    header = _HEADER.search(text)
    end = header.start() if header else len(text)
    line = f"default = {_quoted(name)}\n" if name else ""
    return line + _DEFAULT.sub("", text[:end]) + text[end:]


def _quoted(value: str) -> str:
    """A TOML basic string: JSON's escapes, and DEL, which TOML wants escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _save(before: Profiles, text: str, meant: Json) -> None:
    """Writes the text if it parses to the intended value. Some forms of a hand-written file cannot be changed here."""
    try:
        parsed: Json | None = tomllib.loads(text)
    except ValueError:
        parsed = None
    if parsed != meant:
        msg = f"cannot change {before.path} without damaging other content: edit it by hand"
        raise CliError(msg)
    try:
        _replace(before.path.resolve(), text)
    except OSError as error:
        msg = f"cannot write {before.path}: {error.strerror}"
        raise CliError(msg) from None


def _replace(path: Path, text: str) -> None:
    """Writes the whole file or nothing, readable only by its owner."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
