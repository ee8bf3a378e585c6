"""GET /v1/usage: sums over time, stored ones and live ones, for tenants and for operators."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg.types.json import Jsonb

from app.api.schemas.usage import Usage
from tests.api.conftest import Caller
from tests.api.fleet import PLACE_FACTS, Fleet
from workers.jobs.roll_up_usage import roll_up_usage
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

HOUR = timedelta(hours=1)
WISH = {"gpu": {"model": "A10G", "count": 1}, "market": "on_demand", "ttl_seconds": 3600}
PRICE = Decimal("1.006")


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
def worker(database_url: str) -> Iterator[WorkerDatabase]:
    database = WorkerDatabase(database_url, pool_size=2)
    yield database
    database.close()


def roll_up(worker: WorkerDatabase) -> None:
    settings = SimpleNamespace(lease_retention_days=90)
    roll_up_usage(cast(Runtime, SimpleNamespace(database=worker, stopping=Event(), settings=settings)), "", "")


async def lease(caller: Caller, fleet: Fleet, began: str, model: str = "A10G", provider: str = "aws") -> str:
    """A lease whose VM has run since `began` (an interval) ago, and runs still."""
    lease_id = str((await caller.post("/v1/leases", json=WISH)).json()["id"])
    fleet.activate(lease_id)
    hardware = Jsonb({**PLACE_FACTS, "gpu": {**PLACE_FACTS["gpu"], "model": model}})
    fleet.run(
        "UPDATE attempt SET billing_started_at = now() - CAST(%s AS interval), offering = %s, provider = %s WHERE lease_id = %s",
        began,
        hardware,
        provider,
        lease_id,
    )
    created = "UPDATE lease SET created_at = now() - CAST(%s AS interval), gpu_model = %s, provider = %s WHERE id = %s"
    fleet.run(created, began, model, provider, lease_id)
    return lease_id


async def usage(caller: Caller, **query: Any) -> dict[str, Any]:
    answer = await caller.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    Usage.model_validate(answer.json())
    found: dict[str, Any] = answer.json()
    return found


def spent(found: dict[str, Any]) -> Decimal:
    return sum((Decimal(one["cost"]) for one in found["items"]), Decimal(0))


async def days_ago(caller: Caller, days: int) -> str:
    """By the clock of the database."""
    return str((moment((await usage(caller))["as_of"]) - timedelta(days=days)).isoformat())


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


async def test_without_leases_there_is_nothing_to_report(alice: Caller) -> None:
    found = await usage(alice)
    assert (found["items"], found["groups"], found["step"], found["covers"]) == ([], [], "hour", "compute_disk_address")
    assert moment(found["ends_at"]) - moment(found["starts_at"]) == 24 * HOUR


async def test_stored_and_live_sums_make_up_the_ledger(alice: Caller, fleet: Fleet, worker: WorkerDatabase) -> None:
    await lease(alice, fleet, "30 hours")
    since = await days_ago(alice, 3)
    before = await usage(alice, **{"from": since})
    roll_up(worker)
    fleet.run("UPDATE attempt SET price_per_hour = 0")
    live_free = await usage(alice, top=1, **{"from": since})
    fleet.run("UPDATE attempt SET price_per_hour = %s", PRICE)
    for step in ("hour", "day"):
        found = await usage(alice, step=step, **{"from": since})
        (row,) = fleet.run("SELECT billing_started_at AS began FROM attempt")
        ledger = PRICE * Decimal((moment(found["as_of"]) - row["began"]).total_seconds()) / 3600
        assert abs(spent(found) - ledger) < Decimal("0.0001")
        assert abs(Decimal(found["groups"][0]["cost"]) - ledger) < Decimal("0.0001")
        assert sum(one["leases_created"] for one in found["items"]) == 1
    assert spent(before) > 0
    # in the first minute of an hour nothing is live yet
    assert 0 < spent(live_free) <= spent(before), "finished hours are read from the stored sums"


async def test_an_average_of_the_current_hour_is_one_of_its_part_that_is_over(alice: Caller, fleet: Fleet) -> None:
    await lease(alice, fleet, "30 hours")
    for item in (await usage(alice))["items"]:
        assert item["gpus"] == pytest.approx(1, abs=0.001)
        assert Decimal(item["spend_per_hour"]) == pytest.approx(PRICE, abs=Decimal("0.001"))


@pytest.mark.parametrize("stored", [False, True])
async def test_groups_are_ranked_and_the_rest_is_summed_up(
    operator: Caller, alice: Caller, bob: Caller, fleet: Fleet, worker: WorkerDatabase, *, stored: bool
) -> None:
    for caller, began, model, provider in (
        (alice, "20 hours", "A100", "aws"),
        (alice, "10 hours", "H100", "gcp"),
        (bob, "5 hours", "L4", "azure"),
    ):
        await lease(caller, fleet, began, model, provider)
    if stored:
        roll_up(worker)
    by = {name: await usage(operator, group_by=name, top=2) for name in ("tenant", "provider", "gpu_model", "none")}
    assert [(one["group"], one["name"]) for one in by["tenant"]["groups"]] == [
        (alice.tenant_id, "alice"),
        (bob.tenant_id, "bob"),
    ]
    assert [one["group"] for one in by["provider"]["groups"]] == ["aws", "gcp", "other"]
    assert [one["group"] for one in by["gpu_model"]["groups"]] == ["A100", "H100", "other"]
    assert [one["group"] for one in by["none"]["groups"]] == [None]
    costs = {name: spent(found) for name, found in by.items()}
    # the leases run on between the questions, at three dollars an hour
    assert max(costs.values()) - min(costs.values()) < Decimal("0.02"), costs
    mine = await usage(bob, group_by="provider")
    assert [one["group"] for one in mine["groups"]] == ["azure"]
    assert (await usage(operator, group_by="provider", tenant_id=bob.tenant_id))["groups"] == mine["groups"]
    assert [one["name"] for one in (await usage(bob, group_by="tenant"))["groups"]] == ["bob"]


async def test_a_tenant_may_not_name_another(alice: Caller, bob: Caller) -> None:
    answer = await alice.get("/v1/usage", params={"tenant_id": bob.tenant_id})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/query/tenant_id")
    assert (await alice.get("/v1/usage", params={"tenant_id": alice.tenant_id})).status_code == 200


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"from": "yesterday"}, "#/query/from"),
        ({"from": "2026-01-01T00:00:00"}, "#/query/from"),
        ({"from": "2126-01-01T00:00:00Z"}, "#/query/from"),
        ({"from": "1999-01-01T00:00:00Z"}, "#/query/from"),
        ({"to": "1999-01-01T00:00:00Z"}, "#/query/to"),
        ({"to": "0001-01-01T00:00:00Z"}, "#/query/to"),
        ({"step": "minute"}, "#/query/step"),
        ({"group_by": "region"}, "#/query/group_by"),
        ({"top": "0"}, "#/query/top"),
    ],
)
async def test_a_wrong_question_names_its_parameter(alice: Caller, query: dict[str, str], pointer: str) -> None:
    answer = await alice.get("/v1/usage", params=query)
    assert answer.status_code == 422, answer.text
    assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]


async def test_a_long_range_needs_days(alice: Caller) -> None:
    since = await days_ago(alice, 40)
    refused = await alice.get("/v1/usage", params={"from": since})
    assert refused.status_code == 422
    assert "step=day" in refused.json()["errors"][0]["detail"]
    assert (await usage(alice, step="day", **{"from": since}))["items"] == []
    too_long = await alice.get("/v1/usage", params={"from": await days_ago(alice, 401), "step": "day"})
    assert too_long.status_code == 422


async def test_readers_of_one_minute_share_a_report_and_tenants_do_not(
    operator: Caller, alice: Caller, bob: Caller, fleet: Fleet
) -> None:
    await lease(alice, fleet, "5 hours")
    for caller, some in ((alice, True), (bob, False), (operator, True), (alice, True), (bob, False)):
        assert bool((await usage(caller))["items"]) is some


async def test_an_unchanged_report_is_not_sent_again(operator: Caller) -> None:
    past = {"from": "2026-10-01T00:00:00Z", "to": "2026-10-02T00:00:00Z"}
    first = await operator.get("/v1/usage", params=past)
    again = await operator.get("/v1/usage", params=past, headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
