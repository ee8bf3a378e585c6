"""The job closes hours once, corrects them, keeps their sums, and sends them to webhooks that select them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.operations import purge
from app.db.schema.tables import (
    attempt,
    cost_rollup,
    lease,
    usage_progress,
    usage_record,
    volume,
    webhook,
    webhook_delivery,
)
from app.domain.usage import RECORDS_KEPT_DAYS, UsageStep, record_key
from tests.db.store import Store, together
from tests.db.usage.histories import Billed, add, end
from workers.jobs.record_usage import record_usage
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

HOUR = timedelta(hours=1)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=4)
    yield Store(database)
    database.close()


def run(store: Store) -> int:
    runtime = SimpleNamespace(database=store.database, stopping=Event(), settings=SimpleNamespace(sample_seconds=60))
    return record_usage(cast(Runtime, runtime), "", "")


def over(store: Store) -> datetime:
    """The end of the last hour that the job may close, with room for a change of the hour during the test."""
    row = store.first(select(func.now()))
    assert row is not None
    return UsageStep.HOUR.floor(row[0] - 10 * timedelta(minutes=1)) - HOUR


def sums(store: Store, step: UsageStep) -> dict[datetime, tuple[Any, ...]]:
    rows = store.all(select(cost_rollup).where(cost_rollup.c.step == str(step)))
    return {row.starts_at: (row.compute_cost, row.gpu_hours, row.leases, row.leases_started) for row in rows}


def test_hours_are_closed_once_by_concurrent_jobs(store: Store) -> None:
    at = over(store)
    add(store, Billed(at - 30 * HOUR, HOUR, Decimal(2)))
    add(store, Billed(at - 30 * HOUR, HOUR, Decimal(3)), market="on_demand")
    assert sum(together(4, lambda _: run(store))) >= 60
    rows = store.rows(usage_record)
    assert len({(row.attempt_id, row.starts_at) for row in rows}) == len(rows)
    assert {row.revision for row in rows} == {0}
    assert run(store) == 0
    per_hour = store.all(select(func.sum(cost_rollup.c.compute_cost)).where(cost_rollup.c.step == "hour"))
    per_day = store.all(select(func.sum(cost_rollup.c.compute_cost)).where(cost_rollup.c.step == "day"))
    assert per_hour == per_day
    assert per_hour[0][0] == sum(row.compute_cost for row in rows)


def make_volume(store: Store, since: datetime, until: datetime | None) -> None:
    """A volume of 100 GiB that is billed between these times."""
    ended = {"state": "deleted", "billing_ended_at": until, "ended_at": until} if until else {"state": "available"}
    place = {"provider": "aws", "account": "main", "region": "us-east-1", "zone": "us-east-1a"}
    facts = {"id": "vol_x", "tenant_id": store.tenant_id, "key_id": "key_x", "name": "data", "size_gib": 100}
    billed = {"cloud_id": "disk", "billing_started_at": since, "price_per_hour": Decimal("0.01"), "retry_at": None}
    store.run(insert(volume).values(**facts, **place, **billed, **ended))


def test_a_volume_is_recorded_for_each_hour_and_counts_as_no_lease(store: Store) -> None:
    at = over(store)
    make_volume(store, at - 30 * HOUR, at - 27.5 * HOUR)
    add(store, Billed(at - 29 * HOUR, HOUR, Decimal(2)))
    together(3, lambda _: run(store))
    rows = store.all(select(usage_record).where(usage_record.c.instance_type == "volume"))
    recorded = {row.starts_at: (row.disk_cost, row.disk_gib_hours) for row in rows}
    assert len(rows) == 3
    assert recorded[at - 30 * HOUR] == (Decimal("0.01"), 100)
    assert recorded[at - 28 * HOUR] == (Decimal("0.005"), 50)
    assert {row.price_per_hour for row in rows} == {Decimal("0.01")}
    assert {(row.attempt_id, row.lease_id, row.lease_name, row.instance_id) for row in rows} == {
        ("vol_x", "vol_x", "data", "disk")
    }
    costs = store.all(select(cost_rollup).where(cost_rollup.c.step == "hour", cost_rollup.c.instance_type == "volume"))
    assert {(row.leases, row.gpu_hours, row.compute_cost) for row in costs} == {(0, 0, 0)}
    assert sum(row.disk_cost for row in costs) == Decimal("0.025")


def test_hours_in_which_only_a_volume_is_billed_are_closed(store: Store) -> None:
    at = over(store)
    add(store, Billed(at - 60 * HOUR, HOUR, Decimal(2)))
    make_volume(store, at - 3 * HOUR, None)
    run(store)
    rows = store.all(select(usage_record).where(usage_record.c.instance_type == "volume"))
    assert {row.starts_at for row in rows} >= {at - 3 * HOUR, at - 2 * HOUR, at - HOUR}


def test_sums_follow_a_correction(store: Store) -> None:
    at = over(store)
    first = UsageStep.DAY.floor(at - timedelta(days=3)) + 22 * HOUR
    attempt_id = add(store, Billed(first, HOUR, Decimal(2)))
    run(store)
    hours = sums(store, UsageStep.HOUR)
    assert hours[first] == (2, 4, 1, 1)
    assert hours[first + HOUR] == (2, 4, 1, 0)
    days = sums(store, UsageStep.DAY)
    assert days[first - 22 * HOUR] == (4, 8, 1, 1)
    assert days[first + 2 * HOUR] == (48, 96, 1, 0)
    end(store, attempt_id, first + HOUR + HOUR / 2)
    store.write(attempt, attempt_id, ended_at=func.now())
    assert run(store) > 24
    hours = sums(store, UsageStep.HOUR)
    assert hours[first + HOUR] == (1, 2, 1, 0)
    assert hours[first + 2 * HOUR] == (0, 0, 0, 0)
    days = sums(store, UsageStep.DAY)
    assert days[first - 22 * HOUR] == (3, 6, 1, 1)
    assert days[first + 2 * HOUR] == (0, 0, 0, 0)


def hook(store: Store, tenant_id: str, body_format: str, types: list[str] | None, **more: Any) -> str:
    webhook_id = new_id("webhook")
    facts = {"tenant_id": tenant_id, "url": "https://x.example", "position": 0, "format": body_format}
    created = {"created_at": over(store) - 4 * HOUR + HOUR / 2}
    store.run(insert(webhook).values(id=webhook_id, event_types=types, **{**facts, **created, **more}))
    return webhook_id


def test_records_go_to_the_webhooks_that_select_them(store: Store) -> None:
    at = over(store)
    wanted = hook(store, store.tenant_id, "cloudevents", ["lease.active", "usage.hour"])
    for body_format, types, tenant_id in (
        ("cloudevents", None, store.tenant_id),
        ("cloudevents", ["lease.active"], store.tenant_id),
        ("cloudevents", ["usage.hour"], store.tenant()),
    ):
        hook(store, tenant_id, body_format, types)
    hook(store, store.tenant_id, "cloudevents", ["usage.hour"], enabled=False, disabled_reason="by_user")
    hook(store, store.tenant_id, "cloudevents", ["usage.hour"], created_at=text("now() + interval '1 hour'"))
    attempt_id = add(store, Billed(at - 9 * HOUR, HOUR, Decimal("1.5"), disk=Decimal("0.25")))
    run(store)
    found = store.rows(webhook_delivery)
    assert {row.webhook_id for row in found} == {wanted}
    assert len(found) in {5, 6}, "of the hours that end after the webhook's creation"
    latest = max(found, key=lambda row: row.event_at)
    assert latest.event_id == record_key(attempt_id, latest.event_at, 0)
    assert (latest.event_type, latest.sequence) == ("usage.hour", None)
    data = latest.about
    assert (data["cost"], data["compute_cost"], data["disk_cost"], data["seconds"]) == ("1.75", "1.5", "0.25", 3600)
    assert (data["gpu_hours"], data["attempt_id"], data["labels"]) == (4, attempt_id, {"team": "vision"})
    assert store.row(webhook, wanted).next_due is not None
    run(store)
    assert len(store.rows(webhook_delivery)) == len(found), "a record is sent once"


def test_a_lease_is_purged_when_its_usage_is_recorded_and_records_stay_400_days(store: Store) -> None:
    at = over(store)
    one = Billed(at - timedelta(days=100), HOUR, Decimal(2))
    attempt_id = add(store, one)
    end(store, attempt_id, one.ended)
    ended = {"state": "released", "desired": "end", "next_due": None, "ended_at": one.ended}
    store.write(lease, store.row(attempt, attempt_id).lease_id, **ended)
    store.run(
        update(usage_progress).values(recorded_corrections_until=one.ended - HOUR, recorded_until=one.began - HOUR)
    )
    assert store.changed(purge.leases(days=90, limit=10)) == 0
    run(store)
    assert store.changed(purge.leases(days=90, limit=10)) == 1
    for table in (usage_record, cost_rollup):
        (kept,) = {row.starts_at for row in store.rows(table) if getattr(row, "step", "hour") == "hour"}
        aged = text(f"now() - interval '{RECORDS_KEPT_DAYS + 1} days'")
        store.run(insert(table).from_select([*table.c.keys()], _copy(table, aged)))
        for statement in purge.STATEMENTS:
            store.run(statement)
        assert {row.starts_at for row in store.rows(table) if getattr(row, "step", "hour") == "hour"} == {kept}


def _copy(table: Any, starts_at: Any) -> Any:
    columns = [starts_at if column.name == "starts_at" else column for column in table.c]
    where = table.c.step == "hour" if "step" in table.c else text("true")
    return select(*columns).where(where)
