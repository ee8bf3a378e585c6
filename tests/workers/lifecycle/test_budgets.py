"""Budgets in the life of a lease: what a plan holds, what is skipped, and what the end leaves."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select, update

from app.db.schema.tables import budget, quota, quota_claim
from app.domain.budgets import resource_of
from tests.db.store import make_budget
from tests.workers.fleet import Fleet

CENT = Decimal("0.01")


def counter(fleet: Fleet, budget_id: str) -> Any:
    return fleet.runtime.database.first(select(quota).where(quota.c.resource == resource_of(budget_id)))


def test_a_lease_holds_its_vms_rate_and_leaves_its_cost(fleet: Fleet) -> None:
    lease_id = fleet.create()
    budget_id = make_budget(fleet.runtime.database, fleet.tenant_id, "100")
    fleet.drive_to(lease_id, "active")
    held = counter(fleet, budget_id)
    rate = fleet.lease(lease_id).rate_per_hour
    assert rate - CENT * 5 < held.used <= rate
    fleet.let_pass(1800)
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    ended = counter(fleet, budget_id)
    assert ended.used == 0
    assert ended.spent == fleet.lease(lease_id).cost_closed
    assert abs(ended.spent - rate / 2) < CENT
    assert fleet.runtime.database.all(select(quota_claim)) == []


def test_offerings_that_a_budget_does_not_cover_are_skipped_and_the_reason_says_so(fleet: Fleet) -> None:
    lease_id = fleet.create(wait_seconds=0)
    budget_id = make_budget(fleet.runtime.database, fleet.tenant_id, "0.05")
    fleet.drive_to(lease_id, "failed")
    assert fleet.lease(lease_id).reason["code"] == "budget_exceeded"
    assert fleet.attempts(lease_id) == []
    assert (counter(fleet, budget_id).used, counter(fleet, budget_id).spent) == (0, 0)


def test_what_the_last_period_spent_refuses_no_lease_in_the_next_one(fleet: Fleet) -> None:
    lease_id = fleet.create(wait_seconds=0)
    budget_id = make_budget(fleet.runtime.database, fleet.tenant_id, "10", period="day")
    fleet.runtime.database.run(update(quota).where(quota.c.resource == resource_of(budget_id)).values(spent=10))
    yesterday = {"period_started_at": func.now() - timedelta(days=1), "period_ends_at": func.now()}
    fleet.runtime.database.run(update(budget).values(**yesterday))
    fleet.drive_to(lease_id, "active")
    assert counter(fleet, budget_id).spent == 0
