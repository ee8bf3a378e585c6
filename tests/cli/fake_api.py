"""A gpulease API that keeps everything in memory and behaves by the HTTP contract: the other end of the command line.

It is a real HTTP server on a loopback port. What it must do next (move a lease on, break down) is scripted by the test;
what it was asked is recorded.
"""

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from app.cli.render import times
from tests.cli import contract

Json = dict[str, Any]

TENANT_KEY = "gpl_tenant_secret"
OPERATOR_KEY = "gpl_operator_secret"
TENANT_ID = "tenant_00000000000000000000000001"
NO_CONTENT = 204
ALL_PARTS: Json = {"currency": "USD", "covers": "compute_disk_address"}


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Json | None

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass(frozen=True)
class Answer:
    """One response; `drop` closes the connection instead, after the work is done."""

    status: int = 200
    body: Json | None = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    drop: bool = False


def problem(status: int, code: str, detail: str, **more: Any) -> Answer:
    body = {"type": f"/docs/errors#{code}", "title": code.replace("_", " "), "status": status, "detail": detail}
    headers = {"Content-Type": "application/problem+json", "X-Request-Id": "req-7"}
    return Answer(status, {**body, "code": code, "retryable": False, "errors": [], **more}, headers)


def a_lease(number: int = 1, **changes: Any) -> Json:
    """A lease as the contract has it, just queued."""
    return {
        "id": f"lease_{number:026}",
        "tenant_id": TENANT_ID,
        "name": f"train-{number}",
        "state": "queued",
        "desired": "run",
        "terminal": False,
        "reason": None,
        "request": {
            "gpu": {"model": "A100", "count": 8, "min_count": None},
            "market": "on_demand",
            "ttl_seconds": 28800,
        },
        "placement": None,
        "connection": None,
        "interruption": None,
        "labels": {},
        "key_id": "key_00000000000000000000000001",
        "attempts_count": 0,
        "cost": {"accrued": "0.00", "price_per_hour": None, "as_of": "2026-06-01T10:00:00Z", **ALL_PARTS},
        "estimate": {"price_per_hour": "21.96", "price_for_term": "175.68", **ALL_PARTS},
        "version": 1,
        "created_at": "2026-06-01T10:00:00Z",
        "running_at": None,
        "ready_at": None,
        "expires_at": "2026-06-01T18:00:00Z",
        "ends_at": "2026-06-01T18:00:00Z",
        "release_requested_at": None,
        "ended_at": None,
        "updated_at": "2026-06-01T10:00:00Z",
        **changes,
    }


PLACE: Json = {
    "provider": "aws",
    "account": "sim",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "instance_type": "p4d.24xlarge",
    "market": "spot",
    "gpu": {"model": "A100", "count": 8, "memory_gib": 40},
    "price_per_hour": "21.96",
}

PROVISIONING: Json = {"state": "provisioning", "attempts_count": 1, "updated_at": "2026-06-01T10:00:02Z"}
BOOTING: Json = {"state": "booting", "placement": PLACE, "running_at": "2026-06-01T10:00:30Z"}
ACTIVE: Json = {
    "state": "active",
    "ready_at": "2026-06-01T10:01:40Z",
    "connection": {"public_ip": "203.0.113.9", "ssh_command": "ssh ubuntu@203.0.113.9"},
    "cost": {"accrued": "1.25", "price_per_hour": "21.96", "as_of": "2026-06-01T10:02:00Z", **ALL_PARTS},
}
RELEASING: Json = {"state": "releasing", "release_requested_at": "2026-06-01T11:00:00Z", "connection": None}
RELEASED: Json = {"state": "released", "terminal": True, "ended_at": "2026-06-01T11:00:09Z"}
NO_CAPACITY: Json = {
    "state": "failed",
    "terminal": True,
    "ended_at": "2026-06-01T10:00:20Z",
    "reason": {"code": "capacity_exhausted", "message": "every offering refused", "origin": "provider"},
}
REFUSED_ATTEMPT: Json = {
    "n": 1,
    "offering": PLACE,
    "outcome": "refused",
    "error": {"class": "no_capacity", "code": "InsufficientInstanceCapacity", "message": "no p4d in us-east-1a"},
    "started_at": "2026-06-01T10:00:02Z",
    "ended_at": "2026-06-01T10:00:04Z",
}


