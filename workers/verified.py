"""An adapter whose requests are sent only with credentials that were verified: see `providers.credentials`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from workers.providers.credentials import CredentialsUnverified
from workers.providers.errors import OutcomeUnknown, Unreachable
from workers.providers.interfaces import Provider
from workers.providers.types import ListingPage

GUARDED = frozenset(
    {
        "offered",
        "service_quotas",
        "image",
        "launch",
        "find",
        "get",
        "ready",
        "interruptions",
        "terminate",
        "leftovers",
        "remove_leftover",
        "reboot",
        "console_output",
        "set_deadline",
    }
)
"""The interface's methods about VMs, besides `list`. Each may be repeated. Price lists and queues are other services."""


@contextmanager
def _unreachable_when_unverified() -> Iterator[None]:
    """The credentials changed again after they were verified: the provider counts as unreachable."""
    try:
        yield
    except CredentialsUnverified as error:
        raise Unreachable(str(error), code="Unverified") from error


class Verified:
    """Stands in for an adapter. `verify` asks for the account's identity, compares it and calls `trust`. Raises ProviderError.

    The first call verifies. A call whose credentials turn out to be others than the verified ones verifies them and is repeated.
    """

    def __init__(self, provider: Provider, verify: Callable[[], None]) -> None:
        self._provider = provider
        self._verify = verify
        self._lock = threading.Lock()
        self._times_verified = 0

    @classmethod
    def over(cls, provider: Provider, verify: Callable[[], None]) -> Provider:
        """The same adapter to all who use it."""
        return cast(Provider, cls(provider, verify))

    def __getattr__(self, name: str) -> Any:
        """Asked for once for each name: a guarded call is kept."""
        found = getattr(self._provider, name)
        if name in GUARDED:
            found = self._guarded(found)
            self.__dict__[name] = found
        return found

    def trust(self, identity: str) -> None:
        """Requests need credentials of this identity from now on."""
        self._provider.trust(identity)
        self._times_verified += 1

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """A listing breaks off when the credentials change after its first page."""

        def begin() -> tuple[Iterator[ListingPage], ListingPage | None]:
            pages = iter(self._provider.list(regions, installation))
            return pages, next(pages, None)

        pages, first = self._guarded(begin)()
        if first is not None:
            yield first
            with _unreachable_when_unverified():
                yield from pages

    def _guarded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **named: Any) -> Any:
            seen = self._times_verified
            if seen:
                try:
                    return call(*arguments, **named)
                except CredentialsUnverified:
                    pass
            self._verify_once(seen)
            with _unreachable_when_unverified():
                return call(*arguments, **named)

        return guarded

    def _verify_once(self, seen: int) -> None:
        """Not again when another thread has verified since `seen`. A question without an answer leaves the call unsent."""
        with self._lock:
            if self._times_verified != seen:
                return
            try:
                self._verify()
            except OutcomeUnknown as error:
                message = f"the identity of the credentials could not be verified: {error.message}"
                raise Unreachable(message, code=error.code) from error
