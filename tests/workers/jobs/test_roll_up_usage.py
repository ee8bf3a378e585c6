"""Sums of use agree with the ledger of attempts, whatever was corrected since and however often they are made."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.operations import purge
from app.db.schema.tables import attempt, attempt_archive, event, lease, usage_progress, usage_rollup
from app.domain.billing import cost
from app.domain.usage import ALL, UsageStep
from tests.db.store import ENDED, Store
from workers.jobs.roll_up_usage import roll_up_usage
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

HOUR = timedelta(hours=1)
EXACT = Decimal("1e-9")
RETENTION_DAYS = 90


@dataclass(frozen=True)
class Billed:
    """An attempt. `began` and `lasted` None: billing has not ended. Times count back from now."""

    price: Decimal
    gpus: int
    provider: str
    model: str
    began: timedelta
    lasted: timedelta | None
    archived: bool = False

    def period(self, now: datetime) -> tuple[datetime, datetime | None]:
        start = now - self.began
        return start, None if self.lasted is None else min(start + self.lasted, now)


BILLED = st.builds(
    Billed,
    price=st.decimals(min_value=0, max_value=99, places=6),
    gpus=st.integers(1, 8),
    provider=st.sampled_from(["aws", "gcp"]),
    model=st.sampled_from(["A100", "H100"]),
    began=st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=30)),
    lasted=st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=30)),
)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=2)
    yield Store(database)
    database.close()


def roll_up(store: Store) -> int:
    runtime = SimpleNamespace(
        database=store.database, stopping=Event(), settings=SimpleNamespace(lease_retention_days=RETENTION_DAYS)
    )
    return roll_up_usage(cast(Runtime, runtime), "", "")


def now(store: Store) -> datetime:
    row = store.first(select(func.now()))
    assert row is not None
    return cast(datetime, row[0])


def add(store: Store, billed: Billed, at: datetime) -> str:
    """A lease with one attempt, or what is left of it. Returns the attempt's id."""
    began, ended = billed.period(at)
    place: dict[str, Any] = {"provider": billed.provider, "price_per_hour": billed.price, "billing_started_at": began}
    if billed.archived:
        facts = dict.fromkeys(("account", "region", "zone", "instance_type", "market"), "x")
        hardware = {"gpu_model": billed.model, "gpu_count": billed.gpus}
        attempt_id = new_id("attempt")
        ids = {"id": attempt_id, "lease_id": new_id("lease"), "tenant_id": store.tenant_id, "n": 1}
        row = {**facts, **hardware, **ids, **place, "billing_ended_at": ended, "ended_at": ended}
        store.run(insert(attempt_archive).values(**row))
        return attempt_id
    lease_id = store.lease(created_at=began, provider=billed.provider, gpu_model=billed.model)
    ends = {} if ended is None else {"clean": True, "billing_ended_at": ended, "ended_at": ended}
    values = {**place, **ends, "offering": {"gpu": {"model": billed.model, "count": billed.gpus}}}
    return store.attempt(lease_id, "planned" if ended is None else "dead", **values)


def ledger(histories: Iterable[Billed], at: datetime, until: datetime) -> Decimal:
    """USD until then, by the rule of the domain."""
    total = Decimal(0)
    for one in histories:
        began, ended = one.period(at)
        total += cost(one.price, min(ended or until, until) - began)
    return total


def total(store: Store, step: UsageStep, *, tenant: str, by: str | None = None) -> Decimal:
    """USD of all sums of this kind."""
    columns = {"provider": usage_rollup.c.provider, "gpu_model": usage_rollup.c.gpu_model}
    kind = [column != ALL if name == by else column == ALL for name, column in columns.items()]
    owner = usage_rollup.c.tenant_id
    where = (usage_rollup.c.step == str(step), owner == tenant if tenant else owner != ALL, *kind)
    row = store.first(select(func.coalesce(func.sum(usage_rollup.c.cost), 0)).where(*where))
    assert row is not None
    return Decimal(row[0])


def forget(store: Store) -> None:
    for table in (attempt, attempt_archive, event, lease, usage_rollup):
        store.run(delete(table))
    store.run(update(usage_progress).values(rolled_until=None, checked_until=None))


def must_agree(store: Store, histories: list[Billed], at: datetime) -> None:
    until = UsageStep.HOUR.floor(at)
    for tenant in (store.tenant_id, ALL, ""):
        for by in (None, "provider", "gpu_model"):
            assert abs(total(store, UsageStep.HOUR, tenant=tenant, by=by) - ledger(histories, at, until)) < EXACT
    days = ledger(histories, at, UsageStep.DAY.floor(until))
    assert abs(total(store, UsageStep.DAY, tenant=ALL) - days) < EXACT


@settings(max_examples=25)
@given(
    histories=st.lists(BILLED, min_size=1, max_size=6),
    seen_until=st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=30)),
)
def test_the_sums_are_what_the_attempts_cost(store: Store, histories: list[Billed], seen_until: timedelta) -> None:
    at = now(store)
    ids = [add(store, one, at) for one in histories]
    try:
        roll_up(store)
        if UsageStep.HOUR.floor(now(store)) != UsageStep.HOUR.floor(at):  # the hour ended during the test
            return
        must_agree(store, histories, at)
        rows = sorted(map(tuple, store.rows(usage_rollup)), key=str)
        roll_up(store)
        assert sorted(map(tuple, store.rows(usage_rollup)), key=str) == rows, "summing up again changes nothing"
        corrected = [_corrected(one, seen_until) for one in histories]
        for attempt_id, before, one in zip(ids, histories, corrected, strict=True):
            if one is not before:
                values = {"state": "dead", "clean": True, "billing_ended_at": one.period(at)[1], "ended_at": func.now()}
                store.write(attempt, attempt_id, **values)
        roll_up(store)
        must_agree(store, corrected, at)
    finally:
        forget(store)


