"""Determines the API address and key: options, the environment, a profile, then `credentials.json`."""

import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.errors import Json, NotConfiguredError
from app.cli.key_command import profile_key
from app.cli.profiles.profiles import Profile, config_path, load

_HOW = (
    "use --url and --key, set GPULEASE_URL and GPULEASE_KEY, add a profile with `gpulease profile add`, or start "
    "a local stack with `gpulease up`"
)


@dataclass(frozen=True)
class Endpoint:
    """The API address and the key for it. No message contains the key."""

    url: str
    key: str

    @property
    def is_loopback(self) -> bool:
        """True for this machine's own addresses, which no proxy can reach."""
        return _is_loopback(urlsplit(self.url).hostname or "")


@dataclass(frozen=True)
class _Source:
    """A source that may name an address, a key, or both.

    `bound`: the key is valid only for the address of the same source.
    """

    url: str | None
    key: Callable[[], str | None]
    bound: bool


@dataclass(frozen=True)
class Choice:
    """The connection options of a command. An option that is not set is None.

    An empty profile means no profile, even if there is a default.
    """

    url: str | None = None
    key: str | None = None
    profile: str | None = None


def find_endpoint(
    choice: Choice,
    *,
    operator: bool,
    environ: Mapping[str, str],
    directory: Path,
    profile_key: Callable[[Profile], str | None] = profile_key,
) -> Endpoint:
    """Takes address and key each from the first source that names it, and reads no further source.

    A key from a profile or from `credentials.json` is sent only to the address stored with it. Raises
    NotConfiguredError with instructions.
    """
    address = key = None
    for source in _sources(choice, operator, environ, directory, profile_key):
        if address is None and source.url:
            address = clean_url(source.url)
        if not key and (not source.bound or clean_url(source.url) == address):
            key = source.key()
        if address and key:
            return Endpoint(address, clean_key(key))
    if address is None:
        msg = f"no credentials: no API address; {_HOW}"
        raise NotConfiguredError(msg)
    role = "an operator key" if operator else "a key"
    msg = f"no credentials: {address} needs {role}; {_HOW}"
    raise NotConfiguredError(msg)


def find_address(choice: Choice, *, environ: Mapping[str, str], directory: Path) -> str:
    """The API address alone, from the same sources. Raises NotConfiguredError with instructions."""
    for source in _sources(choice, environ=environ, directory=directory, operator=False, profile_key=lambda _: None):
        if source.url:
            return clean_url(source.url)
    msg = f"no API address; {_HOW}"
    raise NotConfiguredError(msg)


def _sources(
    choice: Choice,
    operator: bool,  # noqa: FBT001 - passed on as it came
    environ: Mapping[str, str],
    directory: Path,
    profile_key: Callable[[Profile], str | None],
) -> Iterator[_Source]:
    """The sources in order of precedence. A profile named by an option precedes the environment."""
    asked_for = choice.profile is not None
    yield _Source(choice.url, lambda: choice.key, bound=False)
    if asked_for:
        yield from _profile(choice.profile, environ, profile_key)
    yield _Source(environ.get("GPULEASE_URL"), lambda: environ.get("GPULEASE_KEY"), bound=False)
    if not asked_for:
        yield from _profile(environ.get("GPULEASE_PROFILE"), environ, profile_key)
    saved = _saved(environ, directory)
    name = "operator_key" if operator else "tenant_key"
    yield _Source(saved.get("api_url"), lambda: saved.get(name), bound="api_url" in saved)


def _profile(
    name: str | None, environ: Mapping[str, str], profile_key: Callable[[Profile], str | None]
) -> Iterator[_Source]:
    """The profile of that name. None: the default profile. An empty name: no profile."""
    path = config_path(environ)
    if path is None or name == "":
        return
    known = load(path)
    chosen = name if name is not None else known.default
    if chosen is not None:
        profile = known.get(chosen)
        yield _Source(profile.url, lambda: profile_key(profile), bound=True)


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


def clean_url(address: str | None) -> str:
    """The address without a trailing slash. Raises NotConfiguredError for an invalid address."""
    address = address or ""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{address!r} is not an API address: use a form like http://127.0.0.1:8000"
        raise NotConfiguredError(msg)
    return address.rstrip("/")


def clean_key(key: str) -> str:
    """The key without surrounding whitespace. Raises NotConfiguredError, which does not contain the key."""
    stripped = key.strip()
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        msg = "the key contains invalid characters: copy it again, without line breaks or quotes"
        raise NotConfiguredError(msg)
    return stripped


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
