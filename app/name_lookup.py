"""What a host's name leads to, for those who are about to connect there: API and workers alike."""

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable

from app.domain.webhooks.urls import RefusedUrl

Lookup = Callable[[str, int], list[str]]
"""Host and port -> addresses as text, the preferred first. Raises OSError, UnicodeError."""


def look_up(host: str, port: int) -> list[str]:
    """By the system's resolver; an address is its own answer."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def within(seconds: float, lookup: Lookup, host: str, port: int) -> list[str]:
    """The same, but not longer than `seconds`: the system's resolver knows no time-out. Raises RefusedUrl."""
    answer: list[list[str] | Exception] = []

    def ask() -> None:
        try:
            answer.append(lookup(host, port))
        except (OSError, UnicodeError) as error:
            answer.append(error)

    thread = threading.Thread(target=ask, name="name-lookup", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answer:
        raise RefusedUrl("has a host that was not resolved in time")
    if isinstance(answer[0], Exception):
        raise RefusedUrl("has a host that cannot be resolved")
    return answer[0]


class TooManyLookups(Exception):
    """The API runs as many look-ups as it may, of one identity or in all."""


class LookupPool:
    """The API's look-ups. Each has a thread of its own: a stranger's name server decides how long it runs.

    At most `each` run for one identity and `total` in all. One that the caller no longer waits for counts until it ends.
    """

    def __init__(self, *, each: int = 16, total: int = 256) -> None:
        self._each = each
        self._total = total
        self._running: Counter[str] = Counter()

    async def look_up(self, identity: str, seconds: float, lookup: Lookup, host: str, port: int) -> list[str]:
        """The same as `within`. Raises RefusedUrl, TooManyLookups."""
        if self._running[identity] >= self._each or self._running.total() >= self._total:
            raise TooManyLookups
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str] | None] = loop.create_future()
        self._running[identity] += 1

        def ask() -> None:
            addresses: list[str] | None = None
            try:
                addresses = lookup(host, port)
            except (OSError, UnicodeError):
                pass
            finally:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self._end, identity, answer, addresses)

        threading.Thread(target=ask, name="name-lookup", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                addresses = await answer
        except TimeoutError:
            raise RefusedUrl("has a host that was not resolved in time") from None
        if addresses is None:
            raise RefusedUrl("has a host that cannot be resolved")
        return addresses

    def _end(self, identity: str, answer: asyncio.Future[list[str] | None], addresses: list[str] | None) -> None:
        """`addresses` None: the name cannot be resolved."""
        self._running[identity] -= 1
        if not self._running[identity]:
            del self._running[identity]
        if not answer.done():
            answer.set_result(addresses)
