"""Which API to talk to and with which key: options, then the environment, then `credentials.json`."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.errors import Json, NotConfiguredError

_HOW = "use --url and --key, set GPULEASE_URL and GPULEASE_KEY, or start a local stack with `gpulease up`"


@dataclass(frozen=True)
class Endpoint:
    """Where the API is and the key to show there. The key never appears in a message."""

    url: str
    key: str

    @property
    def is_loopback(self) -> bool:
        """True for this machine's own addresses, which no proxy can reach."""
        return _is_loopback(urlsplit(self.url).hostname or "")


def find_endpoint(
    *, url: str | None, key: str | None, operator: bool, environ: Mapping[str, str], directory: Path
) -> Endpoint:
    """The first source that names a value wins, for address and key apart.

    A key from `credentials.json` is shown only to the address in the same file: no other host ever gets to see it.
    Raises NotConfiguredError with what to do.
    """
    saved = _saved(environ, directory)
    address = _clean_url(url or environ.get("GPULEASE_URL") or saved.get("api_url"))
    given = key or environ.get("GPULEASE_KEY")
    return Endpoint(address, _clean_key(given) if given else _saved_key(saved, address, operator=operator))


def _saved(environ: Mapping[str, str], directory: Path) -> Json:
    path = _credentials_path(environ, directory)
    if path is None:
        return {}
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}; {_HOW}"
        raise NotConfiguredError(msg) from None
    return document if isinstance(document, dict) else {}


def _credentials_path(environ: Mapping[str, str], directory: Path) -> Path | None:
    home = environ.get("GPULEASE_HOME")
    places = [Path(home)] if home else [parent / ".gpulease" for parent in (directory, *directory.parents)]
    return next((place / "credentials.json" for place in places if (place / "credentials.json").is_file()), None)


def _saved_key(saved: Json, address: str, *, operator: bool) -> str:
    name = "operator_key" if operator else "tenant_key"
    found = saved.get(name) if _clean_url(saved.get("api_url") or address) == address else None
    if not found:
        role = "an operator key" if operator else "a key"
        msg = f"no credentials: {address} needs {role}; {_HOW}"
        raise NotConfiguredError(msg)
    return _clean_key(str(found))


def _clean_url(address: str | None) -> str:
    if not address:
        msg = f"no credentials: which API? {_HOW}"
        raise NotConfiguredError(msg)
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{address!r} is not an address of an API: write it like http://127.0.0.1:8000"
        raise NotConfiguredError(msg)
    return address.rstrip("/")


def _clean_key(key: str) -> str:
    stripped = key.strip()
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        msg = "the key holds characters that no key has: copy it again, without line breaks or quotes"
        raise NotConfiguredError(msg)
    return stripped


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