class FakeApi:
    """The server's state and script. Change it between calls; read `asked` afterwards."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.faults: list[str] = []
        "Where requests or answers differ from openapi.json."
        self.next_answers: deque[Answer] = deque()
        self.leases: dict[str, Json] = {}
        self.attempts: dict[str, list[Json]] = {}
        self.events: list[Json] = []
        self.ssh_keys: list[Json] = [
            {
                "id": "sshkey_00000000000000000000000000",
                "name": "laptop",
                "default": True,
                "key_id": "key_00000000000000000000000001",
            }
        ]
        self.documents: dict[tuple[str, str], Json] = {}
        self.refusals: dict[tuple[str, str], Answer] = {}
        self.page_size = 200
        self.new_course: tuple[Json, ...] = ()
        self._course: dict[str, deque[Json]] = {}
        self._created: dict[str, Json] = {}
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def add(self, lease: Json, *course: Json, attempts: Iterable[Json] = ()) -> Json:
        """A lease that makes one of these changes each time somebody has looked at it."""
        self.leases[lease["id"]] = lease
        self._course[lease["id"]] = deque(course)
        self.attempts[lease["id"]] = list(attempts)
        return lease

    def calls(self, method: str, path: str) -> list[Asked]:
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Answer requests at the same port as the last time, if there was one."""
        handler = type("Handler", (_Handler,), {"api": self})
        with ThreadingHTTPServer(("127.0.0.1", self._port), handler) as server:
            self._port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield self.url
            finally:
                server.shutdown()
                thread.join()

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        self.faults += contract.request_faults(asked.method, asked.path, asked.query, asked.body)
        answer = self._answer(asked)
        if answer.body is not None:
            self.faults += contract.response_faults(asked.method, asked.path, answer.status, answer.body)
        return answer

    def _answer(self, asked: Asked) -> Answer:
        scripted = self.next_answers.popleft() if self.next_answers else None
        if scripted is not None and not scripted.drop:
            return scripted
        done = self.refusals.get((asked.method, asked.path)) or self._work(asked)
        return scripted if scripted is not None else done

    def _work(self, asked: Asked) -> Answer:
        if asked.key not in {TENANT_KEY, OPERATOR_KEY}:
            return problem(401, "unauthenticated", "no such key")
        fixed = self.documents.get((asked.method, asked.path))
        if fixed is not None:
            status = contract.success_status(asked.method, asked.path)
            return (
                _conditional(fixed, asked)
                if asked.method == "GET"
                else Answer(status, fixed if status != NO_CONTENT else None)
            )
        parts = asked.path.strip("/").split("/")
        if parts[:2] == ["v1", "leases"]:
            return self._lease_call(asked, parts[2:])
        if parts[:2] == ["v1", "ssh-keys"]:
            return self._ssh_key_call(asked, parts[2:])
        if parts[:2] == ["v1", "events"]:
            return self._stream(asked) if parts[2:] == ["stream"] else self._events(asked)
        return problem(404, "not_found", f"nothing at {asked.path}")

    def _ssh_key_call(self, asked: Asked, rest: list[str]) -> Answer:
        if asked.method == "GET":
            return Answer(200, {"items": list(self.ssh_keys), "next_cursor": None})
        if asked.method == "POST":
            return self._store_ssh_key(asked.body or {})
        (key,) = [key for key in self.ssh_keys if [key["id"]] == rest]
        if asked.method == "DELETE":
            self.ssh_keys.remove(key)
            return Answer(204)
        key.update(asked.body or {})
        return Answer(200, key)

    def _store_ssh_key(self, body: Json) -> Answer:
        if any(key["name"] == body["name"] for key in self.ssh_keys):
            return problem(409, "name_taken", f"The tenant has an SSH key named {body['name']}.")
        made = {
            "id": f"sshkey_{len(self.ssh_keys):026}",
            "fingerprint": "SHA256:abc",
            "key_id": "key_00000000000000000000000001",
            **body,
        }
        self.ssh_keys.append(made)
        return Answer(201, made)

    def _events(self, asked: Asked, lease_id: str | None = None) -> Answer:
        after = int(asked.query.get("cursor", asked.query.get("after", ["0"]))[0])
        mine = [event for event in self.events if event["sequence"] > after and lease_id in {None, event["lease_id"]}]
        if asked.query.get("sort") == ["-created_at"]:
            mine.reverse()
        items = mine[: int(asked.query["limit"][0])]
        cursor = str(items[-1]["sequence"]) if len(items) < len(mine) else None
        return Answer(200, {"items": items, "next_cursor": cursor})

    def _stream(self, asked: Asked) -> Answer:
        """Server-sent events after the last one that was received. The connection ends after them."""
        after = int(asked.headers.get("last-event-id", "0"))
        newer = [e for e in self.events if e["sequence"] > after]
        parts = [f"id: {e['sequence']}\nevent: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in newer]
        content = f"id: {after}\n\n: comment\n\n" + "".join(parts)
        return Answer(200, None, {"Content-Type": "text/event-stream"}, raw=content.encode())

    def _lease_call(self, asked: Asked, rest: list[str]) -> Answer:
        if not rest:
            return self._create(asked) if asked.method == "POST" else self._list(asked)
        if (asked.method, rest) == ("POST", ["release"]):
            return self._release(asked.body or {})
        if rest[0] not in self.leases:
            return problem(404, "not_found", "no such lease")
        if rest[1:] == ["events"]:
            return self._events(asked, rest[0])
        return self._one(asked, self.leases[rest[0]], rest[1:])

    def _release(self, body: Json) -> Answer:
        found = [self.leases[lease_id] for lease_id in body["ids"] if lease_id in self.leases]
        items: list[Json] = [
            {
                **{name: lease[name] for name in ("id", "tenant_id", "name")},
                "state": lease["state"] if lease["terminal"] else "releasing",
                "released": not lease["terminal"] and lease["state"] != "releasing",
            }
            for lease in found
        ]
        for item in items:
            self.leases[item["id"]] |= RELEASING if item["released"] else {}
        missing = sorted(set(body["ids"]) - self.leases.keys())
        released = sum(item["released"] for item in items)
        answer = {"dry_run": False, "released": released, "items": items, "not_found": missing, "more": False}
        return Answer(200, answer)

    def _one(self, asked: Asked, lease: Json, rest: list[str]) -> Answer:
        match asked.method, rest:
            case "GET", []:
                return self._look(lease["id"], asked)
            case "GET", ["attempts"]:
                return _conditional({"items": self.attempts[lease["id"]], "next_cursor": None}, asked)
            case "POST", ["extend"]:
                return Answer(200, self._extended(lease, asked.body or {}))
            case "POST", ["keep" | "reboot" as action]:
                return Answer(200 if action == "keep" else 202, lease)
            case "PATCH" | "DELETE", []:
                lease |= (asked.body or {}) if asked.method == "PATCH" else RELEASING
                return Answer(200 if asked.method == "PATCH" else 202, lease)
        return problem(404, "not_found", f"nothing at {asked.path}")

    @staticmethod
    def _extended(lease: Json, body: Json) -> Json:
        by = timedelta(seconds=body.get("extend_by_seconds", 0))
        until = datetime.fromisoformat(body.get("expires_at") or lease["expires_at"]) + by
        return {**lease, "expires_at": times.rfc3339(until), "ends_at": times.rfc3339(until)}

    def _create(self, asked: Asked) -> Answer:
        key = asked.headers["idempotency-key"]
        if key in self._created:
            return Answer(201, self._created[key], {"Idempotency-Replayed": "true"})
        body = asked.body or {}
        number = len(self.leases) + 1
        own = {name: body[name] for name in ("max_cost", "quote_id", "expiry_warnings_seconds") if name in body}
        request = {name: value for name, value in body.items() if name not in {"tenant_id", *own}}
        lease = a_lease(number, name=body.get("name") or f"lease-{number}", request=request, **own)
        self._created[key] = self.add(lease, *self.new_course)
        return Answer(201, lease)

    def _look(self, lease_id: str, asked: Asked) -> Answer:
        answer = _conditional(self.leases[lease_id], asked)
        if self._course[lease_id]:
            changed = {**self.leases[lease_id], **self._course[lease_id].popleft()}
            self.leases[lease_id] = {**changed, "version": changed["version"] + 1}
        return answer

    def _list(self, asked: Asked) -> Answer:
        live_only = asked.query.get("state") == ["!terminal"]
        labels = dict(label.split(":", 1) for label in asked.query.get("label", ()))
        found = [
            lease
            for lease in self.leases.values()
            if not (live_only and lease["terminal"]) and labels.items() <= lease["labels"].items()
        ]
        start = int(asked.query.get("cursor", ["0"])[0])
        end = start + min(self.page_size, int(asked.query.get("limit", ["50"])[0]))
        return Answer(200, {"items": found[start:end], "next_cursor": str(end) if end < len(found) else None})


def _conditional(document: Json, asked: Asked) -> Answer:
    essence = {name: value for name, value in document.items() if name != "cost"}
    etag = f'"{hash(json.dumps(essence, sort_keys=True))}"'
    if asked.headers.get("if-none-match") == etag:
        return Answer(304, None, {"ETag": etag})
    return Answer(200, document, {"ETag": etag})


class _Handler(BaseHTTPRequestHandler):
    api: ClassVar[FakeApi]

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.api.answer(Asked(self.command, url.path, parse_qs(url.query), headers, body))
        if not answer.drop:
            self._write(answer)

    def _write(self, answer: Answer) -> None:
        content = answer.raw or (json.dumps(answer.body).encode() if answer.body is not None else b"")
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's own name
        """Requests are recorded, not printed."""
