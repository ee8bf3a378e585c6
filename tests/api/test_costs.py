"""GET /v1/costs: stored and open hours in one report, for tenants and for operators."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from app.api.schemas.costs import Costs
from app.db.schema.tables import attempt, lease
from app.domain.ids import TenantId
from app.domain.usage import UsageStep
from tests.api.conftest import Caller
from tests.db.store import Store
from tests.db.usage.histories import Billed, add, end
from workers.jobs.record_usage import record_usage
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

HOUR = timedelta(hours=1)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=2)
    yield Store(database)
    database.close()


def run_job(store: Store) -> None:
    record_usage(
        cast(
            Runtime,
            SimpleNamespace(database=store.database, stopping=Event(), settings=SimpleNamespace(sample_seconds=60)),
        ),
        "",
        "",
    )


def clock(store: Store) -> datetime:
    row = store.first(select(func.now()))
    assert row is not None
    return cast(datetime, row[0].astimezone(UTC))


def of(store: Store, caller: Caller) -> Store:
    """Rows of the caller's tenant."""
    store.tenant_id = TenantId(caller.tenant_id)
    return store


async def costs(caller: Caller, **query: Any) -> dict[str, Any]:
    answer = await caller.get("/v1/costs", params=query)
    assert answer.status_code == 200, answer.text
    Costs.model_validate(answer.json())
    found: dict[str, Any] = answer.json()
    return found


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def hours_of(found: dict[str, Any], running: Billed) -> Decimal:
    """How long `running` had run at the whole minute that an answer is of."""
    return Decimal((moment(found["as_of"]) - running.began).total_seconds()) / 3600


async def test_without_use_there_is_nothing_to_report(alice: Caller) -> None:
    found = await costs(alice)
    assert (found["items"], found["next_cursor"], found["currency"]) == ([], None, "USD")
    assert found["total"] == {
        **dict.fromkeys(("cost", "compute", "disk", "address", "list_cost", "savings"), "0.00"),
        "gpu_hours": 0,
        "idle_gpu_hours": None,
        "idle_cost": None,
        "leases": 0,
    }


@pytest.mark.parametrize("bucket", ["hour", "day", "month"])
async def test_stored_and_open_hours_are_what_the_attempts_cost(alice: Caller, store: Store, bucket: str) -> None:
    now = clock(store)
    running = Billed(
        now - 50 * HOUR, 50 * HOUR, Decimal(1), disk=Decimal("0.5"), address=Decimal("0.25"), listed=Decimal(4)
    )
    ended = Billed(now - 40 * HOUR, 3 * HOUR, Decimal(2))
    add(of(store, alice), running)
    end(store, add(store, ended), ended.ended)
    since = (now - timedelta(days=4)).isoformat()
    for _ in range(2):
        found = await costs(alice, bucket=bucket, **{"from": since})
        hours = hours_of(found, running)
        total = found["total"]
        expected = {
            "compute": hours + 6,
            "disk": hours / 2,
            "address": hours / 4,
            "cost": hours * 7 / 4 + 6,
            "list_cost": hours * 19 / 4 + 6,
            "savings": hours * 3,
        }
        for name, amount in expected.items():
            assert abs(Decimal(total[name]) - amount) < Decimal("0.00001"), name
            summed = sum(Decimal(item[name]) for item in found["items"])
            assert abs(summed - amount) < Decimal("0.0001"), name
        assert total["leases"] == 2
        assert total["gpu_hours"] == pytest.approx(float(hours * 4 + 12), abs=0.001)
        assert all(moment(item["start"]).minute == 0 for item in found["items"])
        by_lease = await costs(alice, bucket=bucket, group_by="lease,label:team", **{"from": since})
        assert abs(Decimal(by_lease["total"]["cost"]) - (hours_of(by_lease, running) * 7 / 4 + 6)) < Decimal("0.00001")
        assert {item["group"]["label:team"] for item in by_lease["items"]} == {"vision"}
        assert {item["leases"] for item in by_lease["items"]} == {1}
        run_job(store)  # what was open is stored now


async def test_stored_hours_are_read_and_not_computed(alice: Caller, store: Store) -> None:
    now = clock(store)
    add(of(store, alice), Billed(now - 30 * HOUR, HOUR, Decimal(1)))
    run_job(store)
    before = await costs(alice)
    for row in store.rows(attempt):
        store.write(attempt, row.id, price_per_hour=0)
    after = await costs(alice)
    # open are this hour and, in its first two minutes, the one before
    assert Decimal("28.9") <= Decimal(after["total"]["cost"]) <= Decimal(before["total"]["cost"])


