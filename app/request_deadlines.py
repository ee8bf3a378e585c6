"""The time that a sender has for a request. The API and `gpulease mcp --http` both serve HTTP with it.

uvicorn sets no limit: without this, a connection that never finishes its request stays open forever.
"""

import asyncio
from typing import TYPE_CHECKING, Any

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

if TYPE_CHECKING:

    class _Protocol:
        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport
        cycle: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def connection_made(self, transport: asyncio.Transport) -> None: ...
        def connection_lost(self, exc: Exception | None) -> None: ...

else:
    _Protocol = object


class RequestDeadlines(_Protocol):
    """The deadlines of one connection, as a base class before one of uvicorn's protocols.

    Headers have to be complete `header_seconds` after they may come, the body after `request_seconds`. The protocol calls
    `request_begins`, `headers_arrived` and `request_arrived`.
    """

    header_seconds = 10.0
    request_seconds = 15.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._in_request = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The first request may come."""
        super().connection_made(transport)
        self.request_begins()

    def connection_lost(self, exc: Exception | None) -> None:
        """No request is expected any more."""
        self._expect(None)
        super().connection_lost(exc)

    def request_begins(self) -> None:
        """The first bytes of a request may come, or came. The time of a request that has begun stays."""
        if self._deadline is None and not self._in_request:
            self._due = self.loop.time() + self.request_seconds
            self._expect(self.header_seconds)

    def headers_arrived(self) -> None:
        """The body may come."""
        if not self._in_request:
            self._in_request = True
            self._expect(max(self._due - self.loop.time(), 0.0))

    def request_arrived(self) -> None:
        """The request is complete. How long the answer takes is not the sender's fault."""
        self._expect(None)
        self._due = self.loop.time() + self.request_seconds
        self._in_request = False

    def refuse(self, answer: bytes) -> None:
        """Closes the connection. A body that stalls gets no answer, since the application may have begun one."""
        self._expect(None)
        if not self._in_request and not self.transport.is_closing():
            self.transport.write(answer)
        self.transport.close()

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        if self._in_request or self.cycle is None or self.cycle.response_complete:
            self.refuse(TOO_SLOW)
        else:  # a second request, while the sender still waits for the first answer
            self._deadline = None
            self.request_begins()
