"""A server on loopback that gives every request one prepared answer, and access tokens to whoever asks."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKEN = "an-access-token-that-must-never-be-shown"


@dataclass
class Answer:
    """What the next requests get; `calls` collects them."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    token_status: int = 200
    token_body: str = json.dumps({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
    tokens: int = 0
    url: str = ""

    def error(self, status: int, reason: str, message: str = "No.", **headers: str) -> None:
        """An error as Compute Engine answers it."""
        listed = [{"message": message, "domain": "global", "reason": reason}] if reason else []
        self.json({"error": {"code": status, "message": message, "errors": listed}}, status, **headers)

    def operation(self, *codes: str, **more: Any) -> None:
        """An operation, ended with these codes."""
        body = {"kind": "compute#operation", "name": "operation-1", "status": "DONE", "targetId": "1234", **more}
        if codes:
            body["error"] = {"errors": [{"code": code, "message": f"About {code}."} for code in codes]}
        self.json(body)

    def json(self, body: Any, status: int = 200, **headers: str) -> None:
        self.say(status, json.dumps(body), **headers)

    def say(self, status: int, body: str, **headers: str) -> None:
        self.status, self.body = status, body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def answering() -> Iterator[Answer]:
    """Runs the server; `Answer.url` says where."""
    answer = Answer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/gce/token":
                answer.tokens += 1
                self._say(answer.token_status, answer.token_body, {})
            else:
                answer.calls.append(f"{self.command} {self.path}")
                self._say(answer.status, answer.body, answer.headers)

        do_GET = do_POST = do_DELETE = handle_one  # noqa: N815  names that the base looks for

        def _say(self, status: int, body: str, headers: dict[str, str]) -> None:
            payload = body.encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(payload))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

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
