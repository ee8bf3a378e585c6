"""Prices of disks and addresses: from the adapter's list, then from the provider."""

from decimal import Decimal

from sqlalchemy import select

from app.db.schema.tables import part_price
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.refresh_offerings import refresh, refresh_prices


def known(fleet: Fleet) -> dict[str, tuple[Decimal, bool]]:
    rows = fleet.runtime.database.all(select(part_price))
    return {row.part: (row.price, row.price_live) for row in rows}


def test_a_live_price_replaces_the_listed_one_and_stays(fleet: Fleet) -> None:
    listed = {"disk": (Decimal("0.08"), False), "address": (Decimal("0.005"), False)}
    live = {"disk": (Decimal("0.09"), True), "address": (Decimal("0.006"), True)}
    assert known(fleet) == listed
    refresh_prices(fleet.runtime, ACCOUNT, REGION)
    assert known(fleet) == live
    refresh(fleet.runtime, ACCOUNT, REGION)
    assert known(fleet) == live
    (one,) = fleet.attempts(fleet.active())
    assert one.disk_price_per_hour == (Decimal("0.09") * 100 / 730).quantize(Decimal("0.000001"))
    assert one.address_price_per_hour == Decimal("0.006")
