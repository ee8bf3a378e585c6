"""GET /v1/leases and GET /v1/leases/{id}."""

import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from app.api.schemas.leases import AttemptPage, Lease, LeasePage
from app.domain.money import format_money
from app.services.leases.leases import LARGEST_PAGE
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def make(caller: Caller, **changes: Any) -> str:
    answer = await caller.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600, **changes})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def ids(caller: Caller, query: str = "") -> list[str]:
    answer = await caller.get(f"/v1/leases{query}")
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def keeps_to(model: type[BaseModel], content: bytes) -> None:
    """`content` validates strictly, and the model shows every field of it and no other."""
    parsed = model.model_validate_json(content, strict=True)
    assert json.loads(parsed.model_dump_json(by_alias=True)) == json.loads(content)


async def test_real_answers_keep_to_the_declared_schema(alice: Caller, fleet: Fleet) -> None:
    queued, active = await make(alice), await make(alice, max_price_per_hour="3.00", regions=["us-east-1"])
    fleet.activate(active)
    fleet.set_lease(
        active, interruption={"notice_at": "2026-01-01T00:00:00Z", "deadline_at": None, "action": "terminate"}
    )
    for lease_id in (queued, active):
        keeps_to(Lease, (await alice.get(f"/v1/leases/{lease_id}")).content)
    keeps_to(AttemptPage, (await alice.get(f"/v1/leases/{active}/attempts")).content)
    assert (await alice.delete(f"/v1/leases/{active}")).status_code == 202
    fleet.finish(active)
    keeps_to(LeasePage, (await alice.get("/v1/leases")).content)


