"""Turns at the job of budgets: how much one turn does, which leases its lanes find, and what fails for one of them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, select, text, update

from app.db.schema.tables import budget, lease, quota, quota_claim
from app.db.tenancy import budget_turns, commitments
from app.domain.budgets import MOST_OF_KEY, resource_of
from app.domain.ids import LeaseId, TenantId
from tests.db.store import Store, ago
from tests.db.tenancy.test_budgets import ONE, at, ended_period, exceed, job, room, run, thresholds_of
from workers.jobs import budgets as job_of_budgets
from workers.jobs.budgets import apply_budgets
from workers.runtime.runtime import Runtime


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction looks at two leases of a tenant with one budget, and a turn has one transaction of a lane."""
    monkeypatch.setattr(job_of_budgets, "_PAIRS", 2 * (1 + MOST_OF_KEY))
    monkeypatch.setattr(job_of_budgets, "_BATCHES", 1)


def leases_of_an_hour_ago(store: Store, tenant: TenantId, count: int) -> list[LeaseId]:
    """Leases at 1 USD an hour by their ids. The last one was written first, and every lane has passed all of them."""
    made = sorted(lease_id for _ in range(count) if (lease_id := store.admit(tenant, ONE, at("1"))) is not None)
    for seconds, lease_id in enumerate(reversed(made)):
        store.write(lease, lease_id, updated_at=text(f"now() - interval '1 hour' + interval '{seconds} seconds'"))
    for _ in range(count):
        job(store)
    store.run(budget_turns.move(tenant, {"every": ""}))
    return made


def held(store: Store, lease_id: LeaseId) -> Decimal:
    row = store.first(
        select(quota_claim.c.amount).where(quota_claim.c.lease_id == lease_id, quota_claim.c.resource.like("budget:%"))
    )
    assert row is not None
    return Decimal(row.amount)


def run_with_failures(store: Store, times: int) -> None:
    """Runs of the job, in which parts of turns may fail."""
    metrics: Any = SimpleNamespace(job_failed=lambda *_: None)
    for _ in range(times):
        apply_budgets(cast(Runtime, SimpleNamespace(database=store.database, metrics=metrics)), "", "")


