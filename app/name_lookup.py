"""What a host's name leads to, for those who are about to connect there: API and workers alike."""

import socket
import threading
from collections.abc import Callable

from app.domain.webhook_urls import RefusedUrl

Lookup = Callable[[str, int], list[str]]
"""Host and port -> addresses as text, the preferred first. Raises OSError, UnicodeError."""


def look_up(host: str, port: int) -> list[str]:
    """By the system's resolver; an address is its own answer."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


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