async def test_an_active_lease_shows_place_cost_and_observation(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    instance_id = fleet.activate(lease_id)
    fleet.run("UPDATE account_region SET last_complete_listing_at = now() - interval '5 seconds'")
    lease = (await alice.get(f"/v1/leases/{lease_id}")).json()
    assert (lease["state"], lease["billable"], lease["terminal"]) == ("active", True, False)
    assert lease["placement"]["instance_id"] == instance_id
    assert lease["placement"]["price_per_hour"] == "1.006"
    assert lease["connection"]["public_ip"] == "198.51.100.7"
    assert lease["cost"]["price_per_hour"] == "1.006"
    assert 1.006 <= float(lease["cost"]["accrued"]) < 1.02
    listed = fleet.run("SELECT last_complete_listing_at AS at FROM account_region")[0]["at"]
    assert lease["last_observed_at"] == listed.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("cost", ["0", "0.000001", "0.5", "0.526", "21.96", "100", "1234567.1", "99999999.999999"])
async def test_money_has_two_decimals_at_least_and_six_at_most(alice: Caller, fleet: Fleet, cost: str) -> None:
    lease_id = await make(alice)
    fleet.set_lease(lease_id, cost_closed=Decimal(cost))
    assert (await alice.get(f"/v1/leases/{lease_id}")).json()["cost"]["accrued"] == format_money(Decimal(cost))


async def test_cost_is_what_ended_attempts_cost_and_the_rate_since(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    fleet.activate(lease_id)
    fleet.set_lease(lease_id, cost_closed=Decimal("0.25"), rate_per_hour=Decimal("21.96"))
    fleet.run("UPDATE lease SET rate_since = now() - interval '100 seconds'")
    cost = (await alice.get(f"/v1/leases/{lease_id}")).json()["cost"]
    since = fleet.run("SELECT rate_since FROM lease")[0]["rate_since"]
    hours = Decimal(str((datetime.fromisoformat(cost["as_of"]) - since).total_seconds())) / 3600
    assert abs(Decimal(cost["accrued"]) - (Decimal("0.25") + Decimal("21.96") * hours)) <= Decimal("0.000001")
    fleet.run("UPDATE lease SET rate_since = now() + interval '1 hour'")
    assert (await alice.get(f"/v1/leases/{lease_id}")).json()["cost"]["accrued"] == "0.25"


OBSERVED: list[tuple[dict[str, str | None], int | None]] = [
    ({"launched_at": None}, None),
    ({"launched_at": "-50", "running_at": None, "ready_at": None}, 30),
    ({"launched_at": "-50", "running_at": "-20", "ready_at": None}, 20),
    ({"launched_at": "-50", "running_at": "-40", "ready_at": "-10"}, 10),
    ({"launched_at": "-50", "provider_gone_at": "-5"}, None),
    ({"launched_at": "-50", "provider_gone_at": "-60", "running_at": None, "ready_at": None}, 30),
]


@pytest.mark.parametrize(("times", "seconds"), OBSERVED)
async def test_a_vm_was_last_observed_when_it_was_last_heard_of(
    alice: Caller, fleet: Fleet, times: dict[str, str | None], seconds: int | None
) -> None:
    """Its region was listed 30 s ago; a VM that is gone, and one of an attempt before this one, count no more."""
    lease_id = await make(alice)
    fleet.activate(lease_id)
    at = fleet.run("UPDATE account_region SET last_complete_listing_at = now() - interval '30 s' RETURNING now() AS at")
    fleet.set_lease(lease_id, state="booting")
    for name, offset in times.items():
        fleet.set_lease(lease_id, **{name: at[0]["at"] + timedelta(seconds=int(offset)) if offset else None})
    shown = (await alice.get(f"/v1/leases/{lease_id}")).json()["last_observed_at"]
    assert (shown and at[0]["at"] - datetime.fromisoformat(shown)) == (seconds and timedelta(seconds=seconds))


async def test_what_changes_by_itself_changes_no_etag(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    fleet.activate(lease_id)
    for path in (f"/v1/leases/{lease_id}", "/v1/leases"):
        tag = (await alice.get(path)).headers["etag"]
        fleet.run("UPDATE account_region SET last_complete_listing_at = now()")
        same = await alice.get(path, headers={"If-None-Match": tag})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        fleet.set_lease(lease_id, health="impaired")
        changed = await alice.get(path, headers={"If-None-Match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag


async def test_what_is_anothers_answers_like_what_does_not_exist(alice: Caller, bob: Caller) -> None:
    lease_id = await make(alice)
    unknown = "lease_01h455vb4pex5vsknk084sn02q"
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("GET", "/attempts", None),
        ("GET", "/events", None),
        ("PATCH", "", {"name": "mine"}),
        ("POST", "/extend", {"extend_by_seconds": 3600}),
        ("DELETE", "", None),
    ]
    for method, tail, content in calls:
        answers = []
        for target in (lease_id, unknown, "lease_x", "%00"):
            answer = await bob.request(method, f"/v1/leases/{target}{tail}", json=content)
            assert answer.status_code == 404, (method, tail, answer.text)
            problem = answer.json()
            assert problem.pop("instance").startswith("/v1/leases/")
            assert problem.pop("request_id") == answer.headers["x-request-id"]
            answers.append(problem)
        assert all(answer == answers[0] for answer in answers)
    assert await ids(bob) == []
    assert await ids(bob, f"?ids={lease_id}") == []
    assert (await alice.get(f"/v1/leases/{lease_id}")).json()["name"] != "mine"


async def test_the_role_comes_before_the_id(alice: Caller) -> None:
    viewer = await alice.member("viewer")
    for target in (await make(alice), "lease_01h455vb4pex5vsknk084sn02q"):
        for method, tail in (("PATCH", ""), ("POST", "/extend"), ("DELETE", "")):
            answer = await viewer.request(method, f"/v1/leases/{target}{tail}", json={})
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert (await viewer.get("/v1/ops/summary")).status_code == 403


async def test_every_filter_keeps_what_it_says(alice: Caller, operator: Caller, bob: Caller, fleet: Fleet) -> None:
    first = await make(alice, name="one", labels={"team": "vision", "run": "1"})
    second = await make(alice, name="two", labels={"team": "vision"})
    third = await make(alice, name="three")
    fleet.activate(first)
    await alice.delete(f"/v1/leases/{third}")
    fleet.finish(third)
    fleet.run("UPDATE lease SET created_at = '2026-01-02Z', updated_at = '2026-01-02Z' WHERE id = %s", second)
    other = await make(bob)
    cases = {
        "?state=queued": {second},
        "?state=active&state=released": {first, third},
        "?state=!terminal": {first, second},
        "?state=!terminal&state=released": {first, second, third},
        "?state=failed": set(),
        "?name=two": {second},
        "?provider=aws": {first},
        "?provider=gcp": set(),
        "?region=us-east-1": {first},
        "?gpu_model=A10G": {first},
        "?label=team:vision": {first, second},
        "?label=team:vision&label=run:1": {first},
        "?label=team:": set(),
        f"?ids={first}&ids={third}": {first, third},
        f"?ids={first},{other}": {first},
        "?created_before=2026-01-03T00:00:00Z": {second},
        "?created_after=2026-01-03T00:00:00Z": {first, third},
        "?created_after=2026-01-02T00:00:00Z&created_before=2026-01-03T00:00:00Z": {second},
        "?updated_since=2026-01-03T00:00:00%2B02:00": {first, third},
        f"?tenant_id={alice.tenant_id}": {first, second, third},
        "?state=!terminal&provider=aws&label=run:1&sort=name": {first},
    }
    for query, expected in cases.items():
        assert set(await ids(alice, query)) == expected, query
    assert set(await ids(operator)) == {first, second, third, other}
    assert set(await ids(operator, f"?tenant_id={bob.tenant_id}")) == {other}


async def test_wrong_filters_are_refused_with_their_name(alice: Caller, bob: Caller) -> None:
    many = ",".join(f"lease_01h455vb4pex5vsknk0{n:07d}" for n in range(101))
    cases = {
        "state=dead": "#/query/state/0",
        "sort=price": "#/query/sort",
        "label=team": "#/query/label/0",
        "ids=x": "#/query/ids",
        f"ids={many}": "#/query/ids",
        "created_after=yesterday": "#/query/created_after",
        "created_after=2026-01-01T00:00:00": "#/query/created_after",
        "created_after=9999-12-31T23:59:59-12:00": "#/query/created_after",
        "name=%00": "#/query/name",
        "label=a:%00": "#/query/label/0",
        "cursor=nonsense": "#/query/cursor",
        f"tenant_id={bob.tenant_id}": "#/query/tenant_id",
        "limit=many": "#/query/limit",
        "limit=0": "#/query/limit",
        "limit=201": "#/query/limit",
        "stat=active": "#/query/stat",
    }
    for query, pointer in cases.items():
        answer = await alice.get(f"/v1/leases?{query}")
        assert answer.status_code == 422, (query, answer.text)
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer], query


SORTS = ("created_at", "-created_at", "updated_at", "-updated_at", "expires_at", "-expires_at", "name", "-name")


async def test_pages_of_every_order_show_each_lease_once(alice: Caller, fleet: Fleet) -> None:
    made = [await make(alice) for _ in range(5)]
    for lease_id, name in zip(made, ("b", "a", "b", "c", "a"), strict=True):  # as an adoption may leave them
        fleet.run("UPDATE lease SET name = %s, unique_name = NULL WHERE id = %s", name, lease_id)
    for number, lease_id in enumerate(made):
        # the same times twice, so that the id has to break the tie
        fleet.run(
            "UPDATE lease SET created_at = now() + %s * interval '1 s', expires_at = now() + %s * interval '1 h' WHERE id = %s",
            number // 2,
            3 - number // 2,
            lease_id,
        )
    for sort in SORTS:
        field = sort.removeprefix("-")
        page = (await alice.get(f"/v1/leases?sort={sort}&limit=2")).json()
        seen = list(page["items"])
        for _ in range(2):
            page = (await alice.get(f"/v1/leases?sort={sort}&limit=2&cursor={page['next_cursor']}")).json()
            seen += page["items"]
        assert page["next_cursor"] is None, sort
        keys = [(item[field], item["id"]) for item in seen]
        assert sorted(item["id"] for item in seen) == sorted(made), sort
        assert keys == sorted(keys, reverse=sort.startswith("-")), sort


async def test_a_cursor_of_another_order_is_refused(alice: Caller) -> None:
    for _ in range(2):
        await make(alice)
    cursor = (await alice.get("/v1/leases?limit=1")).json()["next_cursor"]
    answer = await alice.get(f"/v1/leases?sort=name&cursor={cursor}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/query/cursor")


async def test_attempts_tell_every_try_in_order(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    error = '{"class": "InsufficientCapacity", "code": "InsufficientInstanceCapacity", "message": "none left"}'
    fleet.attempt(
        lease_id, 1, state="refused", instance_id=None, vm_state=None, error=error, ended_at="now()", clean=True
    )
    fleet.attempt(lease_id, 2, state="settling", instance_id=None, vm_state=None)
    first = (await alice.get(f"/v1/leases/{lease_id}/attempts?limit=1")).json()
    tried = first["items"][0]
    assert (tried["n"], tried["outcome"]) == (1, "refused")
    assert tried["error"] == {
        "class": "InsufficientCapacity",
        "code": "InsufficientInstanceCapacity",
        "message": "the provider has no capacity for this instance type there at present",
        "provider_message": None,
    }
    to_operators = (await operator.get(f"/v1/leases/{lease_id}/attempts")).json()["items"][0]["error"]
    assert to_operators == tried["error"] | {"provider_message": "none left"}
    assert tried["offering"]["instance_type"] == "g5.xlarge"
    rest = (await alice.get(f"/v1/leases/{lease_id}/attempts?cursor={first['next_cursor']}")).json()
    assert [(one["n"], one["outcome"]) for one in rest["items"]] == [(2, "unknown")]
    assert rest["next_cursor"] is None


LONG_TYPES = [f"g5.xlarge{'x' * (55 - len(str(n)))}{n}" for n in range(19)]
LONG_REGIONS = [f"{'r' * 36}-{n:02}" for n in range(49)]


def large_lease(number: int) -> dict[str, Any]:
    """The largest request that is taken."""
    text = "x" * 63
    return {
        "name": f"n{number}",
        "instance_types": [*LONG_TYPES, "g5.xlarge"],
        "regions": ["us-east-1", *LONG_REGIONS],
        "allowed_cidrs": [f"2001:db8:{n:x}:ffff:ffff:ffff:ffff:0/112" for n in range(50)],
        "ssh_public_keys": [f"{SSH_KEY.rpartition(' ')[0]} {'k' * 256}"] * 20,
        "labels": {f"{n:02}{text[2:]}": text for n in range(20)},
        "ttl_seconds": 3600,
    }


async def all_pages(caller: Caller, query: str) -> tuple[list[dict[str, Any]], list[int]]:
    """Every item, and the bytes of each page."""
    items: list[dict[str, Any]] = []
    sizes = []
    cursor = ""
    while True:
        answer = await caller.get(f"/v1/leases?limit=200{query}{cursor}")
        items += answer.json()["items"]
        sizes.append(len(answer.content))
        if answer.json()["next_cursor"] is None:
            return items, sizes
        cursor = f"&cursor={answer.json()['next_cursor']}"


@pytest.mark.parametrize("sort", ["-created_at", "name"])
async def test_a_page_ends_early_when_it_holds_half_a_mebibyte(alice: Caller, fleet: Fleet, sort: str) -> None:
    for name in LONG_TYPES:
        fleet.offering("g5.xlarge", instance_type=name)
    for region in LONG_REGIONS:
        fleet.offering("g5.xlarge", region=region)
    for number in range(3):
        made = await alice.post("/v1/leases", json=large_lease(number))
        assert made.status_code == 201, made.text
    copies = """
        INSERT INTO lease (id, tenant_id, name, labels, request, minimum_claim, created_at, expires_at, wait_until)
        SELECT 'lease_' || lpad(n::text, 26, '0'), tenant_id, 'c' || n, labels, request, '{}', created_at + n * interval '1 s',
               expires_at, wait_until FROM lease, generate_series(1, 150) n WHERE name = 'n0'
    """
    fleet.run(copies)
    items, sizes = await all_pages(alice, f"&sort={sort}")
    assert len({item["id"] for item in items}) == len(items) == 153
    assert len(sizes) > 1
    largest = max(len(json.dumps(item)) for item in items)
    assert all(size <= LARGEST_PAGE + 2 * largest for size in sizes)
    assert all(size > LARGEST_PAGE - 2 * largest for size in sizes[:-1]), "a page ends no earlier than it must"
    tagged = await alice.get(f"/v1/leases?limit=200&sort={sort}")
    again = await alice.get(f"/v1/leases?limit=200&sort={sort}", headers={"If-None-Match": tagged.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_page_of_one_lease_is_never_empty(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.leases.leases.LARGEST_PAGE", 1)
    made = [await make(alice) for _ in range(3)]
    assert await ids(alice, "?limit=2") == [made[2]]
    items, _ = await all_pages(alice, "")
    assert [item["id"] for item in items] == made[::-1]


async def test_a_poll_without_a_version_is_refused(alice: Caller, fleet: Fleet) -> None:
    lease = (await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})).json()
    refused = await alice.get(f"/v1/leases/{lease['id']}?poll_seconds=1")
    assert (refused.status_code, [one["pointer"] for one in refused.json()["errors"]]) == (
        422,
        ["#/query/poll_seconds"],
    )
    assert (await alice.get(f"/v1/leases/{lease['id']}?poll_seconds=0")).status_code == 200
    assert (await alice.get(f"/v1/leases/{lease['id']}?if_version=1")).status_code == 200


@pytest.mark.parametrize(("sort", "missed"), [("updated_at", False), ("-updated_at", True), ("-created_at", False)])
async def test_a_change_between_two_pages_moves_a_lease_in_the_order_of_changes(
    alice: Caller, fleet: Fleet, sort: str, missed: bool
) -> None:
    body = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}
    ids = [(await alice.post("/v1/leases", json=body)).json()["id"] for _ in range(4)]
    path = f"/v1/leases?limit=2&sort={sort}"
    first = (await alice.get(path)).json()
    seen = [one["id"] for one in first["items"]]
    changed = next(one for one in ids if one not in seen)
    assert (await alice.patch(f"/v1/leases/{changed}", json={"name": "changed"})).status_code == 200
    rest = (await alice.get(f"{path}&cursor={first['next_cursor']}")).json()["items"]
    assert (changed not in {one["id"] for one in rest}) is missed