def test_a_transaction_looks_at_few_leases_where_many_budgets_may_count_each(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease may have the budgets of its tenant and of its key."""
    monkeypatch.setattr(job_of_budgets, "_PAIRS", 2 * (1 + MOST_OF_KEY))
    monkeypatch.setattr(job_of_budgets, "_BATCHES", 2)
    tenant = room(store)
    store.budget(tenant, "1000")
    for _ in range(9):
        assert store.admit(tenant, ONE, at("1")) is not None
    sizes: list[int] = []
    fit_outdated = commitments.fit_outdated

    def noted(connection: Connection, lease_ids: Sequence[str]) -> int:
        sizes.append(len(lease_ids))
        return fit_outdated(connection, lease_ids)

    monkeypatch.setattr(commitments, "fit_outdated", noted)
    job(store)
    assert sizes == [2, 2, 2, 2], "two transactions of the lane of changed leases, and two of the lane of all"


@pytest.mark.usefixtures("small")
def test_a_lease_that_was_written_since_the_last_turn_waits_for_no_other(store: Store) -> None:
    tenant = room(store)
    store.budget(tenant, "1000")
    last = leases_of_an_hour_ago(store, tenant, 9)[-1]
    store.write(lease, last, minimum_rate=Decimal(2), updated_at=text("now()"))
    job(store)
    assert held(store, last) > Decimal("1.5")


@pytest.mark.usefixtures("small")
def test_a_lease_whose_transaction_was_open_while_the_lane_passed_is_found_in_the_next_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_of_budgets, "_PAIRS", 3 * (1 + MOST_OF_KEY))
    tenant = room(store)
    store.budget(tenant, "1000")
    made = leases_of_an_hour_ago(store, tenant, 9)
    store.write(lease, made[4], updated_at=text("now()"))
    job(store)
    store.run(budget_turns.move(tenant, {"every": ""}))
    store.write(lease, made[-1], minimum_rate=Decimal(2), updated_at=ago("3 seconds"))
    job(store)
    assert held(store, made[-1]) > Decimal("1.5")


@pytest.mark.usefixtures("small")
def test_a_lease_that_is_billed_beyond_its_end_waits_for_no_other(store: Store) -> None:
    tenant = room(store)
    store.budget(tenant, "1000", when_exceeded="notify")
    last = leases_of_an_hour_ago(store, tenant, 9)[-1]
    run(store, last, "100", "1 hour")
    store.write(lease, last, expires_at=ago("1 minute"), updated_at=ago("2 hours"))
    job(store)
    assert held(store, last) > 99


@pytest.mark.usefixtures("small")
def test_a_lease_that_nobody_has_written_has_its_turn(store: Store) -> None:
    """A lease that waits holds too much the longer it waits."""
    tenant = room(store)
    store.budget(tenant, "1000")
    last = leases_of_an_hour_ago(store, tenant, 9)[-1]
    store.write(lease, last, minimum_rate=Decimal("0.5"), updated_at=ago("2 hours"))
    for _ in range(5):
        job(store)
    assert held(store, last) < Decimal("0.6")


@pytest.mark.usefixtures("small")
def test_a_lease_that_fails_keeps_no_lane_of_its_tenant_from_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the lease that was written last, so that its lane looks at it in every turn."""
    tenant = room(store)
    store.budget(tenant, "1000")
    first, *_, last = leases_of_an_hour_ago(store, tenant, 9)
    fit_outdated = commitments.fit_outdated

    def fails_for_the_first(connection: Connection, lease_ids: Sequence[str]) -> int:
        if first in lease_ids:
            raise TimeoutError
        return fit_outdated(connection, lease_ids)

    monkeypatch.setattr(commitments, "fit_outdated", fails_for_the_first)
    store.write(lease, first, updated_at=text("now()"))
    store.write(lease, last, minimum_rate=Decimal(2), updated_at=ago("2 hours"))
    run_with_failures(store, 6)
    assert held(store, last) > Decimal("1.5")


def test_a_statement_that_waits_too_long_ends_the_part_and_not_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds the lock of the first tenant."""
    monkeypatch.setattr(budget_turns, "SHORT", text("SET LOCAL statement_timeout = '3s'"))
    locked, other = sorted(room(store) for _ in "ab")
    store.budget(locked, "10")
    lease_id = exceed(store, other)
    with ThreadPoolExecutor(1) as thread, store.database.begin() as connection:
        commitments.lock_tenant(connection, locked)
        assert thread.submit(job, store, failures=1).result(timeout=60) > 0
    assert store.row(lease, lease_id).desired == "end"


def test_a_turn_begins_few_periods_and_the_next_one_the_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_of_budgets, "_ROLLED", 1)
    tenant = room(store)
    for _ in "ab":
        ended_period(store, store.budget(tenant, "10", period="day"))
    due = select(budget.c.id).where(budget.c.period_ends_at <= text("now()"))
    counts = []
    for _ in range(2):
        job(store)
        counts.append(len(store.all(due)))
    assert counts == [1, 0]


def test_budgets_near_a_threshold_keep_no_other_from_its_event(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases hold what the first four budgets have, and have cost nothing yet: the job looks at them in every run."""
    monkeypatch.setattr(job_of_budgets, "_TOLD", 2)
    tenant = room(store)
    made = sorted(store.budget(tenant, "10", when_exceeded="notify") for _ in range(5))
    assert store.admit(tenant, ONE, at("9")) is not None
    assert job(store) == 0
    store.run(update(quota).where(quota.c.resource == resource_of(made[-1])).values(spent=6))
    for _ in range(3):
        job(store)
    assert thresholds_of(store, made[-1]) == [(50, "6.00")]


def test_exceeded_budgets_of_which_no_lease_can_end_keep_no_other_from_ending_leases(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_of_budgets, "_ENDED", 2)
    tenant = room(store)
    made = sorted(store.budget(tenant, "10", when_exceeded="end") for _ in range(5))
    lease_id = store.admit(tenant, ONE, at("5"))
    assert lease_id is not None
    failing = {resource_of(budget_id) for budget_id in made[:-1]}
    fit_budget = commitments.fit_budget

    def fails_but_for_the_last(connection: Connection, tenant_id: str, resource: str) -> int:
        if resource in failing:
            raise TimeoutError
        return fit_budget(connection, tenant_id, resource)

    monkeypatch.setattr(commitments, "fit_budget", fails_but_for_the_last)
    store.write(lease, lease_id, minimum_rate=Decimal(50))
    run_with_failures(store, 3)
    assert store.row(lease, lease_id).desired == "end"
