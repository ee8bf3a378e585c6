"""A lease with a spend cap: its rate has all parts, its end moves with its price, and it ends at the cap."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import func, insert, select, text, update

from app.db.schema.tables import attempt_price, lease, offering, part_price
from app.domain.billing import cost
from app.domain.ids import LeaseId
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.price_changes import find_price_changes, record_price_changes

MILLIONTH = Decimal("0.000001")


def price_parts(fleet: Fleet, *, disk: str, address: str) -> None:
    here = {"account": ACCOUNT, "region": REGION, "instance_type": "*"}
    origin = {"price_as_of": func.now(), "price_source": "test", "price_live": True}
    fleet.runtime.database.run(text("DELETE FROM part_price"))
    for part, price in (("disk", disk), ("address", address)):
        fleet.runtime.database.run(insert(part_price).values(**here, **origin, part=part, price=Decimal(price)))
    fleet.runtime.catalogue.forget()


def set_cap(fleet: Fleet, lease_id: LeaseId, cap: str) -> None:
    fleet.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(max_cost=Decimal(cap)))


def reprice(fleet: Fleet, price: str) -> int:
    fleet.runtime.database.run(update(offering).values(price_per_hour=Decimal(price), price_live=True))
    with fleet.runtime.database.begin() as connection:
        found = find_price_changes(connection, fleet.runtime, ACCOUNT, REGION)
    return record_price_changes(fleet.runtime, found)


def tagged(fleet: Fleet) -> int:
    (vm,) = fleet.vms()
    return int(vm["tags"]["gpulease-deadline"])


def closed_exactly(fleet: Fleet, lease_id: LeaseId) -> Decimal:
    """The cost of the lease's only attempt, from its prices and times."""
    (one,) = fleet.attempts(lease_id)
    changes = fleet.runtime.database.all(select(attempt_price).order_by(attempt_price.c.starts_at))
    prices = [(one.billing_started_at, one.price_per_hour), *((row.starts_at, row.price_per_hour) for row in changes)]
    edges: list[datetime] = [at for at, _ in prices[1:]] + [one.billing_ended_at]
    parts = one.disk_price_per_hour + one.address_price_per_hour
    spans = zip(prices, edges, strict=True)
    return sum((cost(price + parts, min(until, one.billing_ended_at) - at) for (at, price), until in spans), Decimal(0))


def test_a_capped_lease_pays_for_all_parts_and_ends_at_its_cap(fleet: Fleet) -> None:
    price_parts(fleet, disk="0.073", address="0.005")
    lease_id = fleet.create()
    set_cap(fleet, lease_id, "0.5")
    row = fleet.drive_to(lease_id, "active")
    (one,) = fleet.attempts(lease_id)
    assert (one.disk_gib, one.disk_price_per_hour, one.address_price_per_hour) == (
        100,
        Decimal("0.01"),
        Decimal("0.005"),
    )
    assert (one.list_price_per_hour, one.price_source is None, one.price_as_of is None) == (
        one.price_per_hour,
        False,
        False,
    )
    assert row.rate_per_hour == one.price_per_hour + Decimal("0.015")
    assert (row.disk_rate_per_hour, row.address_rate_per_hour) == (Decimal("0.01"), Decimal("0.005"))
    lasts = timedelta(hours=float(Decimal("0.5") / row.rate_per_hour))
    assert abs(row.cost_reached_at - row.rate_since - lasts) < timedelta(milliseconds=1)
    fleet.drive(lambda: tagged(fleet) == int((row.cost_reached_at + timedelta(seconds=1800)).timestamp()))
    over = {"rate_since": text("rate_since - interval '1 hour'"), "cost_reached_at": func.now(), "next_due": func.now()}
    fleet.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(**over))
    ended = fleet.drive_to(lease_id, "released")
    assert (ended.reason["code"], ended.reason["origin"]) == ("spend_cap", "system")
    assert (ended.rate_per_hour, ended.disk_rate_per_hour, ended.address_rate_per_hour) == (None, None, None)
    assert abs(ended.cost_closed - closed_exactly(fleet, lease_id)) <= MILLIONTH


def test_the_price_of_a_running_spot_vm_moves_its_end_and_its_cost_is_exact(fleet: Fleet) -> None:
    price_parts(fleet, disk="0.073", address="0.005")
    lease_id = fleet.create(market="spot")
    set_cap(fleet, lease_id, "3")
    before = fleet.drive_to(lease_id, "active")
    assert reprice(fleet, "7.2") == 1
    assert reprice(fleet, "7.2") == 0, "the same price again is no change"
    after = fleet.lease(lease_id)
    assert after.rate_per_hour == Decimal("7.215")
    assert after.cost_closed > 0
    assert after.cost_reached_at < before.cost_reached_at
    assert after.next_due is not None
    assert reprice(fleet, "3.6") == 1
    fleet.end(lease_id)
    ended = fleet.drive_to(lease_id, "released")
    assert fleet.events(lease_id).count("lease.price_changed") == 2
    assert abs(ended.cost_closed - closed_exactly(fleet, lease_id)) <= MILLIONTH


def test_prices_on_demand_stay_those_of_the_launch(fleet: Fleet) -> None:
    lease_id = fleet.active()
    before = fleet.lease(lease_id)
    assert reprice(fleet, "99") == 0
    assert fleet.lease(lease_id).rate_per_hour == before.rate_per_hour


def test_a_replacement_that_the_cap_does_not_pay_for_ends_the_lease(fleet: Fleet) -> None:
    lease_id = fleet.create()
    spent: Any = {"max_cost": Decimal("1.01"), "cost_closed": Decimal(1)}
    fleet.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(**spent))
    row = fleet.drive_to(lease_id, "failed")
    assert row.reason["code"] == "spend_cap"
    assert fleet.attempts(lease_id) == []
