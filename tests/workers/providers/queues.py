"""A server on loopback with one queue of messages, which speaks as SQS, as Pub/Sub and as Azure's storage queues do."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape


class Queue:
    """Messages by receipt: delivered until they are acknowledged. `asked`: what each request wanted, and its secret."""

    def __init__(self) -> None:
        self.url = ""
        self.waiting: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.silent = False
        self.refusing: set[str] = set()
        """Receipts of messages that are not deleted."""
        self.malformed = False
        self.closed = Event()

    def put(self, *texts: str) -> None:
        for text in texts:
            self.waiting[f"r{len(self.waiting) + 1}"] = text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    queue: Queue

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/gce/token":
            self._answer({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"})
            return
        document = json.loads(body)
        target = self.headers.get("X-Amz-Target", "").rpartition(".")[2] or self.path.rpartition(":")[2]
        self.queue.asked.append((target, self.headers.get("Authorization", "")))
        if self.queue.silent:
            self.queue.closed.wait(5)
            return
        orders = {
            "ReceiveMessage": self.receive,
            "DeleteMessageBatch": self.delete,
            "pull": self.pull,
            "acknowledge": self.acknowledge,
        }
        orders[target](document)

    def receive(self, asked: dict[str, Any]) -> None:
        assert asked["WaitTimeSeconds"] >= 1
        messages = [
            {"MessageId": r, "ReceiptHandle": r, "Body": text}
            for r, text in list(self.queue.waiting.items())[: asked["MaxNumberOfMessages"]]
        ]
        self._answer({"Messages": messages} if messages else {})

    def delete(self, asked: dict[str, Any]) -> None:
        assert len(asked["Entries"]) <= 10
        taken = [entry for entry in asked["Entries"] if entry["ReceiptHandle"] not in self.queue.refusing]
        failed = [entry for entry in asked["Entries"] if entry not in taken]
        for entry in taken:
            del self.queue.waiting[entry["ReceiptHandle"]]
        error = {"Code": "InternalError", "SenderFault": False, "Message": "not deleted"}
        self._answer(
            {
                "Successful": [{"Id": entry["Id"]} for entry in taken],
                "Failed": [{"Id": entry["Id"], **error} for entry in failed],
            }
        )

    def pull(self, _asked: dict[str, Any]) -> None:
        received = [
            {"ackId": r, "message": {"data": _base64(text), "messageId": r, "publishTime": "2026-01-01T00:00:00Z"}}
            for r, text in self.queue.waiting.items()
        ]
        self._answer({"receivedMessages": received} if received else {})

    def acknowledge(self, asked: dict[str, Any]) -> None:
        for receipt in asked["ackIds"]:
            del self.queue.waiting[receipt]
        self._answer({})

    def do_GET(self) -> None:
        self.queue.asked.append(("get", self.headers.get("Authorization", "")))
        messages = "".join(
            f"<QueueMessage><MessageId>{r}</MessageId><PopReceipt>{r}+/=</PopReceipt><DequeueCount>1</DequeueCount>"
            f"<MessageText>{escape(_base64(text))}</MessageText></QueueMessage>"
            for r, text in self.queue.waiting.items()
        )
        text = f'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>{messages}</QueueMessagesList>'
        self._write(200, "application/xml", b"<html>" if self.queue.malformed else text.encode())

    def do_DELETE(self) -> None:
        parts = urlsplit(self.path)
        receipt = parts.path.rpartition("/")[2]
        assert parse_qs(parts.query)["popreceipt"] == [f"{receipt}+/="]
        if receipt in self.queue.refusing:
            self._write(500, "application/xml", b"")
            return
        self._write(404 if self.queue.waiting.pop(receipt, None) is None else 204, "application/xml", b"")

    def log_message(self, *_: object, **_named: object) -> None:
        pass

    def _answer(self, document: Any) -> None:
        self._write(200, "application/json", json.dumps(document).encode())

    def _write(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@contextmanager
def running() -> Iterator[Queue]:
    """The queue, and where it is."""
    queue = Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"queue": queue}))
    queue.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield queue
    queue.closed.set()
    server.shutdown()
    thread.join()
    server.server_close()
