"""A sender that takes its time, or sends endless headers, must not hold a connection and memory for nothing.

uvicorn bounds neither: without this a connection that never finishes its request stays for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Headers have to be complete `header_seconds` after they may come, the body after `request_seconds`."""

    header_seconds = 10.0
    request_seconds = 15.0
    header_bytes = 65_536

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._in_request = False
        self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The first request may come."""
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the headers are complete."""
        if self._deadline is None and not self._in_request:
            self._begin()
        self._received += len(data)
        super().data_received(data)
        if not self._in_request and self._received > self.header_bytes:
            self._refuse(TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The body may come."""
        self._in_request = True
        super().on_headers_complete()
        self._expect(max(self._due - self.loop.time(), 0.0))

    def on_message_complete(self) -> None:
        """The request is there; how long the answer takes is not the sender's fault."""
        super().on_message_complete()
        self._expect(None)
        self._due = self.loop.time() + self.request_seconds
        self._in_request = False
        self._received = 0

    def _begin(self) -> None:
        self._due = self.loop.time() + self.request_seconds
        self._expect(self.header_seconds)

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._refuse, TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        """A body that stalls ends without an answer if the application has begun one."""
        self._expect(None)
        if not self._in_request and not self.transport.is_closing():
            self.transport.write(answer)
        self.transport.close()
