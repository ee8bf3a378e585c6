"""However often a price changes, and whatever is repeated: what a lease has cost in the end is the sum of its segments."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, insert, select, update

from app.db.events.events import NewEvent
from app.db.leases import attempts, price_changes, spend_caps
from app.db.leases.billing import accrued, cost, price_segments
from app.db.leases.transitions import write
from app.db.schema.tables import account, attempt, attempt_price, event, lease, offering
from app.domain.events import LeaseUpdated
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import AttemptState
from tests.db.store import ATTEMPT, Store
from workers.jobs.price_changes import record_price_changes
from workers.lifecycle.steps import end
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

MILLIONTH = Decimal("0.000001")
EVENT = NewEvent(LeaseUpdated(name=None, labels=None, max_cost=None, expiry_warnings_seconds=None))
PRICES = st.decimals(min_value=0, max_value=50, places=6)
STEPS = st.lists(st.tuples(st.timedeltas(timedelta(seconds=1), timedelta(hours=5)), PRICES, st.booleans()), max_size=5)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=2)
    made = Store(database)
    made.run(insert(account).values(name="main", provider="aws", config={}))
    place = {name: ATTEMPT[name] for name in ("account", "region", "zone", "instance_type", "market", "provider")}
    hardware = {"gpu_model": "A10G", "gpu_count": 1, "gpu_memory_gib": 24, "gpu_interconnect": "PCIe"}
    made.run(insert(offering).values(**place, **hardware, vcpus=4, memory_gib=16, price_live=True))
    yield made
    database.close()


def pass_time(store: Store, lease_id: LeaseId, attempt_id: AttemptId, by: timedelta) -> None:
    """Moves everything that has happened to the past."""
    moved = {"rate_since": lease.c.rate_since - by, "cost_reached_at": lease.c.cost_reached_at - by}
    store.run(update(lease).where(lease.c.id == lease_id).values(**moved))
    begun = {"billing_started_at": attempt.c.billing_started_at - by}
    store.run(update(attempt).where(attempt.c.id == attempt_id).values(**begun))
    store.run(
        update(attempt_price)
        .where(attempt_price.c.attempt_id == attempt_id)
        .values(starts_at=attempt_price.c.starts_at - by)
    )


def change(store: Store, price: Decimal, *, killed: bool) -> int:
    """The job, and once more. `killed`: it stops before its commit first."""
    store.run(update(offering).values(price_per_hour=price, price_source="test"))
    runtime = cast(Runtime, SimpleNamespace(database=store.database))
    found = store.all(price_changes.due("main", "us-east-1", ["spot"]))
    if killed:
        for row in found:
            with suppress(ZeroDivisionError), store.database.begin() as connection:
                connection.execute(price_changes.close_past(AttemptId(row.attempt_id), Decimal(1)))
                raise ZeroDivisionError
    return record_price_changes(runtime, found) + record_price_changes(runtime, found)


def close(store: Store, lease_id: LeaseId, attempt_id: AttemptId, ended: timedelta) -> None:
    """As the step that closes an attempt whose VM has ended so long ago."""
    claim_id = store.claimed(lease_id)
    store.run(update(attempt).where(attempt.c.id == attempt_id).values(vm_state_at=func.now() - ended))
    with store.database.begin() as connection:
        over = attempts.end(attempt_id, claim_id, AttemptState.DEAD, before=AttemptState.KNOWN, clean=True)
        row = connection.execute(*over).one()
        rest = end._cost_not_closed(row, connection.execute(*price_changes.of_attempt(attempt_id)))
        values: dict[str, Any] = {**spend_caps.UNBILLED, **spend_caps.CLOSED}
        assert connection.execute(*write(lease_id, EVENT, bindings={"cost": rest}, values=values)).first() is not None


@settings(max_examples=15, phases=[Phase.generate])
@given(first=PRICES, disk=PRICES, steps=STEPS, ended=st.timedeltas(timedelta(0), timedelta(hours=6)))
def test_a_lease_costs_the_sum_of_its_segments(
    store: Store,
    first: Decimal,
    disk: Decimal,
    steps: list[tuple[timedelta, Decimal, bool]],
    ended: timedelta,
) -> None:
    for table in (attempt_price, attempt, event, lease):
        store.run(delete(table))
    lease_id = store.lease(rate_per_hour=first + disk, disk_rate_per_hour=disk, rate_since=func.now(), max_cost=100)
    attempt_id = store.attempt(lease_id, "known", price_per_hour=first, disk_price_per_hour=disk)
    begun = store.row(lease, lease_id).rate_since
    store.write(attempt, attempt_id, billing_started_at=begun)
    current = first
    for by, price, killed in steps:
        pass_time(store, lease_id, attempt_id, by)
        assert change(store, price, killed=killed) == (price != current), "each change is recorded once"
        current = price
    segment = price_segments()
    until = func.coalesce(segment.c.ends_at, func.now())
    total = select(func.sum(cost(segment.c.rate_per_hour, segment.c.starts_at, until)))
    mine = total.where(segment.c.attempt_id == attempt_id).scalar_subquery()
    both = store.first(
        select(accrued(lease, func.now()).label("running"), mine.label("exact")).where(lease.c.id == lease_id)
    )
    assert both is not None
    assert abs(both.running - both.exact) <= MILLIONTH * (1 + len(steps))
    close(store, lease_id, attempt_id, ended)
    closed = store.first(select(lease.c.cost_closed, mine.label("exact")).where(lease.c.id == lease_id))
    assert closed is not None
    assert abs(closed.cost_closed - closed.exact) <= MILLIONTH
