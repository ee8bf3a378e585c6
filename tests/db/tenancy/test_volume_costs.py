"""What volumes cost in budgets: each full hour once, from the start of the budget and of its period."""

from decimal import Decimal
from typing import Any

from sqlalchemy import insert, select, update

from app.db.schema.tables import budget, quota, volume
from app.db.tenancy import volume_costs
from app.domain.budgets import resource_of
from tests.db.store import Store, ago, make_budget, together

PRICE = Decimal("0.010959")


def make(store: Store, name: str = "data", **values: Any) -> None:
    """A volume that was billed and last charged three and a half hours ago."""
    place = {"provider": "aws", "account": "main", "region": "us-east-1", "zone": "us-east-1a"}
    since = ago("210 minutes")
    disk = {"state": "available", "cloud_id": name, "billing_started_at": since, "charged_until": since}
    own = {"id": f"vol_{name}", "tenant_id": store.tenant_id, "key_id": "key_a", "name": name, "size_gib": 100}
    store.run(insert(volume).values(**{**own, **place, **disk, "price_per_hour": PRICE, "retry_at": None, **values}))


def make_old(store: Store, amount: str = "10", **values: Any) -> str:
    """A budget that was created before the volume."""
    budget_id = make_budget(store.database, store.tenant_id, amount, **values)
    times = {"created_at": ago("2 days"), "period_started_at": ago("2 days")}
    store.run(update(budget).where(budget.c.id == budget_id).values(**times))
    return budget_id


def spent(store: Store, budget_id: str) -> Decimal:
    row = store.first(select(quota.c.spent).where(quota.c.resource == resource_of(budget_id)))
    assert row is not None
    return Decimal(row.spent)


def test_full_hours_are_charged_once_by_concurrent_jobs(store: Store) -> None:
    budget_id = make_old(store)
    make(store)
    charged = together(4, lambda _: len(store.all(volume_costs.charge(store.tenant_id))))
    assert sum(charged) == 1
    assert spent(store, budget_id) == 3 * PRICE
    assert store.all(volume_costs.charge(store.tenant_id)) == []


def test_an_ended_volume_is_charged_to_its_end_and_never_again(store: Store) -> None:
    budget_id = make_old(store)
    make(store, state="deleted", ended_at=ago("1 hour"), billing_ended_at=ago("90 minutes"))
    assert len(store.all(volume_costs.charge(store.tenant_id))) == 1
    assert spent(store, budget_id) == 2 * PRICE
    assert store.all(volume_costs.charge(store.tenant_id)) == []


def test_a_volume_counts_in_the_budgets_of_its_key_its_label_and_its_tenant(store: Store) -> None:
    whole = make_old(store)
    labelled = make_old(store, kind="label", label_key="team", label_value="vision")
    other_label = make_old(store, kind="label", label_key="team", label_value="speech")
    make(store, labels={"team": "vision"})
    store.all(volume_costs.charge(store.tenant_id))
    assert [spent(store, one) for one in (whole, labelled, other_label)] == [3 * PRICE, 3 * PRICE, 0]


def test_a_new_budget_counts_no_cost_of_before(store: Store) -> None:
    budget_id = make_budget(store.database, store.tenant_id, "10")
    make(store)
    store.all(volume_costs.charge(store.tenant_id))
    assert spent(store, budget_id) == 0


def test_nothing_is_charged_to_a_period_that_is_over(store: Store) -> None:
    budget_id = make_old(store, period="day")
    store.run(update(budget).where(budget.c.id == budget_id).values(period_ends_at=ago("1 hour")))
    make(store)
    assert store.all(volume_costs.charge(store.tenant_id)) == []
    times = {"period_started_at": ago("90 minutes"), "period_ends_at": None, "period": "lifetime"}
    store.run(update(budget).where(budget.c.id == budget_id).values(**times))
    store.all(volume_costs.charge(store.tenant_id))
    assert spent(store, budget_id) == PRICE, "of the three hours to half an hour ago, one is in the new period"


def test_a_volume_without_a_price_costs_nothing(store: Store) -> None:
    budget_id = make_old(store)
    make(store, price_per_hour=None)
    assert len(store.all(volume_costs.charge(store.tenant_id))) == 1
    assert spent(store, budget_id) == 0
