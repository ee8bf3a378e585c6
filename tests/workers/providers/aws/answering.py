"""A server on loopback that gives every request one prepared answer: what AWS's error answers look like."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Answer:
    """What the next requests get; `bodies` collects what they sent."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[str] = field(default_factory=list)
    url: str = ""

    def ec2(self, code: str, status: int = 400, message: str = "No.", **headers: str) -> None:
        """An error as EC2 writes it."""
        error = f"<Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        self.say(status, f"<Response>{error}<RequestID>r-1</RequestID></Response>", **headers)

    def sts(self, code: str, status: int = 403, message: str = "No.") -> None:
        """An error as STS writes it."""
        error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        self.say(status, f"<ErrorResponse>{error}<RequestId>r-1</RequestId></ErrorResponse>")

    def json(self, code: str, status: int = 400, message: str = "No.") -> None:
        """An error as SSM and Service Quotas write it."""
        self.say(status, json.dumps({"__type": code, "message": message}))

    def say(self, status: int, body: str, **headers: str) -> None:
        self.status, self.body = status, body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def answering() -> Iterator[Answer]:
    """Runs the server; `Answer.url` says where."""
    answer = Answer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            answer.bodies.append(self.rfile.read(length).decode())
            payload = answer.body.encode()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(payload))}.items():
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
