"""Events of a lease and of a tenant."""

import json
from typing import Any

import pytest

from app.api.routes.events import EventPage
from tests.api.conftest import Caller
from tests.api.fleet import Fleet


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def make(caller: Caller) -> str:
    return str((await caller.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})).json()["id"])


async def events(caller: Caller, path: str = "/v1/events") -> list[dict[str, Any]]:
    answer = await caller.get(path)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_only_numbered_events_are_shown_in_the_order_of_their_numbers(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    assert await events(alice) == []
    fleet.number_events()
    await alice.delete(f"/v1/leases/{lease_id}")
    assert [one["type"] for one in await events(alice)] == ["lease.queued"]
    fleet.number_events()
    shown = await events(alice, f"/v1/leases/{lease_id}/events")
    assert [(one["sequence"], one["lease_sequence"], one["type"]) for one in shown] == [
        (1, 1, "lease.queued"),
        (2, 2, "lease.releasing"),
    ]
    assert shown == await events(alice)
    assert all(one["request_id"] for one in shown)
    answer = await alice.get("/v1/events")
    parsed = EventPage.model_validate_json(answer.content, strict=True)
    assert json.loads(parsed.model_dump_json()) == answer.json()


async def test_reading_goes_on_after_a_number_or_by_cursor(alice: Caller, fleet: Fleet) -> None:
    for _ in range(5):
        await make(alice)
    fleet.number_events()
    assert [one["sequence"] for one in await events(alice, "/v1/events?after=3")] == [4, 5]
    assert await events(alice, "/v1/events?after=5") == []
    page = (await alice.get("/v1/events?after=1&limit=2")).json()
    assert [one["sequence"] for one in page["items"]] == [2, 3]
    rest = (await alice.get(f"/v1/events?after=1&limit=2&cursor={page['next_cursor']}")).json()
    assert [one["sequence"] for one in rest["items"]] == [4, 5]
    assert rest["next_cursor"] is None


async def test_a_tenant_sees_its_own_events_and_operators_all(
    alice: Caller, bob: Caller, operator: Caller, fleet: Fleet
) -> None:
    mine, other = await make(alice), await make(bob)
    fleet.number_events()
    assert {one["lease_id"] for one in await events(alice)} == {mine}
    assert {one["lease_id"] for one in await events(operator)} == {mine, other}
    assert {one["lease_id"] for one in await events(operator, f"/v1/events?tenant_id={bob.tenant_id}")} == {other}
    foreign = await alice.get(f"/v1/events?tenant_id={bob.tenant_id}")
    assert (foreign.status_code, foreign.json()["errors"][0]["pointer"]) == (422, "#/query/tenant_id")


async def test_a_cursor_below_what_is_kept_has_expired(alice: Caller, fleet: Fleet) -> None:
    old, _ = await make(alice), await make(alice)
    fleet.number_events()
    await alice.delete(f"/v1/leases/{old}")
    fleet.number_events()
    fleet.run("DELETE FROM event WHERE sequence <= 2")
    young = await make(alice)
    fleet.number_events()
    for path in ("/v1/events?after=1", "/v1/events?after=0", f"/v1/leases/{old}/events?after=0"):
        answer = await alice.get(path)
        assert (answer.status_code, answer.json()["code"]) == (410, "cursor_expired"), path
    assert [one["sequence"] for one in await events(alice, "/v1/events?after=2")] == [3, 4]
    assert [one["sequence"] for one in await events(alice)] == [3, 4]
    assert [one["lease_sequence"] for one in await events(alice, f"/v1/leases/{young}/events?after=0")] == [1]
    # put back, so that the events of each lease are whole again
    fleet.run("DELETE FROM event")


async def test_a_cursor_has_expired_too_when_everything_is_purged(alice: Caller, fleet: Fleet) -> None:
    await make(alice)
    fleet.number_events()
    fleet.run("DELETE FROM event")
    assert (await alice.get("/v1/events?after=0")).status_code == 410
    assert await events(alice, "/v1/events?after=1") == []
    assert await events(alice) == []


async def test_wrong_starts_are_refused(alice: Caller) -> None:
    for query, pointer in (
        ("after=-1", "after"),
        ("after=x", "after"),
        (f"after={2**63}", "after"),
        ("cursor=x", "cursor"),
    ):
        answer = await alice.get(f"/v1/events?{query}")
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, f"#/query/{pointer}")
