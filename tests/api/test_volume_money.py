"""What a volume costs is the same figure everywhere: in the volume, plans, usage, costs, the FOCUS export and the forecast."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from app.domain.vm_parts import PartsFacts
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.focus_rules import check
from tests.api.test_costs import clock, costs, moment, run_job, store
from tests.api.test_focus import last_month, rows_of
from tests.api.test_forecast import forecast
from tests.api.test_usage import roll_up, usage, worker
from tests.db.store import Store
from workers.runtime.database import WorkerDatabase

__all__ = ["store", "worker"]  # fixtures

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
PLACE = {"account": "main", "region": "us-east-1", "zone": "us-east-1a"}
GIB = 300


@dataclass(frozen=True)
class Cloud:
    """How a cloud bills a disk: by its size, or by the next larger one of `sizes`. `price`: USD an hour of GIB."""

    provider: str
    per_gib_month: str
    price: Decimal
    sizes: tuple[int, ...] = ()


CLOUDS = [
    Cloud("aws", "0.08", Decimal("0.032877")),
    Cloud("gcp", "0.11", Decimal("0.045205")),
    Cloud("azure", "0.15", Decimal("0.105205"), (256, 512)),
]


@pytest.fixture(params=CLOUDS, ids=[cloud.provider for cloud in CLOUDS])
def cloud(request: pytest.FixtureRequest, fleet: Fleet) -> Cloud:
    """The account `main` is one of this cloud."""
    chosen: Cloud = request.param
    facts = PartsFacts(disk_sizes_gib=chosen.sizes).settings_json()
    fleet.run("UPDATE account SET provider = %s, vm_parts = %s", chosen.provider, Jsonb(facts))
    fleet.run("UPDATE offering SET provider = %s", chosen.provider)
    fleet.run(
        "INSERT INTO part_price (account, region, part, instance_type, price, price_as_of, price_source, price_live) "
        "VALUES ('main', 'us-east-1', 'disk', '*', %s, now(), 'list', false)",
        chosen.per_gib_month,
    )
    return chosen


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def create(caller: Caller, fleet: Fleet, began: datetime, ended: datetime | None = None) -> dict[str, Any]:
    """A volume that is billed between these times."""
    body = {"name": f"data-{began:%d-%H}", "size_gib": GIB, **PLACE}
    made = await caller.post("/v1/volumes", json=body)
    assert made.status_code == 201, made.text
    volume: dict[str, Any] = made.json()
    bill(fleet, volume["id"], began, ended)
    return volume


def bill(fleet: Fleet, volume_id: str, began: datetime, ended: datetime | None) -> None:
    fleet.run(
        "UPDATE volume SET cloud_id = id, billing_started_at = %s, billing_ended_at = %s, ended_at = %s, state = %s, "
        "retry_at = NULL WHERE id = %s",
        *(began, ended, ended, "available" if ended is None else "deleted", volume_id),
    )
    if ended is not None:
        fleet.run("UPDATE quota SET used = used - %s WHERE resource = 'volume_gib'", GIB)


async def test_a_gib_hour_has_one_price(
    alice: Caller, fleet: Fleet, cloud: Cloud, store: Store, worker: WorkerDatabase
) -> None:
    """The volume is billed from the last hour of a month, for a day and a half and half an hour."""
    began = last_month(store).replace(day=1) - HOUR
    lasted = 36 * HOUR + HOUR / 2
    volume = await create(alice, fleet, began, began + lasted)
    assert Decimal(volume["price_per_hour"]) == cloud.price
    plan = {"instance_types": ["g5.xlarge"], "ttl_seconds": 3600, "disk_gib": GIB, "ssh_keys": []}
    planned = (await alice.post("/v1/leases/plan", json=plan)).json()
    assert Decimal(planned["cost"]["parts"]["disk"]) == cloud.price
    run_job(store)
    roll_up(worker)
    used = Decimal(GIB) * Decimal(lasted.total_seconds()) / 3600
    paid = cloud.price * Decimal(lasted.total_seconds()) / 3600
    period = {"from": (began - DAY).isoformat(), "to": (began + 4 * DAY).isoformat()}
    for step in ("hour", "day"):
        found = await usage(alice, step=step, group_by="gpu_model", **period)
        (group,) = found["groups"]
        assert (group["group"], group["gpu_hours"], group["volume_gib_hours"]) == ("volume", 0, float(used))
        assert Decimal(group["cost"]) == pytest.approx(paid, abs=Decimal("0.000001"))
        assert len(found["items"]) == {"hour": 37, "day": 3}[step], "a day of 24 hours, and parts of two"
    for bucket in ("hour", "day", "month"):
        found = await costs(alice, bucket=bucket, group_by="instance_type", **period)
        total = found["total"]
        assert Decimal(total["disk"]) == Decimal(total["cost"]) == pytest.approx(paid, abs=Decimal("0.000001"))
        assert {item["group"]["instance_type"] for item in found["items"]} == {"volume"}
    months = [f"{day:%Y-%m}" for day in (began, began + DAY)]
    exports = [rows_of((await alice.get("/v1/costs/focus", params={"month": month})).text) for month in months]
    assert [len(export) for export in exports] == [1, 36]
    rows = [row for export in exports for row in export]
    for row in rows:
        check(row)
    assert sum(Decimal(row["ConsumedQuantity"]) for row in rows) == used
    assert sum(Decimal(row["BilledCost"]) for row in rows) == paid
    per_gib = cloud.price / GIB
    assert {row["ConsumedUnit"] for row in rows} == {"GiB-Hours"}
    assert {Decimal(row["ContractedUnitPrice"]) for row in rows} == {round(per_gib, 12)}
    assert {Decimal(row["ListUnitPrice"]) for row in rows} == {round(per_gib, 12)}
    whose = {(row["ResourceId"], row["x_VolumeId"], row["x_LeaseId"], row["ResourceType"]) for row in rows}
    assert whose == {(volume["id"], volume["id"], "", "Network Disk")}
    assert {row["SubAccountId"] for row in rows} == {alice.tenant_id}


async def test_open_hours_of_volumes_count_in_costs_usage_and_summaries(
    alice: Caller, bob: Caller, operator: Caller, fleet: Fleet, cloud: Cloud, store: Store, worker: WorkerDatabase
) -> None:
    """Closed hours and the open ones of a volume that exists still, and of one that was deleted meanwhile."""
    now = clock(store)
    began = now - 50 * HOUR
    await create(alice, fleet, began)
    gone = now - 49 * HOUR
    await create(alice, fleet, gone, gone + 2 * HOUR)
    since = (now - 4 * DAY).isoformat()
    for _ in range(2):
        for bucket in ("hour", "day"):
            found = await costs(alice, bucket=bucket, **{"from": since})
            hours = Decimal((moment(found["as_of"]) - began).total_seconds()) / 3600 + 2
            total = found["total"]
            assert Decimal(total["disk"]) == pytest.approx(cloud.price * hours, abs=Decimal("0.00001"))
            assert (total["leases"], total["gpu_hours"]) == (0, 0)
        by_label = await costs(alice, group_by="label:team", **{"from": since})
        assert by_label["total"]["leases"] == 0
        found = await usage(alice, step="day", **{"from": since})
        hours = Decimal((moment(found["as_of"]) - began).total_seconds()) / 3600 + 2
        (group,) = found["groups"]
        assert Decimal(group["cost"]) == pytest.approx(cloud.price * hours, abs=Decimal("0.00001"))
        assert group["volume_gib_hours"] == pytest.approx(GIB * float(hours), abs=0.001)
        run_job(store)
        roll_up(worker)
    assert (await costs(bob, **{"from": since}))["items"] == []
    assert (await usage(bob, **{"from": since}))["items"] == []
    month = (await forecast(alice))["month"]
    mine = (await alice.get("/v1/summary")).json()
    everything = (await operator.get("/v1/ops/summary")).json()
    assert (await bob.get("/v1/summary")).json()["spend_month_to_date"] == "0.00"
    for summary in (mine, everything):
        assert Decimal(summary["spend_per_hour"]) == cloud.price
        assert Decimal(summary["spend_month_to_date"]) == pytest.approx(Decimal(month["spent"]), abs=Decimal("0.01"))


async def test_a_forecast_contains_volumes_until_the_end_of_the_month(
    alice: Caller, bob: Caller, fleet: Fleet, cloud: Cloud, store: Store
) -> None:
    """Two volumes exist, one was deleted, and one has no disk yet."""
    now = clock(store)
    for hours in (1, 2):
        await create(alice, fleet, now - hours * HOUR)
    await create(alice, fleet, now - 3 * HOUR, now - HOUR)
    await alice.post("/v1/volumes", json={"name": "new", "size_gib": GIB, **PLACE})
    budget = {"scope": {"kind": "tenant"}, "period": "lifetime", "amount": "1.00", "when_exceeded": "notify"}
    assert (await alice.post("/v1/budgets", json=budget)).status_code == 201
    found = await forecast(alice)
    assert Decimal(found["run_rate_per_hour"]) == 2 * cloud.price
    as_of, ends_at = moment(found["as_of"]), moment(found["month"]["ends_at"])
    left = 2 * cloud.price * Decimal((ends_at - as_of).total_seconds()) / 3600
    month = {name: Decimal(found["month"][name]) for name in ("spent", "committed", "forecast")}
    assert month["committed"] == pytest.approx(left, abs=Decimal("0.00001"))
    assert month["forecast"] == pytest.approx(month["spent"] + left, abs=Decimal("0.00001"))
    (of_budget,) = found["budgets"]
    exhausted = moment(of_budget["exhausted_at"]) - as_of
    assert exhausted == pytest.approx(timedelta(hours=float(1 / (2 * cloud.price))), abs=timedelta(minutes=2))
    assert (await forecast(bob))["run_rate_per_hour"] == "0.00"
