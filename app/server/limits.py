"""The protocol of the API's connections: httptools, with limits for slow senders and for endless headers."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.request_deadlines import RequestDeadlines

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(RequestDeadlines, HttpToolsProtocol):
    """One connection. httptools itself limits no headers."""

    header_bytes = 65_536

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._received = 0

    def data_received(self, data: bytes) -> None:
        """Count what comes before the headers are complete."""
        self.request_begins()
        self._received += len(data)
        super().data_received(data)
        if not self._in_request and self._received > self.header_bytes:
            self.refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request may begin in the same packet in which the one before ends."""
        super().on_message_begin()
        self.request_begins()

    def on_headers_complete(self) -> None:
        """The body may come."""
        super().on_headers_complete()
        self.headers_arrived()

    def on_message_complete(self) -> None:
        """The request is complete."""
        super().on_message_complete()
        self.request_arrived()
        self._received = 0
