"""GET /v1/forecast: the present rate, the month, and when budgets are exhausted."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import insert

from app.api.schemas.forecast import Forecast
from app.db.core.ids import new_id
from app.db.schema.tables import attempt, budget, quota, quota_claim
from app.domain.costs import CostBucket
from tests.api.conftest import Caller
from tests.api.test_costs import clock, moment, of, store
from tests.db.store import Store
from tests.db.usage.histories import Billed, add

__all__ = ["store"]  # a fixture

HOUR = timedelta(hours=1)


async def forecast(caller: Caller, **query: Any) -> dict[str, Any]:
    answer = await caller.get("/v1/forecast", params=query)
    assert answer.status_code == 200, answer.text
    Forecast.model_validate(answer.json())
    found: dict[str, Any] = answer.json()
    return found


def running(store: Store, began: datetime, rate: str, **values: Any) -> str:
    """A lease that is billed for one machine since then. Returns its id."""
    attempt_id = add(store, Billed(began, HOUR, Decimal(rate)))
    lease_id = store.row(attempt, attempt_id).lease_id
    store.write(attempt.metadata.tables["lease"], lease_id, rate_per_hour=Decimal(rate), rate_since=began, **values)
    return str(lease_id)


def limit(store: Store, amount: str, before: dict[str, int], *, spent: str, started: datetime) -> str:
    """`before`: USD that each lease had cost when the period started."""
    budget_id = new_id("budget")
    mine = {"tenant_id": store.tenant_id}
    period = {"period": "lifetime", "period_started_at": started, "kind": "tenant"}
    facts = {"amount": Decimal(amount), "thresholds": [], "when_exceeded": "notify", "set_by": "operator"}
    store.run(insert(budget).values(id=budget_id, **mine, **period, **facts))
    resource = {**mine, "resource": f"budget:{budget_id}"}
    used = Decimal(len(before))
    store.run(insert(quota).values(**resource, limit=None, used=used, spent=Decimal(spent)))
    for lease_id, base in before.items():
        store.run(insert(quota_claim).values(**resource, lease_id=lease_id, amount=1, base=base))
    return budget_id


async def test_without_leases_nothing_will_be_spent(alice: Caller) -> None:
    found = await forecast(alice)
    assert (found["run_rate_per_hour"], found["budgets"]) == ("0.00", [])
    ends_at = moment(found["month"].pop("ends_at"))
    assert found["month"] == dict.fromkeys(("spent", "committed", "forecast"), "0.00")
    assert ends_at == CostBucket.MONTH.after(CostBucket.MONTH.floor(moment(found["as_of"])))


async def test_rate_month_and_budgets(operator: Caller, alice: Caller, bob: Caller, store: Store) -> None:
    now = clock(store)
    began = now - 10 * HOUR
    first = running(of(store, alice), began, "2", expires_at=now + HOUR)
    second = running(store, began, "3", expires_at=now + 400 * 24 * HOUR, cost_reached_at=now + 2 * HOUR)
    both = limit(store, "100", {first: 12, second: 18}, spent="20", started=now - 4 * HOUR)
    one = limit(store, "100", {first: 0}, spent="0", started=began - HOUR)
    over = limit(store, "10", {}, spent="10", started=began)
    idle = limit(store, "10", {}, spent="9", started=began)
    found = await forecast(alice)
    as_of = moment(found["as_of"])
    month = found["month"]
    ends_at = moment(month["ends_at"])

    def hours(since: datetime, until: datetime) -> Decimal:
        return Decimal(max((until - since).total_seconds(), 0)) / 3600

    in_month = hours(max(began, CostBucket.MONTH.floor(as_of)), as_of)
    committed = 2 * hours(as_of, min(now + HOUR, ends_at)) + 3 * hours(as_of, min(now + 2 * HOUR, ends_at))
    assert found["run_rate_per_hour"] == "5.00"
    assert abs(Decimal(month["spent"]) - 5 * in_month) < Decimal("0.00001")
    assert abs(Decimal(month["committed"]) - committed) < Decimal("0.00001")
    assert abs(Decimal(month["forecast"]) - 5 * (in_month + hours(as_of, ends_at))) < Decimal("0.00001")
    exhausted = {row["id"]: row["exhausted_at"] for row in found["budgets"]}
    assert exhausted.keys() == {both, one, over, idle}
    left = 80 - 5 * hours(now - 4 * HOUR, as_of)
    assert abs(moment(exhausted[both]) - as_of - timedelta(hours=float(left / 5))) < timedelta(seconds=1)
    left = 100 - 2 * hours(began, as_of)
    assert abs(moment(exhausted[one]) - as_of - timedelta(hours=float(left / 2))) < timedelta(seconds=1)
    assert timedelta(0) <= moment(exhausted[over]) - as_of < timedelta(minutes=2)
    assert exhausted[idle] is None
    assert (await forecast(bob))["budgets"] == []
    assert (await forecast(operator))["run_rate_per_hour"] == "5.00"
    assert (await forecast(operator, tenant_id=bob.tenant_id))["run_rate_per_hour"] == "0.00"
    assert (await bob.get("/v1/forecast", params={"tenant_id": alice.tenant_id})).status_code == 422
    assert as_of.astimezone(UTC).second == 0