def _corrected(one: Billed, seen_until: timedelta) -> Billed:
    """Its VM turns out to have ended a while ago, if nobody knew of its end."""
    return one if one.lasted is not None else replace(one, lasted=max(one.began - seen_until, timedelta(0)))


def sums(store: Store, step: UsageStep = UsageStep.HOUR, **where: Any) -> list[Any]:
    kind = {"tenant_id": ALL, "provider": ALL, "gpu_model": ALL, **where}
    conditions = [usage_rollup.c[name] == value for name, value in kind.items()]
    query = select(usage_rollup).where(usage_rollup.c.step == str(step), *conditions)
    return store.all(query.order_by(usage_rollup.c.starts_at))


ONE_HOUR = Billed(Decimal(2), 4, "aws", "A100", timedelta(hours=50), HOUR)


def test_an_hour_without_leases_has_no_row_and_costs_nothing(store: Store) -> None:
    assert roll_up(store) == 0
    assert store.rows(usage_rollup) == []
    at = UsageStep.HOUR.floor(now(store))
    add(store, ONE_HOUR, at)
    add(store, replace(ONE_HOUR, began=timedelta(hours=10)), at)
    store.run(update(usage_progress).values(rolled_until=None))
    assert roll_up(store) == 50
    assert [(row.starts_at, row.cost, row.gpu_seconds) for row in sums(store)] == [
        (at - timedelta(hours=back), Decimal(2), Decimal(4 * 3600)) for back in (50, 10)
    ]
    forget(store)


def test_after_down_time_it_catches_up(store: Store) -> None:
    at = now(store)
    add(store, replace(ONE_HOUR, lasted=None), at)
    roll_up(store)
    store.run(delete(usage_rollup).where(usage_rollup.c.starts_at >= at - timedelta(hours=30)))
    store.run(update(usage_progress).values(rolled_until=UsageStep.HOUR.floor(at - timedelta(hours=29))))
    assert roll_up(store) >= 29
    assert len(sums(store)) >= 50
    forget(store)


def test_a_lease_that_was_deleted_keeps_its_cost(store: Store) -> None:
    at = now(store)
    add(store, replace(ONE_HOUR, archived=True, began=timedelta(days=100)), at)
    roll_up(store)
    assert abs(total(store, UsageStep.DAY, tenant=store.tenant_id, by="gpu_model") - 2) < EXACT
    forget(store)


def test_failures_and_the_time_to_ready_are_counted(store: Store) -> None:
    at = UsageStep.HOUR.floor(now(store)) - 3 * HOUR
    for waited in (60, 120, 180):
        ready = {"created_at": at, "ready_at": at + timedelta(seconds=waited), "provider": "aws", "gpu_model": "A100"}
        store.lease(**ready)
    failed = store.lease(**{**ENDED, "state": "failed", "created_at": at, "ended_at": at + HOUR / 2})
    refused = {"class": "InsufficientCapacity", "code": None, "message": "no"}
    ended = {"clean": True, "ended_at": at + HOUR / 2}
    store.attempt(failed, "refused", error=refused, **ended)
    store.attempt(failed, "dead", vm_reason={"interrupted": True}, **ended)
    roll_up(store)
    (row,) = sums(store)
    assert (row.leases_created, row.leases_ready, row.leases_failed) == (4, 3, 1)
    assert (row.capacity_failures, row.interruptions) == (1, 1)
    assert (row.ready_seconds_p50, row.ready_seconds_p95) == (120, pytest.approx(174))
    (by_model,) = sums(store, gpu_model="A100")
    assert (by_model.leases_ready, by_model.leases_failed) == (3, 0)
    forget(store)


def test_a_replaced_vm_does_not_count_as_a_wait(store: Store) -> None:
    at = UsageStep.HOUR.floor(now(store)) - 3 * HOUR
    replaced = store.lease(created_at=at - 9 * HOUR, ready_at=at + HOUR / 2)
    store.attempt(replaced, "dead", ready=True, clean=True, ended_at=at)
    store.attempt(replaced, "known", ready=True)
    roll_up(store)
    assert [row.leases_ready for row in sums(store)] == [0]
    forget(store)


def test_sums_are_kept_13_months(store: Store) -> None:
    row = dict.fromkeys((*("leases_created", "leases_ready", "leases_failed"), "capacity_failures", "interruptions"), 0)
    for step in UsageStep:
        for age in ("12 months", "14 months"):
            moment = text(f"now() - interval '{age}'")
            key = {"tenant_id": ALL, "step": str(step), "provider": ALL, "gpu_model": ALL, "starts_at": moment}
            store.run(insert(usage_rollup).values(**row, **key, gpu_seconds=1, cost=1))
    for statement in purge.STATEMENTS:
        store.run(statement)
    assert len(store.rows(usage_rollup)) == 2
