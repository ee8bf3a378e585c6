"""The layer of the Python client over scripted responses: retries, errors by code, waits, pages, streams."""

import json
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx
import pytest

from app.services.errors import every_error
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.harness.databases import ROOT

REQUEST = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}
Answer = httpx.Response | Exception


class Script:
    """A transport that gives these answers in turn, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def problem(status: int, code: str, retry_after: str | None = "0") -> httpx.Response:
    document = {"code": code, "status": status, "title": "No", "detail": "no", "request_id": "req_1", "limit": 8}
    return httpx.Response(status, json=document, headers={"Retry-After": retry_after} if retry_after else {})


@pytest.fixture
async def lease(alice: Caller, fleet: Fleet) -> dict[str, Any]:
    """A queued lease as the API shows it."""
    made = await alice.post("/v1/leases", json=REQUEST)
    assert made.status_code == 201, made.text
    document: dict[str, Any] = made.json()
    return document


@pytest.fixture
def connect(gpulease_client: ModuleType) -> Callable[[Script], Any]:
    """A client over a script, which does not sleep between attempts."""

    def connected(script: Script) -> Any:
        retries = gpulease_client.Retries(attempts=3, first_pause=0.0)
        return gpulease_client.Client("http://api.test", "key", retries=retries, transport=script.transport)

    return connected


def lost() -> Exception:
    return httpx.ReadError("connection reset")


def refused() -> Exception:
    return httpx.ConnectError("connection refused")


def test_a_create_is_repeated_with_the_same_key(connect: Callable[[Script], Any], lease: dict[str, Any]) -> None:
    script = Script(problem(503, "database_unavailable"), lost(), httpx.Response(201, json=lease))
    made = connect(script).leases.create(**REQUEST, labels={"team": "vision"})
    assert made.id == lease["id"]
    assert len({request.headers["Idempotency-Key"] for request in script.requests}) == 1
    assert {request.content for request in script.requests} == {script.requests[0].content}
    assert json.loads(script.requests[0].content) == {**REQUEST, "labels": {"team": "vision"}}


def test_a_request_is_an_object_a_mapping_or_arguments(
    gpulease_client: ModuleType, connect: Callable[[Script], Any], lease: dict[str, Any]
) -> None:
    request = gpulease_client.models.NewLease.from_dict(REQUEST)
    script = Script(*(httpx.Response(201, json=lease) for _ in range(3)))
    with connect(script) as client:
        client.leases.create(request, idempotency_key="mine")
        client.leases.create({"gpu": request.gpu}, ttl_seconds=3600)
        client.leases.create(gpu={"model": "A10G"}, ttl_seconds=3600)
    bodies = [json.loads(request.content) for request in script.requests]
    assert [(body["gpu"]["model"], body["ttl_seconds"]) for body in bodies] == [("A10G", 3600)] * 3
    assert script.requests[0].headers["Idempotency-Key"] == "mine"


def test_what_is_not_safe_is_sent_once(gpulease_client: ModuleType, connect: Callable[[Script], Any]) -> None:
    for outcome, error in (
        (lost(), gpulease_client.UnreachableError),
        (problem(503, "database_unavailable"), gpulease_client.problems.DatabaseUnavailable),
    ):
        script = Script(outcome)
        with pytest.raises(error):
            connect(script).leases.update("lease_1", name="x")
        assert len(script.requests) == 1


def test_a_connection_has_at_most_five_seconds(gpulease_client: ModuleType, connect: Callable[[Script], Any]) -> None:
    script = Script(problem(422, "invalid_request"))
    with pytest.raises(gpulease_client.problems.InvalidRequest):
        connect(script).leases.get("lease_1")
    (asked,) = script.requests
    assert asked.extensions["timeout"] == {"connect": 5.0, "read": 60.0, "write": 60.0, "pool": 60.0}


def test_what_had_no_effect_is_repeated(connect: Callable[[Script], Any], lease: dict[str, Any]) -> None:
    script = Script(refused(), problem(429, "rate_limited"), httpx.Response(200, json=lease))
    assert connect(script).leases.update(lease["id"], name="x").id == lease["id"]


def test_attempts_have_an_end(gpulease_client: ModuleType, connect: Callable[[Script], Any]) -> None:
    script = Script(*(problem(503, "too_many_streams") for _ in range(3)))
    with pytest.raises(gpulease_client.problems.TooManyStreams):
        connect(script).leases.get("lease_1")
    with pytest.raises(gpulease_client.UnreachableError, match="connection refused"):
        connect(Script(refused(), refused(), refused())).leases.get("lease_1")


def test_retry_after_is_the_pause_unless_it_is_too_long(gpulease_client: ModuleType) -> None:
    retries = gpulease_client.Retries(attempts=3, longest_pause=60)
    read = httpx.Request("GET", "http://api.test/v1/leases")
    assert retries.after_response(read, problem(429, "rate_limited", "17"), 1) == 17
    assert retries.after_response(read, problem(429, "rate_limited", "61"), 1) is None
    assert retries.after_response(read, problem(429, "rate_limited", "17"), 3) is None
    assert 0.5 <= retries.after_response(read, problem(503, "database_unavailable", None), 2) <= 1


def test_a_conflict_is_repeated_only_while_the_same_key_is_in_progress(gpulease_client: ModuleType) -> None:
    retries = gpulease_client.Retries()
    create = httpx.Request("POST", "http://api.test/v1/leases", headers={"Idempotency-Key": "mine"})
    assert retries.after_response(create, problem(409, "idempotency_in_flight"), 1) == 0
    assert retries.after_response(create, problem(409, "quota_exceeded"), 1) is None


def test_every_code_has_a_class_and_new_codes_are_the_base(
    gpulease_client: ModuleType, connect: Callable[[Script], Any]
) -> None:
    problems = gpulease_client.problems
    assert problems.BY_CODE.keys() == {error.code for error in every_error()}
    with pytest.raises(problems.QuotaExceeded) as caught:
        connect(Script(problem(409, "quota_exceeded"))).leases.create(**REQUEST)
    assert (caught.value.code, caught.value.status, caught.value.members) == ("quota_exceeded", 409, {"limit": 8})
    with pytest.raises(gpulease_client.ApiError) as unknown:
        connect(Script(problem(409, "moon_phase"))).leases.create(**REQUEST)
    assert type(unknown.value) is gpulease_client.ApiError
    with pytest.raises(gpulease_client.UnexpectedResponseError):
        connect(Script(httpx.Response(404, text="<html>"))).leases.get("lease_1")


def test_a_wait_reports_changes_and_ends(
    gpulease_client: ModuleType, connect: Callable[[Script], Any], lease: dict[str, Any]
) -> None:
    active = {**lease, "state": "active", "version": 9}
    failed = {**lease, "state": "failed", "version": 9, "terminal": True}
    states: list[str] = []
    script = Script(*(httpx.Response(200, json=one) for one in (lease, lease, active)))
    connect(script).leases.wait(lease["id"], on_change=lambda one: states.append(str(one.state)))
    assert states == ["queued", "active"]
    assert dict(script.requests[1].url.params) == {"poll_seconds": "25", "if_version": str(lease["version"])}
    with pytest.raises(gpulease_client.LeaseEndedError):
        connect(Script(httpx.Response(200, json=failed))).leases.wait(lease["id"])
    assert connect(Script(httpx.Response(200, json=failed))).leases.wait(lease["id"], "ended").terminal
    by_version = Script(*(httpx.Response(200, json={**lease, "version": n}) for n in (1, 2, 3)))
    assert connect(by_version).leases.wait(lease["id"], lambda one: one.version == 3).version == 3
    with pytest.raises(TimeoutError):
        connect(Script(httpx.Response(200, json=lease))).leases.wait(lease["id"], timeout=0)


def test_a_temporary_lease_is_released_after_an_error(connect: Callable[[Script], Any], lease: dict[str, Any]) -> None:
    active = {**lease, "state": "active"}
    script = Script(httpx.Response(201, json=active), httpx.Response(202, json=lease))
    with pytest.raises(ZeroDivisionError), connect(script).leases.temporary(**REQUEST):
        raise ZeroDivisionError
    assert (script.requests[-1].method, script.requests[-1].url.path) == ("DELETE", f"/v1/leases/{lease['id']}")


async def test_the_twin_does_the_same(gpulease_client: ModuleType, lease: dict[str, Any]) -> None:
    page = {"items": [lease], "next_cursor": "c2"}
    script = Script(
        problem(503, "database_unavailable"),
        httpx.Response(200, json=page),
        lost(),
        httpx.Response(200, json={**page, "next_cursor": None}),
    )
    retries = gpulease_client.Retries(first_pause=0.0)
    async with gpulease_client.AsyncClient(
        "http://api.test", "key", retries=retries, transport=script.transport
    ) as one:
        assert [found.id async for found in one.leases.list(state=["queued"], limit=1)] == [lease["id"]] * 2
    assert [request.url.params.get("cursor") for request in script.requests] == [None, None, "c2", "c2"]


def test_keys_usage_and_bulk_release_have_methods(connect: Callable[[Script], Any]) -> None:
    key = {
        "id": "sshkey_1",
        "name": "laptop",
        "public_key": "ssh-ed25519 A",
        "fingerprint": "SHA256:a",
        "default": True,
    }
    key |= {"key_id": None, "tenant_id": "tenant_1", "created_at": "2026-11-23T00:00:00Z"}
    released = {"items": [], "dry_run": False, "not_found": [], "released": 0, "more": False}
    script = Script(
        httpx.Response(201, json=key),
        httpx.Response(200, json={"items": [key], "next_cursor": None}),
        httpx.Response(204),
        httpx.Response(200, json=released),
    )
    client = connect(script)
    assert client.ssh_keys.create(name="laptop", public_key="ssh-ed25519 A").name == "laptop"
    assert [one.id for one in client.ssh_keys.list(mine=True)] == ["sshkey_1"]
    client.ssh_keys.delete("sshkey_1")
    assert client.leases.release_many(label=["team:vision"]).to_dict() == released
    assert json.loads(script.requests[-1].content) == {"label": ["team:vision"]}
    with pytest.raises(IndexError):  # the script is over: only the query counts
        client.usage.get(start="2026-11-01T00:00:00Z", step="day")
    assert dict(script.requests[-1].url.params) == {"from": "2026-11-01T00:00:00Z", "step": "day"}


def test_volumes_have_methods(connect: Callable[[Script], Any]) -> None:
    recorded = json.loads((ROOT / "app" / "api" / "openapi" / "examples.json").read_text(encoding="utf-8"))
    volume = recorded["responses"]["Volume"]
    script = Script(
        httpx.Response(201, json=volume),
        httpx.Response(200, json=volume),
        httpx.Response(200, json={"items": [volume], "next_cursor": None}),
        httpx.Response(202, json={**volume, "state": "deleting"}),
    )
    client = connect(script)
    place = {"account": "main", "region": "us-east-1", "zone": "us-east-1a"}
    assert client.volumes.create(name="data", size_gib=500, **place).id == volume["id"]
    assert client.volumes.get(volume["id"]).name == volume["name"]
    assert [one.id for one in client.volumes.list(state=["available"])] == [volume["id"]]
    assert client.volumes.delete(volume["id"]).state == "deleting"
    assert json.loads(script.requests[0].content) == {"name": "data", "size_gib": 500, **place}


def test_a_stream_goes_on_after_the_last_event_when_its_connection_breaks(
    connect: Callable[[Script], Any],
) -> None:
    event: dict[str, Any] = {
        "id": "event_1",
        "tenant_id": "t",
        "lease_id": None,
        "lease_sequence": None,
        "request_id": None,
    }
    event |= {"type": "lease.active", "data": {}, "created_at": "2026-11-23T00:00:00Z"}

    def frame(sequence: int) -> str:
        return f"id: {sequence}\ndata: {json.dumps({**event, 'sequence': sequence})}\n\n"

    script = Script(
        httpx.Response(200, text=f"retry: 0\n\n: still here\n\n{frame(7)}id: 8\ndata: {{"),
        lost(),
        httpx.Response(200, text=frame(8)),
    )
    stream = connect(script).events.stream(after=6, lease_id="lease_1")
    assert [next(stream).sequence, next(stream).sequence] == [7, 8]
    stream.close()
    assert [request.headers["Last-Event-ID"] for request in script.requests] == ["6", "7", "7"]

    begun = Script(httpx.Response(200, text="retry: 0\nid: 6\n\n"), httpx.Response(200, text=frame(7)))
    stream = connect(begun).events.stream()
    assert next(stream).sequence == 7
    stream.close()
    assert [request.headers.get("Last-Event-ID") for request in begun.requests] == [None, "6"]


def test_the_page_lists_every_method(connect: Callable[[Script], Any]) -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|$", page, re.MULTILINE))
    client = connect(Script())
    listed = {name: set(re.findall(r"\w+", methods)) for name, methods in table.items()}
    public = {name: {method for method in dir(getattr(client, name)) if method[0] != "_"} for name in table}
    resources = {name for name, value in vars(client).items() if hasattr(value, "_iterate")}
    assert set(table) == resources
    assert listed == public
