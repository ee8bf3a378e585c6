"""A proxy that loses answers, and the small API behind it.

The API key of a request is a case, `gpl_DOOR-FAULT-N`: the first N changes of the case meet the fault.
"""

import json
import socket
import socketserver
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from tests.harness.databases import ROOT

Json = dict[str, Any]
HTML = b"<html><body><h1>Bad Gateway</h1></body></html>"


@dataclass
class Case:
    """What has happened for one API key."""

    keys: list[str] = field(default_factory=list)
    "The idempotency key of each try."
    leases: dict[str, Json] = field(default_factory=dict)
    "By idempotency key."
    deletes: int = 0
    deleted: bool = False
    faults: int = 0
    "Those that are over."


def _nothing(_: socket.socket, __: bytes) -> None:
    """The connection ends without an answer."""


def _reset(connection: socket.socket, _: bytes) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _half(connection: socket.socket, answer: bytes) -> None:
    connection.sendall(answer[: -(len(answer) - answer.index(b"\r\n\r\n")) // 2])


def _half_without_length(connection: socket.socket, answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
    connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body[: len(body) // 2])


def _head_alone(connection: socket.socket, answer: bytes) -> None:
    connection.sendall(answer[: answer.index(b"\r\n\r\n") + 4])


def _slow(connection: socket.socket, _: bytes) -> None:
    """No answer for as long as the client keeps the connection."""
    connection.settimeout(60)
    with suppress(OSError):
        connection.recv(1)


def _page(status: int) -> Callable[[socket.socket, bytes], None]:
    return lambda connection, _: connection.sendall(_message(status, HTML, "text/html"))


FAULTS: dict[str, Callable[[socket.socket, bytes], None]] = {
    "before": _nothing,
    "after": _nothing,
    "reset": _reset,
    "half": _half,
    "cut": _half_without_length,
    "head": _head_alone,
    "500": _page(500),
    "502": _page(502),
    "503": _page(503),
    "504": _page(504),
    "200": _page(200),
    "slow": _slow,
}
"`before`: the request does not reach the API. All others: it is carried out."
NOT_REPEATED = {"200"}
"A success with a page of HTML: nobody knows who answered."


class LossyApi:
    """The address, and what has happened."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cases: defaultdict[str, Case] = defaultdict(Case)

    def answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[str | None, bytes]:
        """The fault to play, if any, and the answer of the API."""
        case = self.cases[headers["authorization"].removeprefix("Bearer ")]
        _, fault, count = headers["authorization"].rsplit("-", 2)
        if method == "POST":
            case.keys.append(headers["idempotency-key"])
        case.deletes += method == "DELETE"
        lost = method != "GET" and case.faults < int(count)
        case.faults += lost
        if lost and fault == "before":
            return fault, b""
        return (fault if lost else None), self._work(case, method, path, headers)

    @staticmethod
    def _work(case: Case, method: str, path: str, headers: dict[str, str]) -> bytes:
        if method == "DELETE":
            done, case.deleted = case.deleted, True
            problem = {"code": "not_found", "status": 404, "title": "Not found", "detail": "no", "errors": []}
            return _message(404, _json(problem), "application/problem+json") if done else _message(204, b"")
        if method == "POST":
            key = headers["idempotency-key"]
            replayed = key in case.leases
            lease = case.leases.setdefault(key, example("/v1/leases", "post", "201") | {"state": "queued"})
            return _message(201, _json(lease), **({"Idempotency-Replayed": "true"} if replayed else {}))
        if path == "/v1/me":
            return _message(200, _json(example("/v1/me", "get", "200")))
        if path.startswith("/v1/leases/"):
            return _message(200, _json(next(iter(case.leases.values()))))
        return _message(200, _json({"items": [], "next_cursor": None}))


@cache
def _description() -> Json:
    description: Json = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    return description


def example(path: str, method: str, status: str) -> Json:
    """The example of an answer in openapi.json."""
    description = _description()
    content = description["paths"][path][method]["responses"][status]["content"]["application/json"]
    [answer] = description["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]["examples"]
    return dict(answer)


@contextmanager
def lossy_api() -> Iterator[LossyApi]:
    """Serves on a port of the loopback."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        _Handler.api = LossyApi(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield _Handler.api
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64


class _Handler(socketserver.BaseRequestHandler):
    api: ClassVar[LossyApi]

    def handle(self) -> None:
        """One request for each connection."""
        connection: socket.socket = self.request
        read = b""
        while b"\r\n\r\n" not in read:
            chunk = connection.recv(65536)
            if not chunk:
                return
            read += chunk
        head, _, body = read.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        chunked = headers.get("transfer-encoding") == "chunked"
        while not body.endswith(b"0\r\n\r\n") if chunked else len(body) < int(headers.get("content-length", "0")):
            body += connection.recv(65536)
        method, path, _ = first.split(" ")
        fault, answer = self.api.answer(method, path.partition("?")[0], headers)
        if fault is None:
            connection.sendall(answer)
        else:
            FAULTS[fault](connection, answer)


def _json(document: Json) -> bytes:
    return json.dumps(document).encode()


def _message(status: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    fields = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} -\r\n{head}\r\n".encode() + body
