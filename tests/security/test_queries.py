"""Hostile values in every query parameter, header and forged cursor: never an error of ours."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.test_ops import orphan
from tests.api.test_reconciliation import IMPORT, LINE
from tests.described import document
from tests.security.routes import BUDGET, GIVEN_UP, HOOK, OPERATIONS, Operation
from tests.security.test_bodies import TELLTALE

VALUES = (
    "",
    "\x00",
    "-1",
    "NaN",
    "Infinity",
    "1e999999999",
    "9" * 30,
    "9" * 900,
    "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+14:00",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00",
    "'; --",
    "[]",
    "null",
    "\u2028",
    "\uff41\uff11",
    "x" * 900,
    "lease_01h455vb4pex5vsknk084sn02q",
)
NO_TIME = "must be a time such as 2030-01-31T12:00:00Z"
HEADERS = (
    b"If-Match",
    b"If-None-Match",
    b"Idempotency-Key",
    b"X-Request-Id",
    b"Content-Type",
    b"Accept",
    b"Traceparent",
)


@pytest.fixture
async def ids(alice: Caller, bob: Caller, fleet: Fleet) -> dict[str, str]:
    """A tenant with two of everything that is listed."""
    lease_id = ""
    for name in ("one", "two"):
        made = await alice.post("/v1/leases", json={"name": name, "gpu": {"model": "A10G"}, "ttl_seconds": 3600})
        lease_id = made.json()["id"]
        fleet.attempt(lease_id, 1, state="refused", instance_id=None, vm_state=None, ended_at="now()", clean=True)
        fleet.attempt(lease_id, 2)
        orphan(fleet, f"i-{name}")
        await alice.member("viewer")
        await alice.patch(f"/v1/leases/{lease_id}", json={"labels": {"a": "b"}})
    fleet.number_events()
    fleet.cost(alice.tenant_id, lease_id)
    hook = ""
    for _ in range(2):
        hook = (await alice.post("/v1/webhooks", json={"url": HOOK})).json()["id"]
    for _ in range(2):
        await alice.post(f"/v1/webhooks/{hook}/test")
        fleet.run(GIVEN_UP)
    ssh_key = ""
    for name in ("one", "two"):
        body = {"name": name, "public_key": SSH_KEY}
        ssh_key = (await alice.post("/v1/ssh-keys", json=body)).json()["id"]
    budget = ""
    for _ in range(2):
        budget = (await alice.post("/v1/budgets", json=BUDGET)).json()["id"]
    group = ""
    for name in ("one", "two"):
        wish = {"name": name, "size": 1, "lease": {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}}
        group = (await alice.post("/v1/groups", json=wish)).json()["id"]
    await alice.delete(f"/v1/groups/{group}")
    fleet.number_events()
    quote = (await alice.post("/v1/quotes", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})).json()["id"]
    fleet.run(IMPORT)
    for number in range(2):
        fleet.run(LINE, "now", f"i-{number}", "1", False)
    volumes = [fleet.volume(alice.tenant_id, name) for name in ("one", "two")]
    stored = {
        "volume_id": volumes[0],
        "webhook_id": hook,
        "ssh_key_id": ssh_key,
        "budget_id": budget,
        "quote_id": quote,
        "group_id": group,
    }
    return {"lease_id": lease_id, "tenant_id": alice.tenant_id, **stored}


def lists() -> Iterator[Operation]:
    yield from (one for one in OPERATIONS if one.method == "GET" and one.names("query"))


async def test_no_value_of_a_query_parameter_is_an_error_of_ours(operator: Caller, ids: dict[str, str]) -> None:
    for one in lists():
        for name in one.names("query"):
            for value in VALUES:
                answer = await operator.get(one.url(ids), params={name: value})
                assert answer.status_code in {200, 410, 422}, (one.id, name, value, answer.text)
                assert not TELLTALE.search(answer.text) or answer.is_success, answer.text
            raw = await operator.get(f"{one.url(ids)}?{name}=%ff%fe&{name}=%ed%a0%80&{name}")
            assert raw.status_code in {200, 410, 422}, (one.id, name, raw.text)


def forged(cursor: str) -> Iterator[str]:
    """The cursor with each of its parts replaced, one at a time, and cut or lengthened."""
    parts: list[Any] = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    values: list[Any] = [*VALUES, 1, None, [], {}]
    changed = [[*parts[:n], value, *parts[n + 1 :]] for n in range(len(parts)) for value in values]
    for each in (*changed, parts[:-1], [*parts, "x"], [], {}, "x"):
        yield base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")


async def test_no_forged_cursor_is_an_error_of_ours(operator: Caller, ids: dict[str, str]) -> None:
    tried = set()
    for one in (one for one in lists() if "cursor" in one.names("query")):
        sorts: dict[str, Any] = next((each["schema"] for each in one.spec["parameters"] if each["name"] == "sort"), {})
        for sort in _sorts(sorts):
            first = await operator.get(one.url(ids), params={"limit": "1", **sort})
            cursor = first.json()["next_cursor"]
            assert cursor is not None, one.id
            tried.add(one.id)
            for wrong in forged(cursor):
                answer = await operator.get(one.url(ids), params={"cursor": wrong, **sort})
                assert answer.status_code in {200, 422}, (one.id, sort, wrong, answer.text)
    assert {"list_leases", "list_lease_attempts", "list_orphans", "list_events", "list_audit", "list_keys"} <= tried


def _sorts(schema: dict[str, Any]) -> list[dict[str, str]]:
    if not schema:
        return [{}]
    (values,) = [one["enum"] for one in _schemas(schema) if "enum" in one]
    return [{"sort": value} for value in values]


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:

    yield schema
    for one in (*schema.get("allOf", ()), *schema.get("anyOf", ()), schema):
        if "$ref" in one:
            yield document()["components"]["schemas"][one["$ref"].rpartition("/")[2]]


async def test_no_header_is_an_error_of_ours(operator: Caller, ids: dict[str, str]) -> None:
    every = {
        **ids,
        "key_id": "key_x",
        "delivery_id": "x",
        "account": "main",
        "region": "r",
        "orphan_id": "orphan_01h455vb4pex5vsknk084sn02q",
        "name": "main",
    }
    for value in (b"", b"\xff\xfe", b"*", b'"', b"x" * 4000, b'W/"a", "b"', b"a;b=c"):
        # test_doors.py shows that a wrong key gets the same answer on every route
        assert (await operator.get("/v1/me", headers={b"Authorization": value})).status_code == 401
        for one in OPERATIONS:
            answer = await operator.request(one.method, one.url(every), headers=dict.fromkeys(HEADERS, value))
            assert answer.status_code < 500, (one.id, value, answer.text)
            assert answer.headers["x-request-id"].isascii()


async def test_no_time_that_a_calendar_does_not_have_is_an_error_of_ours(alice: Caller) -> None:
    for time in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"):
        made = await alice.post(
            f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "k", "role": "viewer", "expires_at": time}
        )
        assert made.status_code == (201 if time.endswith("Z") else 422), made.text


async def test_a_number_is_no_time(alice: Caller) -> None:
    """The description asks for a date and a time; pydantic takes a number for seconds or milliseconds since 1970."""
    for number in ("1790000000", "60", "-1", "1.5e3", "1.6739293205687945e-167"):
        asked = await alice.get("/v1/leases", params={"created_after": number})
        made = await alice.post(
            f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "k", "role": "viewer", "expires_at": f"9{number}"}
        )
        for answer in (asked, made):
            assert (answer.status_code, answer.json()["errors"][0]["detail"]) == (422, NO_TIME), (number, answer.text)
