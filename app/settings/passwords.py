"""Passwords of the database, given by a variable or by a file, such as a secret that an orchestrator mounts."""

from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import SecretStr
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from app.settings.errors import StartupError

_SCHEMES = frozenset({"postgresql", "postgres"})
_FORM = "GPULEASE_DATABASE_URL must be postgresql://user@host:port/database"


def read_password(variable: str, value: SecretStr | None, file: Path | None) -> str | None:
    """The password, of any characters; a line break at the end of the file does not count. None: none is given.

    Raises StartupError for a file that cannot be read or holds nothing, and for both at once.
    """
    text = value.get_secret_value() if value is not None else ""
    if file is None:
        return text or None
    if text:
        raise StartupError(f"{variable} and {variable}_FILE give the password twice: set one of them")
    try:
        text = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StartupError(f"cannot read {file} ({variable}_FILE): {reason}") from None
    if not text:
        raise StartupError(f"{file} ({variable}_FILE) is empty")
    return text


def insert_password(url: str, password: str | None) -> str:
    """The database's URL with this password in it, encoded as a URL wants it.

    Raises StartupError, which names no part of the URL, since it may hold a password.
    """
    if url.count("@") > 1:
        raise StartupError(
            "GPULEASE_DATABASE_URL holds several @: write one that belongs to the password as %40, "
            "or give the password as it is in GPULEASE_DATABASE_PASSWORD"
        )
    try:
        is_postgresql = make_url(url).drivername in _SCHEMES
    except (ArgumentError, ValueError):
        is_postgresql = False
    if not is_postgresql:
        raise StartupError(_FORM)
    if password is None:
        return url
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not at:
        raise StartupError(
            "GPULEASE_DATABASE_URL names no user for the password: write postgresql://user@host/database"
        )
    if ":" in user:
        raise StartupError(
            "GPULEASE_DATABASE_URL and GPULEASE_DATABASE_PASSWORD give the password twice: set one of them"
        )
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{place}"))
