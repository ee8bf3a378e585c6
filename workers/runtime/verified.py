"""An adapter that sends requests only with verified credentials: see `providers.credentials`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from workers.providers.credentials import CredentialsUnverified
from workers.providers.errors import OutcomeUnknown, Unreachable
from workers.providers.ports import CALLS, Provider
from workers.providers.types import ListingPage
from workers.runtime.permits import without_permit

_VERIFIED = frozenset(name for name, call in CALLS.items() if call.verified)
"""`list` is verified at its first page. Price lists and queues are other services."""


@contextmanager
def _unreachable_when_unverified() -> Iterator[None]:
    """The credentials changed again after they were verified: the provider counts as unreachable."""
    try:
        yield
    except CredentialsUnverified as error:
        raise Unreachable(str(error), code="Unverified") from error


class VerifyingProvider:
    """Wraps an adapter. `verify` reads the account's identity, compares it and calls `trust`. Raises ProviderError.

    The first call verifies the credentials. When the credentials of a later call differ from the verified ones, the
    call verifies them and is repeated.
    """

    def __init__(self, provider: Provider, verify: Callable[[], None]) -> None:
        self._provider = provider
        self._verify = verify
        self._lock = threading.Lock()
        self._times_verified = 0

    @classmethod
    def over(cls, provider: Provider, verify: Callable[[], None]) -> Provider:
        """Wraps `provider`. Callers use the result like the adapter itself."""
        return cast(Provider, cls(provider, verify))

    def __getattr__(self, name: str) -> Any:
        """An attribute of the adapter. A guarded method is wrapped once and cached on the instance."""
        attribute = getattr(self._provider, name)
        if name in _VERIFIED:
            attribute = self._guarded(attribute)
            self.__dict__[name] = attribute
        return attribute

    def trust(self, identity: str) -> None:
        """Requests need credentials of this identity from now on."""
        self._provider.trust(identity)
        self._times_verified += 1

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Lists as the adapter does. The listing fails when the credentials change after its first page."""

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
            with without_permit():
                return self._call(call, *arguments, **named)

        return guarded

    def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        seen = self._times_verified
        if seen:
            try:
                return call(*arguments, **named)
            except CredentialsUnverified:
                pass
        self._verify_once(seen)
        with _unreachable_when_unverified():
            return call(*arguments, **named)

    def _verify_once(self, seen: int) -> None:
        """Verifies, unless another thread has verified since `seen`. Without an answer the call is not sent."""
        with self._lock:
            if self._times_verified != seen:
                return
            try:
                self._verify()
            except OutcomeUnknown as error:
                message = f"the identity of the credentials could not be verified: {error.message}"
                raise Unreachable(message, code=error.code) from error
