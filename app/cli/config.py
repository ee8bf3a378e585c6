"""Which API to talk to and with which key: options, the environment, a profile, then `credentials.json`."""

import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.errors import Json, NotConfiguredError
from app.cli.key_command import profile_key
from app.cli.profiles import Profile, config_path, load

_HOW = (
    "use --url and --key, set GPULEASE_URL and GPULEASE_KEY, make a profile with `gpulease profile add`, "
    "or start a local stack with `gpulease up`"
)


@dataclass(frozen=True)
class Endpoint:
    """Where the API is and the key to show there. The key never appears in a message."""

    url: str
    key: str

    @property
    def is_loopback(self) -> bool:
        """True for this machine's own addresses, which no proxy can reach."""
        return _is_loopback(urlsplit(self.url).hostname or "")


@dataclass(frozen=True)
class _Source:
    """One place that may name an address, a key, or both. `bound`: its key is for its own address alone."""

    url: str | None
    key: Callable[[], str | None]
    bound: bool


@dataclass(frozen=True)
class Choice:
    """What the options of a command say about where to go; None where they say nothing.

    An empty profile means none, whatever the default.
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
    """The first source that names a value wins, for address and key apart; none is looked at in vain.

    A key from a profile or from `credentials.json` is shown only to the address beside it: no other host ever gets to
    see it. Raises NotConfiguredError with what to do.
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
        msg = f"no credentials: which API? {_HOW}"
        raise NotConfiguredError(msg)
    role = "an operator key" if operator else "a key"
    msg = f"no credentials: {address} needs {role}; {_HOW}"
    raise NotConfiguredError(msg)


def _sources(
    choice: Choice,
    operator: bool,  # noqa: FBT001 - passed on as it came
    environ: Mapping[str, str],
    directory: Path,
    profile_key: Callable[[Profile], str | None],
) -> Iterator[_Source]:
    """In their order. A profile that an option names comes before the environment: it was asked for just now."""
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
    """The profile of that name; None means the default one, an empty name means none."""
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
    """The address without a slash at its end. Raises NotConfiguredError for what is none."""
    address = address or ""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = f"{address!r} is not an address of an API: write it like http://127.0.0.1:8000"
        raise NotConfiguredError(msg)
    return address.rstrip("/")


def clean_key(key: str) -> str:
    """The key without space around it. Raises NotConfiguredError, which does not repeat it."""
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
