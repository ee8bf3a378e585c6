"""Events of a lease and of a tenant."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from app.api.schemas.events import EventPage
from app.db.core.compiled import with_values
from app.db.core.ids import new_id
from app.db.events.reads import numbered
from app.domain.event_types import EventType
from app.domain.events import EVENT_DATA
from app.domain.list_filters import EventFilter
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.domain.event_samples import sample


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


async def test_a_position_that_nobody_was_given_has_expired(alice: Caller, fleet: Fleet) -> None:
    """Above the newest number, as after a restore, and between the numbers before and after one."""
    lease_id = await make(alice)
    fleet.number_events()
    paths = "/v1/events?after=", "/v1/events?sort=-created_at&after=", f"/v1/leases/{lease_id}/events?after="
    for path in paths:
        assert await events(alice, f"{path}1") == []
        for after in (2, 999_999_999):
            answer = await alice.get(f"{path}{after}")
            assert (answer.status_code, answer.json()["code"]) == (410, "cursor_expired"), path
    unknown = await alice.get(f"/v1/leases/{lease_id[:-1]}{'0' if lease_id[-1] != '0' else '1'}/events?after=999999999")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    fleet.run("UPDATE installation SET event_sequence = event_sequence + 100")
    await make(alice)
    fleet.number_events()
    assert (await alice.get("/v1/events?after=50")).status_code == 410
    for known, after in ((True, 1), (True, 101), (True, 0), (False, 102)):
        assert bool(await events(alice, f"/v1/events?after={after}")) is known


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


async def test_events_are_filtered_by_type_lease_and_time(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    first, second, other = await make(alice), await make(alice), await make(bob)
    await alice.delete(f"/v1/leases/{first}")
    fleet.number_events()
    whole = await events(alice)
    queued = await events(alice, "/v1/events?type=lease.queued")
    assert {one["lease_id"] for one in queued} == {first, second}
    both = await events(alice, f"/v1/events?type=lease.queued&type=lease.releasing&lease_id={first}")
    assert [one["type"] for one in both] == ["lease.queued", "lease.releasing"]
    assert await events(alice, f"/v1/events?lease_id={other}") == []
    assert await events(alice, f"/v1/leases/{first}/events?type=lease.active") == []
    last = whole[-1]["created_at"]
    before = await events(alice, f"/v1/events?created_before={last}")
    assert before == [one for one in whole if one["created_at"] < last]
    assert len(before) < len(whole)
    after = await events(alice, f"/v1/leases/{first}/events?created_after={before[0]['created_at']}")
    assert [one["type"] for one in after] == ["lease.releasing"]
    unknown = await alice.get("/v1/events?type=lease.eaten")
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (422, "#/query/type/0")


async def test_every_type_of_event_is_answered_as_declared(alice: Caller, fleet: Fleet) -> None:
    for kind in EventType:
        statement = "INSERT INTO event (id, tenant_id, type, data) VALUES (%s, %s, %s, %s)"
        fleet.run(statement, new_id("event"), alice.tenant_id, str(kind), Jsonb(sample(kind).as_json()))
    fleet.run(
        "INSERT INTO event (id, tenant_id, type, data) VALUES ('event_x', %s, 'lease.later', '{}')", alice.tenant_id
    )
    fleet.number_events()
    answer = await alice.get("/v1/events?limit=200")
    page = EventPage.model_validate_json(answer.content, strict=True)
    assert json.loads(page.model_dump_json(by_alias=True)) == answer.json()
    declared = [type(one).__name__ for one in page.items]
    assert declared == [*(f"{EVENT_DATA[kind].__name__}Event" for kind in EventType), "OtherEvent"]


@pytest.mark.parametrize(
    "wanted",
    [
        EventFilter(),
        EventFilter(types=frozenset({EventType.LEASE_QUEUED})),
        EventFilter(types=frozenset({EventType.LEASE_QUEUED, EventType.LEASE_RELEASING})),
    ],
)
async def test_a_stream_filters_as_a_list_does(alice: Caller, bob: Caller, fleet: Fleet, wanted: EventFilter) -> None:
    """The rule is written twice, for lists in SQL."""
    mine, other = await make(alice), await make(bob)
    await bob.delete(f"/v1/leases/{other}")
    fleet.number_events()
    rows = fleet.run("SELECT *, at AS created_at FROM event ORDER BY sequence")
    times = (None, rows[0]["at"], rows[1]["at"])
    for owner, lease_id, after, before in itertools.product((None, alice.tenant_id), (None, mine), times, times):
        exact = replace(wanted, tenant_id=owner, lease_id=lease_id, created_after=after, created_before=before)
        conditions = numbered(after=0, limit=100, criteria=exact)
        read = fleet.run(with_values(conditions))
        assert [row["id"] for row in read] == [row["id"] for row in rows if exact.matches(SimpleNamespace(**row))]


async def test_the_newest_events_come_first_on_request(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    for _ in range(4):
        await make(alice)
    fleet.number_events()
    newest = "/v1/events?sort=-created_at"
    assert [one["sequence"] for one in await events(alice, newest)] == [5, 4, 3, 2, 1]
    assert [one["sequence"] for one in await events(alice, f"{newest}&after=3")] == [5, 4]
    page = (await alice.get(f"{newest}&limit=2&after=1&count=true")).json()
    assert ([one["sequence"] for one in page["items"]], page["total_count"]) == ([5, 4], 5)
    await make(alice)
    fleet.number_events()
    rest = (await alice.get(f"{newest}&limit=2&after=1&cursor={page['next_cursor']}")).json()
    assert ([one["sequence"] for one in rest["items"]], rest["next_cursor"]) == ([3, 2], None)
    assert len(await events(alice, f"/v1/leases/{lease_id}/events?sort=-created_at")) == 1
    other_order = await alice.get(f"/v1/events?cursor={page['next_cursor']}")
    assert (other_order.status_code, other_order.json()["errors"][0]["pointer"]) == (422, "#/query/cursor")
