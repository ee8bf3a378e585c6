"""A server on loopback that gives every request one prepared answer: what Azure's error answers look like."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Answer:
    """What the next requests get, each of `first` once before that; `asked` collects (method, path, Authorization, body)."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    first: list[tuple[int, bytes]] = field(default_factory=list)
    asked: list[tuple[str, str, str | None, bytes]] = field(default_factory=list)
    url: str = ""

    def error(self, code: str, status: int, message: str = "No.", **headers: str) -> None:
        """As Resource Manager writes it."""
        self.say(status, json.dumps({"error": {"code": code, "message": message}}), **headers)

    def json(self, document: Any, status: int = 200) -> None:
        self.say(status, json.dumps(document))

    def say(self, status: int, body: str, **headers: str) -> None:
        self.status, self.body = status, body.encode()
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def next(self) -> tuple[int, bytes]:
        return self.first.pop(0) if self.first else (self.status, self.body)


@contextmanager
def answering() -> Iterator[Answer]:
    """Runs the server; `Answer.url` says where."""
    answer = Answer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer.asked.append((self.command, self.path, self.headers.get("Authorization"), sent))
            status, payload = answer.next()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(payload)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        def do_GET(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *_: object, **_named: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    answer.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield answer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
