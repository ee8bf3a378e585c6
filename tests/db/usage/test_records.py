"""Usage records add up to what the attempts cost, and those of closed hours never change."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, text

from app.db.schema.tables import attempt, attempt_price, gpu_sample, lease, usage_record
from app.db.usage import records
from app.domain.usage import UsageStep
from tests.db.store import Store
from tests.db.usage.histories import Billed, add, billed, end

HOUR = timedelta(hours=1)
EXACT = Decimal("0.000001")
MONTHS = {
    "a leap day": datetime(2028, 2, 27, tzinfo=UTC),
    "clocks go forward": datetime(2027, 3, 26, tzinfo=UTC),
    "clocks go back, the month ends": datetime(2027, 10, 29, tzinfo=UTC),
    "the year ends": datetime(2026, 12, 29, tzinfo=UTC),
}
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata")


def stored(store: Store) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = [row._mapping for row in store.rows(usage_record)]
    return {(row["attempt_id"], row["starts_at"], row["revision"]): tuple(map(str, row.values())) for row in rows}


def close(store: Store, zone: str, since: datetime, until: datetime) -> None:
    with store.database.begin() as connection:
        connection.execute(text(f"SET LOCAL TIME ZONE '{zone}'"))
        connection.execute(*records.close(since, until))


def correct(store: Store, zone: str, ids: list[str], since: datetime, until: datetime) -> int:
    with store.database.begin() as connection:
        connection.execute(text(f"SET LOCAL TIME ZONE '{zone}'"))
        return len(connection.execute(*records.correct(ids, since, until)).all())


def forget(store: Store) -> None:
    for table in (attempt, attempt_price, lease, usage_record):
        store.run(delete(table))


def must_add_up(store: Store, attempt_id: str, one: Billed) -> None:
    rows = [row for row in store.rows(usage_record) if row.attempt_id == attempt_id]
    for name, amount in one.costs().items():
        assert abs(sum(getattr(row, name) for row in rows) - amount) <= EXACT, name
    spent = sum(row.seconds for row in rows)
    assert spent == Decimal(one.lasted // timedelta(microseconds=1)) / 1_000_000
    assert abs(sum(row.gpu_hours for row in rows) - spent * 4 / 3600) < EXACT
    assert abs(sum(row.disk_gib_hours for row in rows) - spent * 100 / 3600) < EXACT


@settings(max_examples=20)
@given(data=st.data(), first=st.sampled_from(sorted(MONTHS.values())), zone=st.sampled_from(ZONES))
def test_records_are_the_ledger_and_closed_hours_never_change(
    store: Store, data: st.DataObject, first: datetime, zone: str
) -> None:
    histories = data.draw(st.lists(billed(first, first + timedelta(days=5)), min_size=1, max_size=5))
    last = UsageStep.HOUR.ceil(max(one.ended + one.late for one in histories)) + HOUR
    count = (last - first) // HOUR
    cuts = data.draw(st.sets(st.integers(1, count - 1), max_size=6))
    ids = [add(store, one) for one in histories]
    known: set[str] = set()
    try:
        for since, until in pairwise(first + HOUR * cut for cut in sorted({0, *cuts, count})):
            before = stored(store)
            for attempt_id, one in zip(ids, histories, strict=True):
                if attempt_id not in known and one.ended + one.late <= until:
                    end(store, attempt_id, one.ended)
                    known.add(attempt_id)
            close(store, zone, since, until)
            correct(store, zone, ids, first, until)
            assert stored(store).items() >= before.items(), "a stored record changed"
        for attempt_id, one in zip(ids, histories, strict=True):
            must_add_up(store, attempt_id, one)
        rows = store.rows(usage_record)
        assert {row.starts_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0) for row in rows} == {
            row.starts_at for row in rows
        }
        assert all(row.seconds <= 3600 for row in rows)
        assert correct(store, zone, ids, first, last) == 0, "storing again changes nothing"
        final = stored(store)
        for table in (attempt_price, attempt, lease):
            store.run(delete(table))
        correct(store, zone, ids, first, last)
        assert stored(store) == final, "a record outlives its lease"
    finally:
        forget(store)


def test_an_end_that_is_seen_late_is_a_row_of_its_own(store: Store) -> None:
    first = datetime(2026, 10, 1, tzinfo=UTC)
    one = Billed(first, timedelta(minutes=90), Decimal(2))
    attempt_id = add(store, one)
    close(store, "UTC", first, first + 3 * HOUR)
    store.write(lease, store.row(attempt, attempt_id).lease_id, labels={"team": "speech"}, name="renamed")
    end(store, attempt_id, one.ended)
    assert correct(store, "UTC", [attempt_id], first, first + 3 * HOUR) == 2
    rows = sorted(store.rows(usage_record), key=lambda row: (row.starts_at, row.revision))
    assert [((row.starts_at - first) // HOUR, row.revision, row.compute_cost) for row in rows] == [
        (0, 0, 2),
        (1, 0, 2),
        (1, 1, -1),
        (2, 0, 2),
        (2, 1, -2),
    ]
    assert {row.labels["team"] for row in rows} == {"vision"}, "a correction belongs to what it corrects"
    must_add_up(store, attempt_id, one)


def test_a_vm_that_is_adopted_late_is_a_correction(store: Store) -> None:
    first = datetime(2026, 10, 1, tzinfo=UTC)
    attempt_id = add(store, Billed(first, timedelta(minutes=90), Decimal(2)))
    end(store, attempt_id, first + timedelta(minutes=90))
    correct(store, "UTC", [attempt_id], first, first + 3 * HOUR)
    assert sorted((row.revision, row.compute_cost) for row in store.rows(usage_record)) == [(1, 1), (1, 2)]


def test_a_record_names_the_last_price_of_its_hour(store: Store) -> None:
    first = datetime(2026, 10, 1, tzinfo=UTC)
    add(store, Billed(first, 2 * HOUR, Decimal(2), changes=((timedelta(minutes=30), Decimal(4)),)), price_source="list")
    close(store, "UTC", first, first + HOUR)
    (row,) = store.rows(usage_record)
    assert (row.compute_cost, row.price_per_hour, row.price_source) == (3, 4, "x")
    assert row.price_as_of == first + timedelta(minutes=30)
    assert (row.gpu_model, row.gpu_count, row.lease_name, row.labels) == ("A100", 4, "t", {"team": "vision"})
    assert row.idle_gpu_hours is None


def _earlier(store: Store) -> datetime:
    """A full hour of which samples may be stored."""
    return UsageStep.HOUR.floor(store.now()) - 3 * HOUR


def sample(store: Store, attempt_id: str, at: datetime, *percentages: int) -> None:
    uuids = [f"GPU-{n}" for n in range(len(percentages))]
    owner = {"lease_id": store.row(attempt, attempt_id).lease_id, "tenant_id": store.tenant_id}
    values = {"uuids": uuids, "gpu_values": [list(percentages)] * 4, "idle": max(percentages) <= 5}
    store.run(insert(gpu_sample).values(**owner, at=at, **values))


def test_idle_hours_are_those_of_the_samples_and_stay_as_the_hour_was_closed(store: Store) -> None:
    first = _earlier(store)
    one = Billed(first, 2 * HOUR, Decimal(2))
    attempt_id = add(store, one)
    for minute in range(30):
        sample(store, attempt_id, first + timedelta(minutes=minute), 0, 5, 3, 0)
    for minute in range(30, 45):
        sample(store, attempt_id, first + timedelta(minutes=minute), 0, 6, 90, 1)
    close(store, "Europe/Berlin", first, first + 2 * HOUR)
    known, unknown = sorted(store.rows(usage_record), key=lambda row: row.starts_at)
    assert known.idle_gpu_hours == Decimal("2.5"), "half an hour of four GPUs, a quarter of two"
    cost = known.compute_cost + known.disk_cost + known.address_cost
    assert abs(known.idle_cost - cost * Decimal("2.5") / 4) < EXACT
    assert (unknown.idle_gpu_hours, unknown.idle_cost) == (None, None)
    store.run(delete(gpu_sample))
    end(store, attempt_id, first + timedelta(minutes=90))
    assert correct(store, "UTC", [attempt_id], first, first + 2 * HOUR) == 1
    assert sum(row.idle_gpu_hours or 0 for row in store.rows(usage_record)) == Decimal("2.5")


def test_idle_hours_are_at_most_those_that_were_billed(store: Store) -> None:
    first = _earlier(store)
    attempt_id = add(store, Billed(first, timedelta(minutes=10), Decimal(2)))
    for second in range(0, 600, 10):
        sample(store, attempt_id, first + timedelta(seconds=second), 0, 0, 0, 0)
    sample(store, attempt_id, first + timedelta(minutes=11), 0, 0, 0, 0)
    close(store, "UTC", first, first + HOUR)
    (row,) = store.rows(usage_record)
    assert row.idle_gpu_hours == row.gpu_hours
