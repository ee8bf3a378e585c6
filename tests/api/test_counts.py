"""`?count=true` on every list with pages."""

from typing import Any

import pytest

from app.db.core.ids import new_id
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.test_ops import orphan
from tests.api.test_reconciliation import IMPORT, LINE
from tests.security.routes import BUDGET, HOOK, OPERATIONS


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def ids(alice: Caller, fleet: Fleet) -> dict[str, str]:
    """Three of everything that a list shows."""
    wish = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "labels": {"team": "vision"}}
    lease_id = group_id = ""
    for number in range(3):
        lease_id = (await alice.post("/v1/leases", json=wish)).json()["id"]
        group = {"name": f"train-{number}", "size": 1, "lease": {**wish, "labels": {}}}
        made = await alice.post("/v1/groups", json=group)
        group_id = made.json()["id"]
        await alice.member("viewer")
        await alice.post("/v1/webhooks", json={"url": HOOK})
        await alice.post("/v1/ssh-keys", json={"name": f"desk-{number}", "public_key": SSH_KEY})
        await alice.post("/v1/budgets", json=BUDGET)
        fleet.volume(alice.tenant_id, f"data-{number}")
        orphan(fleet, f"i-{number}")
    ended = {"state": "refused", "instance_id": None, "vm_state": None, "ended_at": "now()", "clean": True}
    for number in range(1, 4):
        fleet.attempt(lease_id, number, **(ended if number < 3 else {}))
    webhook_id = (await alice.get("/v1/webhooks")).json()["items"][0]["id"]
    for _ in range(3):
        fleet.run(
            "INSERT INTO webhook_delivery (id, webhook_id, tenant_id, event_id, event_type, about, gives_up_at) "
            "VALUES (%s, %s, %s, %s, 'webhook.test', '{}', now())",
            *(new_id("delivery"), webhook_id, alice.tenant_id, new_id("event")),
        )
    fleet.run(IMPORT)
    for number in range(3):
        fleet.run(LINE, "now", f"i-{number}", "1", False)
    fleet.number_events()
    return {"lease_id": lease_id, "group_id": group_id, "tenant_id": str(alice.tenant_id), "webhook_id": webhook_id}


async def everything(caller: Caller, path: str) -> list[Any]:
    page = (await caller.get(path, params={"limit": 200})).json()
    assert page["next_cursor"] is None
    items: list[Any] = page["items"]
    return items


async def test_the_total_is_that_of_all_pages(alice: Caller, operator: Caller, ids: dict[str, str]) -> None:
    lists = [one for one in OPERATIONS if one.method == "GET" and "count" in one.names("query")]
    assert len(lists) >= 12
    for one in lists:
        caller = operator if one.role == "operator" else alice
        path = one.url(ids)
        plain = await caller.get(path, params={"limit": 1})
        counted = await caller.get(path, params={"limit": 1, "count": "true"})
        total = counted.json()["total_count"]
        assert plain.json()["total_count"] is None, one.id
        assert total == len(await everything(caller, path)) >= 1, one.id
        assert counted.headers["etag"] != plain.headers["etag"], one.id
        cursor = counted.json()["next_cursor"]
        if cursor is not None:
            rest = await caller.get(path, params={"limit": 1, "count": "true", "cursor": cursor})
            assert rest.json()["total_count"] == total, one.id


async def test_a_filter_applies_to_the_total(alice: Caller, bob: Caller, ids: dict[str, str]) -> None:
    for path, total in (
        ("/v1/leases?label=team:vision&count=true", 3),
        ("/v1/leases?label=team:speech&count=true", 0),
        (f"/v1/events?lease_id={ids['lease_id']}&count=true", 1),
        ("/v1/events?type=lease.active&count=true", 0),
        ("/v1/audit?type=webhook.create&count=true", 3),
    ):
        assert (await alice.get(path)).json()["total_count"] == total, path
    assert (await bob.get("/v1/leases?count=true")).json()["total_count"] == 0
