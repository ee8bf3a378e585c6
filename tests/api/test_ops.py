"""The operators' view and brakes."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from pydantic import BaseModel
from sqlalchemy import delete, insert

from app.api.schemas.accounts import Account, AccountPage
from app.api.schemas.brakes import Brakes
from app.api.schemas.ops_summary import OpsSummary
from app.api.schemas.orphans import OrphanPage
from app.api.schemas.tenants import TenantUsePage
from app.db.core.ids import new_id
from app.db.schema.tables import lease
from app.domain.ids import is_typeid
from app.prerequisites import ensure_operator_key
from tests.api.conftest import Caller, MakeSettings, new_tenant, serving
from tests.api.fleet import Fleet
from tests.db.store import LEASE, Store, ago, ahead
from workers.runtime.database import WorkerDatabase


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a summary that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=1)
    yield Store(database)
    database.close()


def keeps_to(model: type[BaseModel], content: bytes) -> None:
    parsed = model.model_validate_json(content, strict=True)
    assert json.loads(parsed.model_dump_json()) == json.loads(content)


async def make(caller: Caller) -> str:
    return str((await caller.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})).json()["id"])


def orphan(fleet: Fleet, instance_id: str, **changes: Any) -> None:
    row = {
        "account": "main",
        "region": "us-east-1",
        "instance_id": instance_id,
        "provider": "aws",
        "zone": "us-east-1a",
        "instance_type": "g5.xlarge",
        "market": "on_demand",
        "cause": "lost_row",
        "tags": '{"gpulease-lease": "lease_x"}',
        "price_per_hour": "1.006",
        **changes,
    }
    fleet.run(f"INSERT INTO orphan ({', '.join(row)}) VALUES ({', '.join('%s' for _ in row)})", *row.values())


async def test_the_summary_counts_what_there_is(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    active, _queued = await make(alice), await make(alice)
    fleet.activate(active)
    error = '{"class": "InsufficientCapacity", "code": "ICE", "message": "none"}'
    fleet.attempt(
        _queued, 1, state="refused", instance_id=None, vm_state=None, error=error, ended_at="now()", clean=True
    )
    orphan(fleet, "i-1")
    orphan(fleet, "i-2", state="gone", gone_at="now()")
    answer = await operator.get("/v1/ops/summary")
    assert answer.status_code == 200, answer.text
    keeps_to(OpsSummary, answer.content)
    found = answer.json()
    assert {one["state"]: one["leases"] for one in found["by_state"]} == {"active": 1, "queued": 1}
    expected = {"leases": 1, "gpus": 1, "spend_per_hour": "1.006"}
    assert found["by_provider"] == [{"name": "aws", **expected}]
    assert found["by_region"] == [{"name": "us-east-1", **expected}]
    assert found["by_gpu_model"] == [{"name": "A10G", **expected}]
    assert (found["gpus"], found["spend_per_hour"]) == (1, "1.006")
    assert float(found["spend_month_to_date"]) <= 1.02
    assert found["capacity_failures"]["total"] == 1
    assert found["capacity_failures"]["worst"][0]["instance_type"] == "g5.xlarge"
    assert found["orphans"] == [{"cause": "lost_row", "orphans": 1}]
    assert found["time_to_ready"]["leases"] == 1
    assert found["stuck"] == []
    assert found["brakes"]["launches_stopped"] is None


async def test_the_summary_shows_what_the_last_check_of_the_invariants_found_broken(
    operator: Caller, fleet: Fleet
) -> None:
    assert (await operator.get("/v1/ops/summary")).json()["invariants"] == {"checked_at": None, "broken": []}
    fleet.run("""INSERT INTO invariant (name, violations, examples) VALUES ('holds', 0, '[]')""")
    fleet.run(
        """INSERT INTO invariant (name, violations, examples, since) VALUES ('broke', 2, '[{"id": "x"}]', now())"""
    )
    answer = await operator.get("/v1/ops/summary")
    keeps_to(OpsSummary, answer.content)
    found = answer.json()["invariants"]
    assert found["checked_at"] is not None
    [broken] = found["broken"]
    assert (broken["name"], broken["violations"], broken["examples"]) == ("broke", 2, [{"id": "x"}])


async def test_the_spend_of_the_month_leaves_out_what_was_before(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    fleet.activate(lease_id)
    fleet.run(
        "UPDATE attempt SET billing_started_at = date_trunc('month', now()) - interval '40 days', "
        "billing_ended_at = date_trunc('month', now()) + interval '2 microseconds'"
    )
    spend = Decimal((await operator.get("/v1/ops/summary")).json()["spend_month_to_date"])
    assert spend < Decimal("0.01"), "what has accrued since the lease became active a moment ago"


async def test_what_takes_too_long_is_named_the_longest_first(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    releasing, settling, booting = await make(alice), await make(alice), await make(alice)
    await alice.delete(f"/v1/leases/{releasing}")
    fleet.run("UPDATE lease SET release_requested_at = now() - interval '20 minutes' WHERE id = %s", releasing)
    fleet.attempt(settling, 1, state="settling", instance_id=None, vm_state=None, settling_since="now()")
    fleet.activate(booting)
    fleet.run("UPDATE lease SET state = 'booting' WHERE id = %s", booting)
    large = await make(alice)
    fleet.activate(large)
    fleet.run("UPDATE lease SET state = 'booting', running_at = now() - interval '20 minutes' WHERE id = %s", large)
    fleet.run("UPDATE attempt SET offering = jsonb_set(offering, '{gpu,count}', '8') WHERE lease_id = %s", large)
    stuck = (await operator.get("/v1/ops/summary")).json()["stuck"]
    assert [(one["kind"], one["lease_id"]) for one in stuck] == [
        ("booting", booting),
        ("releasing", releasing),
        ("settling", settling),
    ]
    assert [one["reason"] for one in stuck] == [None, "a user of the tenant requested the release", None]


async def test_a_deadline_tag_is_behind_when_it_is_before_the_end_that_the_spend_cap_sets(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    lease_id = await make(alice)
    fleet.activate(lease_id)
    fleet.run(
        "UPDATE lease SET updated_at = now() - interval '2 minutes', expires_at = now() + interval '4 hours', "
        "cost_reached_at = now() + interval '1 hour', deadline_applied = now() + interval '61 minutes' WHERE id = %s",
        lease_id,
    )
    assert (await operator.get("/v1/ops/summary")).json()["stuck"] == []
    fleet.run("UPDATE lease SET cost_reached_at = NULL WHERE id = %s", lease_id)
    stuck = (await operator.get("/v1/ops/summary")).json()["stuck"]
    assert [(one["kind"], one["lease_id"]) for one in stuck] == [("deadline", lease_id)]


async def test_orphans_are_shown_in_pages_and_ended_on_demand(operator: Caller, fleet: Fleet) -> None:
    for number in range(3):
        orphan(fleet, f"i-{number}", end_after=None)
    orphan(fleet, "i-gone", state="gone", gone_at="now()")
    first = await operator.get("/v1/ops/orphans?limit=2")
    keeps_to(OrphanPage, first.content)
    rest = (await operator.get(f"/v1/ops/orphans?limit=2&cursor={first.json()['next_cursor']}")).json()
    shown = [*first.json()["items"], *rest["items"]]
    assert [one["instance_id"] for one in shown] == ["i-2", "i-1", "i-0"]
    assert shown[0]["age_seconds"] >= 0
    fleet.run("UPDATE orphan SET price_per_hour = NULL, zone = 'us-east-1z' WHERE instance_id = 'i-1'")
    fleet.run("UPDATE orphan SET price_per_hour = NULL WHERE instance_id = 'i-0'")
    fleet.run("UPDATE orphan SET price_per_hour = 7 WHERE instance_id = 'i-2'")
    prices = [one["price_per_hour"] for one in (await operator.get("/v1/ops/orphans")).json()["items"]]
    assert prices == ["7.00", None, "1.006"]
    assert len((await operator.get("/v1/ops/orphans?gone=true")).json()["items"]) == 4
    ids = {row["instance_id"]: row["id"] for row in fleet.run("SELECT instance_id, id FROM orphan")}
    assert all(is_typeid("orphan", one) for one in ids.values())
    assert (await operator.post(f"/v1/ops/orphans/{ids['i-1']}/end")).status_code == 204
    due = fleet.run("SELECT instance_id FROM orphan WHERE end_after <= now()")
    assert due == [{"instance_id": "i-1"}]
    for instance_id in ("i-gone", "i-none", "%00"):
        assert (await operator.post(f"/v1/ops/orphans/{ids.get(instance_id, instance_id)}/end")).status_code == 404
    assert fleet.run("SELECT target FROM audit WHERE action = 'orphan.end'") == [{"target": ids["i-1"]}]


async def test_an_ended_orphan_stays_in_the_list_with_what_it_cost(operator: Caller, fleet: Fleet) -> None:
    began = datetime(2026, 11, 1, tzinfo=UTC)
    times = {"launched_at": began, "gone_at": began + timedelta(hours=25)}
    orphan(fleet, "i-ended", state="gone", price_per_hour="22", **times)
    orphan(fleet, "i-late-listing", state="gone", cause="ended_lease", **times)
    assert (await operator.get("/v1/ops/orphans?count=true")).json()["total_count"] == 0
    page = (await operator.get("/v1/ops/orphans?gone=true&count=true")).json()
    (ended,) = page["items"]
    assert (page["total_count"], ended["state"], ended["cost"], ended["age_seconds"]) == (1, "gone", "550.00", 90_000)


async def test_an_orphan_that_refuses_to_end_says_why(operator: Caller, fleet: Fleet) -> None:
    orphan(fleet, "i-1")
    before = await operator.get("/v1/ops/orphans")
    assert before.json()["items"][0]["end_error"] is None
    error = {"class": "InvalidSpec", "code": "OperationNotPermitted", "message": "it may not be terminated"}
    fleet.run("UPDATE orphan SET state = 'ending', end_error = %s", Jsonb(error))
    after = await operator.get("/v1/ops/orphans", headers={"If-None-Match": before.headers["ETag"]})
    keeps_to(OrphanPage, after.content)
    assert after.json()["items"][0]["end_error"] == error


async def test_accounts_show_what_observation_knows(operator: Caller, fleet: Fleet) -> None:
    fleet.run(
        "UPDATE account SET identity = '123456789012', last_error = '{\"code\": \"AuthFailure\"}', checked_at = now()"
    )
    fleet.run(
        "UPDATE account_region SET last_complete_listing_at = now(), listed = 7, listing_calls = 1, listing_seconds = 0.25, "
        "cycles = 3"
    )
    answer = await operator.get("/v1/ops/accounts")
    keeps_to(AccountPage, answer.content)
    account = answer.json()["items"][0]
    assert (account["name"], account["identity"], account["draining"]) == ("main", "123456789012", False)
    assert account["last_error"] == {"code": "AuthFailure"}
    region = account["regions"][0]
    assert (region["region"], region["listed"], region["listing_seconds"], region["cycles"]) == (
        "us-east-1",
        7,
        0.25,
        3,
    )


async def test_a_cordon_keeps_launches_away_and_is_audited(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    answer = await operator.put("/v1/ops/accounts/main/cordon", json={"cordoned": True, "note": "budget"})
    keeps_to(Account, answer.content)
    assert answer.json()["cordoned"]["note"] == "budget"
    refused = await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    assert (refused.status_code, refused.json()["excluded"][0]["code"]) == (409, "account")
    lifted = await operator.put("/v1/ops/accounts/main/cordon", json={"cordoned": False})
    assert lifted.json()["cordoned"] is None
    for name in ("other", "%00"):
        assert (await operator.put(f"/v1/ops/accounts/{name}/cordon", json={"cordoned": True})).status_code == 404
    actions = fleet.run("SELECT action, target FROM audit WHERE action LIKE 'account.%%' ORDER BY id")
    assert actions == [
        {"action": "account.cordon", "target": "main"},
        {"action": "account.uncordon", "target": "main"},
    ]


async def test_a_cordon_is_in_the_summary_until_it_is_lifted(operator: Caller) -> None:
    assert (await operator.get("/v1/ops/summary")).json()["active_brakes"] == []
    cordoned = await operator.put("/v1/ops/accounts/main/cordon", json={"cordoned": True, "note": "audit"})
    answer = await operator.get("/v1/ops/summary")
    keeps_to(OpsSummary, answer.content)
    (brake,) = answer.json()["active_brakes"]
    assert (brake["brake"], brake["account"], brake["region"]) == ("cordon", "main", None)
    assert brake["message"] == f"by {cordoned.json()['cordoned']['by']}: audit"
    await operator.put("/v1/ops/accounts/main/cordon", json={"cordoned": False})
    assert (await operator.get("/v1/ops/summary")).json()["active_brakes"] == []


async def test_the_emergency_stop_says_who_when_and_why(operator: Caller, fleet: Fleet) -> None:
    stopped = await operator.put("/v1/ops/launches", json={"stopped": True, "note": "runaway spend"})
    keeps_to(Brakes, stopped.content)
    key_id = (await operator.get("/v1/me")).json()["key_id"]
    assert (stopped.json()["launches_stopped"]["by"], stopped.json()["launches_stopped"]["note"]) == (
        key_id,
        "runaway spend",
    )
    allowed = await operator.put("/v1/ops/launches", json={"stopped": False})
    assert allowed.json()["launches_stopped"] is None
    assert fleet.run("SELECT count(*) AS n FROM audit WHERE action LIKE 'launches.%%'") == [{"n": 2}]


@contextmanager
def row_of_the_installation_held(fleet: Fleet) -> Iterator[None]:
    """As by a person whose `psql` has begun a transaction."""
    with psycopg.connect(fleet.url) as other:
        other.execute("SELECT FROM installation FOR UPDATE")
        yield


async def test_a_brake_answers_soon_while_another_transaction_holds_its_row(operator: Caller, fleet: Fleet) -> None:
    with row_of_the_installation_held(fleet):
        began = time.monotonic()
        stopped = await operator.put("/v1/ops/launches", json={"stopped": True})
        assert time.monotonic() - began < 10
        assert (stopped.status_code, stopped.json()["code"]) == (503, "database_unavailable")
    assert (await operator.put("/v1/ops/launches", json={"stopped": True})).status_code == 200


async def test_events_that_wait_are_in_the_summary(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    await make(alice)
    fleet.run("UPDATE event SET at = now() - interval '5 minutes'")
    waiting = (await operator.get("/v1/ops/summary")).json()["events"]
    assert (300 <= waiting["unnumbered_seconds"] < 330, waiting["webhooks_seconds"]) == (True, 0)
    for number in range(3):
        fleet.run(
            "INSERT INTO webhook (id, tenant_id, url, position, enabled, disabled_reason, slow, next_due)"
            " SELECT %s, tenant_id, 'https://a.example', 0, %s, %s, %s, now() - interval '1 hour' FROM lease",
            f"webhook_{number}",
            number != 1,
            "by_user" if number == 1 else None,
            number == 2,
        )
    fleet.run("UPDATE webhook SET held_until = now() + interval '1 minute' WHERE id = 'webhook_0'")
    fleet.number_events()
    waiting = (await operator.get("/v1/ops/summary")).json()["events"]
    assert waiting["unnumbered_seconds"] == 0
    assert 300 <= waiting["webhooks_seconds"] < 330, "the oldest event without deliveries"
    fleet.run("UPDATE webhook SET position = 1000")
    assert (await operator.get("/v1/ops/summary")).json()["events"]["webhooks_seconds"] == 0
    fleet.run("UPDATE webhook SET held_until = NULL")
    assert 3600 <= (await operator.get("/v1/ops/summary")).json()["events"]["webhooks_seconds"] < 3630


async def test_the_summary_says_what_only_metrics_said(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    """Leases without a worker, lost hosts, charges without a lease, and the warnings of `/readyz`."""
    await make(alice)
    fleet.run("UPDATE lease SET next_due = now() - interval '5 minutes'")
    fleet.run(
        "INSERT INTO worker_heartbeat (name, kind, host, seen_at) VALUES ('w', 'worker', 'host-1', now()),"
        " ('x', 'worker', 'host-2', now() - interval '2 minutes')"
    )
    fleet.run(
        "INSERT INTO invoice_import (id, file_name, file_hash, provider, month, lines, unlisted_resources)"
        " VALUES ('import_1', 'focus.csv', '', 'aws', date_trunc('month', now()), 1, 3)"
    )
    summary = (await operator.get("/v1/ops/summary")).json()
    assert summary["overdue"]["leases"] == 1
    assert 300 <= summary["overdue"]["seconds"] < 330
    assert summary["lost_hosts"] == [{"host": "host-2", "kind": "worker"}]
    assert summary["unlisted_charges"] == 3
    assert summary["warnings"] == (await operator.get("/readyz")).json()["warnings"]
    assert summary["warnings"] == ["no inventory process reported within 60 s"]


async def test_resuming_lifts_the_hold_once(operator: Caller, fleet: Fleet) -> None:
    fleet.run("""UPDATE installation SET hold = '{"reason": "another timeline", "since": "2026-01-01T00:00:00Z"}'""")
    assert (await operator.get("/v1/ops/summary")).json()["brakes"]["hold"]["reason"] == "another timeline"
    for _ in range(2):
        answer = await operator.post("/v1/ops/resume")
        assert (answer.status_code, answer.json()["hold"]) == (200, None)
    assert fleet.run("SELECT count(*) AS n FROM audit WHERE action = 'hold.lift'") == [{"n": 1}]


async def test_the_summary_shows_a_change_of_a_brake_at_once(
    make_settings: MakeSettings, operator: Caller, fleet: Fleet
) -> None:
    fleet.run("""UPDATE installation SET hold = '{"reason": "another timeline", "since": "2026-01-01T00:00:00Z"}'""")
    seldom = make_settings().model_copy(update={"catalogue_cache_seconds": 3600.0})
    async with serving(seldom) as app, Caller(app, operator.key) as caller:

        async def brakes() -> tuple[bool, bool]:
            shown = (await caller.get("/v1/ops/summary")).json()["brakes"]
            return shown["launches_stopped"] is not None, shown["hold"] is not None

        assert await brakes() == (False, True)
        await caller.put("/v1/ops/launches", json={"stopped": True})
        assert await brakes() == (True, True)
        await caller.put("/v1/ops/launches", json={"stopped": False})
        await caller.post("/v1/ops/resume")
        assert await brakes() == (False, False)


async def test_only_operators_see_or_brake_the_whole(alice: Caller) -> None:
    calls = [
        ("GET", "/v1/ops/summary"),
        ("GET", "/v1/ops/orphans"),
        ("GET", "/v1/ops/tenants"),
        ("GET", "/v1/ops/accounts"),
        ("PUT", "/v1/ops/launches"),
        ("PUT", "/v1/ops/accounts/main/cordon"),
        ("GET", "/v1/ops/accounts/main/checks"),
        ("POST", "/v1/ops/accounts/main/checks"),
        ("POST", "/v1/ops/resume"),
        ("POST", "/v1/ops/orphans/orphan_01jz0000000000000000000000/end"),
    ]
    for method, path in calls:
        answer = await alice.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path


async def test_the_summary_names_tenants_gpus_by_state_and_what_was_taken_back(
    alice: Caller, bob: Caller, operator: Caller, fleet: Fleet
) -> None:
    active, taken = await make(alice), await make(bob)
    fleet.activate(active)
    fleet.attempt(taken, 1, state="dead", ended_at="now()", clean=True, vm_reason='{"interrupted": true}')
    found = (await operator.get("/v1/ops/summary")).json()
    assert {row["state"]: row["gpus"] for row in found["by_state"]} == {"active": 1, "queued": 0}
    assert found["by_tenant"] == [
        {"tenant_id": alice.tenant_id, "name": "alice", "leases": 1, "gpus": 1, "spend_per_hour": "1.006"},
        {"tenant_id": bob.tenant_id, "name": "bob", "leases": 1, "gpus": 0, "spend_per_hour": "0.00"},
    ]
    place = {"provider": "aws", "region": "us-east-1", "instance_type": "g5.xlarge", "market": "on_demand"}
    assert found["interruptions"] == {"total": 1, "worst": [{**place, "interruptions": 1}]}


async def test_a_poll_of_an_unchanged_summary_is_answered_with_304(
    make_settings: MakeSettings, database_url: str, fleet: Fleet
) -> None:
    async with serving(make_settings()) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        alice = await new_tenant(operator, "alice", gpus=8)
        fleet.activate(await make(alice))
        first = await operator.get("/v1/ops/summary")
        known = {"If-None-Match": first.headers["etag"]}
        assert (await operator.get("/v1/ops/summary", headers=known)).status_code == 304
        await make(alice)
        changed = await operator.get("/v1/ops/summary", headers=known)
        assert changed.status_code == 200
        assert changed.json()["as_of"] > first.json()["as_of"]


async def test_a_process_that_fell_silent_changes_the_summary(
    make_settings: MakeSettings, database_url: str, fleet: Fleet
) -> None:
    """A quarter of a minute after its last report: a roll-out shows no more processes than there are."""
    fleet.run("INSERT INTO worker_heartbeat (name, kind) VALUES ('w', 'worker')")
    async with serving(make_settings()) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        first = await operator.get("/v1/ops/summary")
        fleet.run("UPDATE worker_heartbeat SET seen_at = now() - interval '15 seconds'")
        second = await operator.get("/v1/ops/summary", headers={"If-None-Match": first.headers["etag"]})
        assert [answer.json()["processes"][0]["processes"] for answer in (first, second)] == [1, 0]


async def test_a_check_of_the_invariants_with_the_same_result_leaves_the_summary_unchanged(
    make_settings: MakeSettings, database_url: str, fleet: Fleet
) -> None:
    fleet.run(
        "INSERT INTO invariant (name, violations, examples, checked_at) VALUES ('one', 0, '[]', '2026-01-01T10:00Z')"
    )
    async with serving(make_settings()) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        known = {"If-None-Match": (await operator.get("/v1/ops/summary")).headers["etag"]}
    for change, status in (
        ("checked_at = '2026-01-01T10:01Z'", 304),
        ("checked_at = '2026-01-01T10:10Z'", 200),
        ("violations = 1, since = now()", 200),
    ):
        fleet.run(f"UPDATE invariant SET {change}")
        async with serving(make_settings()) as app:
            operator = Caller(app, ensure_operator_key(database_url, None))
            found = await operator.get("/v1/ops/summary", headers=known)
            assert found.status_code == status
            known = {"If-None-Match": found.headers["etag"]}


async def test_tenants_are_listed_with_their_room_and_what_runs(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    fleet.activate(await make(alice))
    await new_tenant(operator, "carol", gpus=2)
    first = await operator.get("/v1/ops/tenants?limit=1")
    keeps_to(TenantUsePage, first.content)
    rest = await operator.get(f"/v1/ops/tenants?limit=1&cursor={first.json()['next_cursor']}")
    carol, shown = first.json()["items"][0], rest.json()["items"][0]
    assert (carol["name"], carol["leases"], carol["spend_per_hour"]) == ("carol", 0, "0.00")
    assert (shown["name"], shown["status"], shown["leases"], shown["gpus"]) == ("alice", "active", 1, 1)
    assert shown["spend_per_hour"] == "1.006"
    assert shown["quotas"] == (await alice.get("/v1/quotas")).json()["items"]
    known = {"If-None-Match": first.headers["etag"]}
    assert (await operator.get("/v1/ops/tenants?limit=1", headers=known)).status_code == 304


async def test_reports_of_the_whole_installation_name_a_limited_number(operator: Caller, store: Store) -> None:
    """The sums count all."""
    tenants = [store.tenant() for _ in range(101)]
    ending = {
        "state": "releasing",
        "desired": "end",
        "release_requested_at": ago("1 hour"),
        "expires_at": ahead("1 hour"),
    }
    billed = {"rate_per_hour": Decimal(1), "rate_since": ago("1 minute"), "gpu_count": 1, "wait_until": ago("1 hour")}
    own = [{"id": new_id("lease"), "tenant_id": tenants[n % 101], "name": f"t{n}"} for n in range(1001)]
    store.run(insert(lease).values([{**LEASE, **ending, **billed, **one} for one in own]))
    summary = (await operator.get("/v1/ops/summary")).json()
    fleet = (await operator.get("/v1/metrics/fleet")).json()
    store.run(delete(lease))
    assert (len(summary["by_tenant"]), len(summary["stuck"])) == (100, 100)
    assert (len(fleet["leases"]), fleet["gpus_paid"]) == (1000, 1001)
