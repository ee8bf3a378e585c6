"""A webhook's receiver on loopback, which answers as it is told."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app.local.waiting import wait_until


@dataclass(frozen=True)
class Got:
    """A message as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver:
    """`answer(got)` is the status of each answer. `release` lets those go that a slow answer keeps."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answer: Callable[[Got], int] = lambda _: 204
        self.headers: dict[str, str] = {}
        self.release = threading.Event()
        self.url = ""

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.got]

    def hang(self, _got: Got) -> int:
        """An answer that comes when the test is over, or `release` is set."""
        self.release.wait(60)
        return 204

    def hang_with(self, status: int) -> Callable[[Got], int]:
        """As `hang`, with another status."""
        return lambda got: self.hang(got) and status

    def wait_for(self, count: int) -> None:
        assert wait_until(lambda: len(self.got) >= count, timeout=20), (count, len(self.got))


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that listens; with `tls`, to https."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = Got(self.path, headers, body)
            receiver.got.append(got)
            self.send_response(receiver.answer(got))
            for name, value in {"Content-Length": "0", **receiver.headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object, **_named: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object, **_named: object) -> None:
            """Who hung up is not answered."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield receiver
    finally:
        receiver.release.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
