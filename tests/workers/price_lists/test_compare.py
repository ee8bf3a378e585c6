"""Live prices in the offerings: they replace listed ones, stay while nobody tells new ones, and say how old they are."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.db.fleet.offerings import candidates, offering_from_row, save_offerings
from app.db.schema.tables import offering, periodic_job
from app.domain.offerings import PriceStatus
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.refresh_offerings import PRICES, refresh_prices
from workers.jobs.runner import PeriodicRunner
from workers.jobs.schedule import job_specs

WEEK = timedelta(days=7)


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A worker that has the patience for price lists: they come in many pages."""
    return make_fleet(call_timeout=30.0, claim_seconds=90.0)


def rows(fleet: Fleet, market: str = "on_demand", name: str = "p4d.24xlarge") -> list[Any]:
    here = (offering.c.market == market, offering.c.instance_type == name)
    return fleet.runtime.database.all(candidates().statement.where(*here).order_by(offering.c.zone))


def shown(fleet: Fleet, market: str = "on_demand") -> set[tuple[Decimal | None, str | None, PriceStatus]]:
    """Price, source and status in all zones."""
    now = fleet.runtime.database.all(select(func.now().label("now")))[0].now
    found = (offering_from_row(row) for row in rows(fleet, market))
    return {(one.price_per_hour, one.price_source, one.price_status(now, WEEK)) for one in found}


def make_older(fleet: Fleet, days: int) -> None:
    fleet.runtime.database.run(update(offering).values(price_as_of=offering.c.price_as_of - timedelta(days=days)))


LISTED = (Decimal("21.957642"), "EC2 on-demand list prices, Linux, shared tenancy", PriceStatus.LISTED)
LIVE = (Decimal("21.957642"), "AWS Price List", PriceStatus.LIVE)


def test_a_live_price_takes_the_place_of_a_listed_one_in_all_zones(fleet: Fleet) -> None:
    assert shown(fleet) == {LISTED}
    assert refresh_prices(fleet.runtime, ACCOUNT, REGION) > 10
    assert shown(fleet) == {LIVE}
    fleet.refresh()
    assert shown(fleet) == {LIVE}


def test_spot_prices_are_live_from_the_first_refresh(fleet: Fleet) -> None:
    assert {status for _, _, status in shown(fleet, "spot")} == {PriceStatus.LIVE}


def test_a_price_stays_and_goes_stale_while_the_list_does_not_answer(fleet: Fleet) -> None:
    refresh_prices(fleet.runtime, ACCOUNT, REGION)
    make_older(fleet, 8)
    fleet.sim.fault("GetProducts", "error", code="AccessDeniedException", times=None)
    assert refresh_prices(fleet.runtime, ACCOUNT, REGION) == 0
    assert shown(fleet) == {(*LIVE[:2], PriceStatus.STALE)}
    assert fleet.account().state == "ok"
    fleet.sim.clear_faults()
    refresh_prices(fleet.runtime, ACCOUNT, REGION)
    assert shown(fleet) == {LIVE}


def test_a_newer_list_takes_the_place_of_a_price_told_before_it(fleet: Fleet) -> None:
    refresh_prices(fleet.runtime, ACCOUNT, REGION)
    make_older(fleet, 400)
    fleet.refresh()
    assert shown(fleet) == {LISTED}


def test_a_price_that_is_not_told_any_more_is_kept(fleet: Fleet) -> None:
    before = shown(fleet, "spot")
    row = rows(fleet, "spot")[0]._mapping
    told = {column.name: row[column.name] for column in offering.columns}
    unpriced = {**told, "price_per_hour": None, "price_as_of": None, "price_source": None, "price_live": False}
    with fleet.runtime.database.begin() as connection:
        connection.execute(*save_offerings([unpriced]))
    assert shown(fleet, "spot") == before


def test_new_offerings_are_priced_at_once(fleet: Fleet) -> None:
    every = job_specs(fleet.runtime.settings).refresh
    runner = PeriodicRunner(fleet.runtime, {PRICES: every[PRICES]})
    fleet.refresh()
    assert runner.run_one()
    assert not runner.run_one()
    fleet.refresh()
    assert not runner.run_one()
    fleet.sim.offered(f"{REGION}e", "p4d.24xlarge", offered=True)
    fleet.refresh()
    assert LISTED in shown(fleet)
    assert runner.run_one()
    assert shown(fleet) == {LIVE}
    job: Any = next(row for row in fleet.runtime.database.all(periodic_job.select()) if row.kind == PRICES)
    assert (job.next_due - job.last_started_at).total_seconds() == fleet.runtime.settings.prices_interval
