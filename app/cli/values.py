"""Parsers of command-line values. Each error message shows a valid form."""

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from app.cli.render import times


def seconds(text: str) -> int:
    """A duration option in whole seconds."""
    try:
        return times.parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def quota_limit(resource: str, text: str) -> int | str | None:
    """A limit as the API takes it: a number, a decimal amount as text for spend, None for no limit."""
    if text.lower() in {"none", "unlimited"}:
        return None
    if resource == "spend_per_hour":
        return text
    if not (text.isascii() and text.isdigit()):
        msg = f"{resource}={text}: the limit is a whole number, or none for no limit"
        raise typer.BadParameter(msg)
    return int(text)


def past(text: str) -> str:
    """`2h` (ago) or an RFC 3339 time, in the form of the API."""
    return _moment(text, direction=-1)


def day_or_past(text: str) -> str:
    """As `past`, or a day such as `2026-11-01`: its start in UTC."""
    return f"{text}T00:00:00Z" if _DAY.fullmatch(text) else past(text)


def future(text: str) -> str:
    """`30d` (from now) or an RFC 3339 time, in the form of the API."""
    return _moment(text, direction=1)


def warning_seconds(text: str) -> list[int]:
    """`30m,5m` as seconds before the end, the longest first. `none` is no warning."""
    if text.lower() == "none":
        return []
    return sorted({seconds(part.strip()) for part in text.split(",")}, reverse=True)


def amount_or_none(text: str) -> str | None:
    """An amount in USD as the API takes it; `none` removes the limit."""
    return None if text.lower() == "none" else text


def percentages(text: str) -> list[int]:
    """`50,80,100` as whole numbers."""
    parts = [part.strip().removesuffix("%") for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise typer.BadParameter(f"{text!r}: write percentages such as 50,80,100")
    return [int(part) for part in parts]


def _moment(text: str, *, direction: int) -> str:
    parsed = times.parse_time(text) if "-" in text else None
    if parsed is not None and parsed.tzinfo is None:
        msg = f"{text!r} has no time zone: add Z for UTC"
        raise typer.BadParameter(msg)
    return times.rfc3339(parsed or times.now() + direction * timedelta(seconds=seconds(text)))


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MEMORY = re.compile(r"\d+ ?(?:GB|GiB|G)", re.IGNORECASE)


def gpu(text: str) -> tuple[str, int | None]:
    """`A100:8` as model and count per VM; `A100` and `A100:80GB` have no count."""
    model, colon, count = text.rpartition(":")
    if not colon or _MEMORY.fullmatch(count):
        model, count = text, ""
    if not model or (count and not (count.isascii() and count.isdigit() and int(count) > 0)) or text.endswith(":"):
        msg = f"{text!r}: use MODEL or MODEL:COUNT, such as A100:8"
        raise typer.BadParameter(msg)
    return model, int(count) if count else None


def volume(text: str) -> dict[str, str]:
    """`data:/srv/data` as the name of a volume and the path where the VM mounts it."""
    name, colon, path = text.partition(":")
    if not name or not colon or not path.startswith("/"):
        msg = f"{text!r}: use NAME:PATH, such as data:/data"
        raise typer.BadParameter(msg)
    return {"name": name, "path": path}


def pairs(texts: Iterable[str], *, what: str) -> dict[str, str]:
    """Parses repeated `key=value` texts. A key given twice is an error."""
    result: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            msg = f"{text!r}: write {what}"
            raise typer.BadParameter(msg)
        if name in result:
            msg = f"{name} is given twice"
            raise typer.BadParameter(msg)
        result[name] = value
    return result


def ssh_keys(paths: Iterable[Path]) -> list[str]:
    """The public keys in these files, one per line. A private key is rejected before it leaves this machine."""
    return [key for path in paths for key in _public_keys(path)]


def ssh_key_references(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The public keys in the files among `texts`, and the rest: names or ids of stored keys."""
    files = [text for text in texts if _is_key_file(text)]
    return ssh_keys(map(Path, files)), [text for text in texts if text not in files]


def _is_key_file(text: str) -> bool:
    """A name of a stored key has no slash. A missing file is better reported than taken for a name."""
    return "/" in text or text.endswith(".pub") or Path(text).is_file()


def _public_keys(path: Path) -> list[str]:
    content = text_file(path)
    if "PRIVATE KEY" in content:
        msg = f"{path} is a private key: use the public key, usually {path}.pub"
        raise typer.BadParameter(msg)
    lines = [line.strip() for line in content.splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        msg = f"{path} contains no key"
        raise typer.BadParameter(msg)
    return keys


def text_file(path: Path) -> str:
    """The file's text, UTF-8."""
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {path}: {error}"
        raise typer.BadParameter(msg) from None


def extension(by: int | None, until: str | None) -> dict[str, int | str]:
    """The body of an extension: by a duration in seconds, or until a time. Exactly one of the two is given."""
    if by is not None and until is None:
        return {"extend_by_seconds": by}
    if until is not None and by is None:
        return {"expires_at": until}
    raise typer.BadParameter("give either DURATION, such as 4h, or --until TIME")


Duration = Annotated[
    int | None, typer.Argument(metavar="DURATION", parser=seconds, help="Time to add to the present end, such as 4h.")
]
NewEnd = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", parser=future, help="The new end: an RFC 3339 time, or 8h from now."),
]