async def test_a_lease_counts_once_in_a_month(alice: Caller, store: Store) -> None:
    month = UsageStep.DAY.floor(clock(store) - timedelta(days=70)).replace(day=2)
    one = Billed(month, timedelta(days=5), Decimal(1))
    end(store, add(of(store, alice), one), one.ended)
    later = Billed(month + timedelta(days=2), timedelta(days=5), Decimal(1))
    end(store, add(store, later), later.ended)
    run_job(store)
    found = await costs(alice, bucket="month", **{"from": month.isoformat()})
    assert [(item["leases"], item["cost"]) for item in found["items"]] == [(2, "240.00")]
    days = await costs(alice, **{"from": month.isoformat(), "to": (month + timedelta(days=7)).isoformat()})
    assert [item["leases"] for item in days["items"]] == [1, 1, 2, 2, 2, 1, 1]
    assert days["total"]["leases"] == 2


async def test_pages_are_in_order_and_complete(operator: Caller, alice: Caller, bob: Caller, store: Store) -> None:
    day = UsageStep.DAY.floor(clock(store)) - timedelta(days=5)
    for caller, kind in ((alice, "g5.xlarge"), (bob, "p4d.24xlarge"), (bob, "g5.xlarge")):
        one = Billed(day, timedelta(days=3), Decimal(1))
        end(store, add(of(store, caller), one, instance_type=kind), one.ended)
    run_job(store)
    query = {"from": day.isoformat(), "group_by": "tenant,instance_type"}
    whole = await costs(operator, **query)
    assert len(whole["items"]) == 9
    assert {item["group"]["tenant"] for item in whole["items"]} == {alice.tenant_id, bob.tenant_id}
    pages: list[dict[str, Any]] = []
    following: str | None = ""
    while following is not None:
        more = {"cursor": following} if following else {}
        found = await costs(operator, limit=2, **query, **more)
        assert found["total"] == whole["total"]
        pages += found["items"]
        following = found["next_cursor"]
    assert pages == whole["items"]
    mine = await costs(bob, **query)
    assert {item["group"]["tenant"] for item in mine["items"]} == {bob.tenant_id}
    assert mine["items"] == (await costs(operator, tenant_id=bob.tenant_id, **query))["items"]
    refused = await operator.get("/v1/costs", params={"cursor": whole["next_cursor"] or "bm8", "limit": 2})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/query/cursor")


async def test_csv_has_all_pages_and_the_same_amounts(alice: Caller, store: Store) -> None:
    day = UsageStep.DAY.floor(clock(store)) - timedelta(days=5)
    one = Billed(day, timedelta(days=3), Decimal(1))
    attempt_id = add(of(store, alice), one)
    end(store, attempt_id, one.ended)
    store.write(lease, store.row(attempt, attempt_id).lease_id, labels={"team": 'a,"b"'})
    run_job(store)
    query: dict[str, Any] = {"from": day.isoformat(), "group_by": "label:team,label:other", "limit": 1}
    answer = await alice.get("/v1/costs", params=query, headers={"Accept": "text/csv"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 3
    assert (rows[0]["label:team"], rows[0]["label:other"], rows[0]["cost"]) == ('a,"b"', "", "24.00")
    assert moment(rows[0]["start"]) == day
    item = (await costs(alice, **query))["items"][0]
    assert item["group"] == {"label:team": 'a,"b"', "label:other": None}
    assert rows[0]["gpu_hours"] == str(item["gpu_hours"])


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"from": "yesterday"}, "#/query/from"),
        ({"from": "2126-01-01T00:00:00Z"}, "#/query/from"),
        ({"from": "1999-01-01T00:00:00Z"}, "#/query/from"),
        ({"to": "0001-01-01T00:00:00Z"}, "#/query/to"),
        ({"bucket": "week"}, "#/query/bucket"),
        ({"group_by": "zone"}, "#/query/group_by"),
        ({"group_by": "tenant,tenant"}, "#/query/group_by"),
        ({"group_by": "tenant,region,market"}, "#/query/group_by"),
        ({"group_by": "label:"}, "#/query/group_by"),
        ({"limit": "0"}, "#/query/limit"),
        ({"cursor": "eyJ4"}, "#/query/cursor"),
    ],
)
async def test_a_wrong_question_names_its_parameter(alice: Caller, query: dict[str, str], pointer: str) -> None:
    answer = await alice.get("/v1/costs", params=query)
    assert answer.status_code == 422, answer.text
    assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]


async def test_a_long_range_of_hours_and_another_tenant_are_refused(alice: Caller, bob: Caller, store: Store) -> None:
    since = (clock(store) - timedelta(days=40)).isoformat()
    refused = await alice.get("/v1/costs", params={"bucket": "hour", "from": since})
    assert "bucket=day" in refused.json()["errors"][0]["detail"]
    assert (await alice.get("/v1/costs", params={"tenant_id": bob.tenant_id})).status_code == 422
