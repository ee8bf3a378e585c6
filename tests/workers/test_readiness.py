"""A place that is not ready yet is asked again soon; until then a lease takes what costs about the same, not what costs much more."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, literal, select, update

from app.db.tables import account, lease, offering
from app.domain.ids import LeaseId
from app.domain.offerings import Market
from tests.workers.fleet import REGION, Fleet

ELSEWHERE = "us-west-2"
SMALL, LARGE = "g5.xlarge", "g5.12xlarge"
ANY_A10G: Mapping[str, Any] = {"gpu": {"model": "A10G", "count": 1, "memory_gib": None}, "instance_types": None}


@pytest.fixture
def listed(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The regions that this worker has seen listed."""
    regions: set[str] = set()
    monkeypatch.setattr(fleet.runtime.first_listings, "done", lambda _, region: region in regions)
    return regions


def test_nothing_is_tried_while_no_place_is_ready(fleet: Fleet, listed: set[str]) -> None:
    offer_elsewhere(fleet, SMALL, price(fleet, SMALL) * Decimal("1.4"))
    lease_id = fleet.create(**ANY_A10G)
    fleet.step()
    assert tried(fleet, lease_id) is None
    assert fleet.rests(lease_id) <= 0.5
    listed.add(ELSEWHERE)
    step_when_due(fleet)
    assert tried(fleet, lease_id) == (ELSEWHERE, SMALL)


def offer_elsewhere(fleet: Fleet, name: str, price: Decimal | None = None) -> None:
    """The account's other region offers this type alone."""
    columns = [column for column in offering.c if column.name != "region"]
    here = select(literal(ELSEWHERE), *columns).where(offering.c.region == REGION, offering.c.instance_type == name)
    config = account.c.config.concat({"regions": [REGION, ELSEWHERE]})
    with fleet.runtime.database.begin() as connection:
        connection.execute(update(account).values(config=config))
        connection.execute(insert(offering).from_select(["region", *(column.name for column in columns)], here))
        if price is not None:
            connection.execute(update(offering).where(offering.c.region == ELSEWHERE).values(price_per_hour=price))
        connection.execute(delete(offering).where(offering.c.region == REGION, offering.c.instance_type != SMALL))
    fleet.runtime.catalogue.forget()


def price(fleet: Fleet, name: str) -> Decimal:
    known = {(o.key.instance_type, o.key.market): o.price_per_hour for o in fleet.runtime.catalogue.offerings()}
    found = known[name, Market.ON_DEMAND]
    assert found is not None
    return found


def tried(fleet: Fleet, lease_id: LeaseId) -> tuple[str, str] | None:
    """Where the lease was tried first, if anywhere."""
    return next(((a.region, a.instance_type) for a in fleet.attempts(lease_id)), None)


def step_when_due(fleet: Fleet) -> None:
    fleet.runtime.database.run(update(lease).values(next_due=func.now()))
    fleet.step()


def test_a_region_that_gets_ready_while_a_lease_looks_is_not_left_with_its_dear_offerings(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False])
    monkeypatch.setattr(fleet.runtime.first_listings, "done", lambda *_: next(answers, True))
    lease_id = fleet.create(**ANY_A10G)
    fleet.step()
    assert tried(fleet, lease_id) is None
    assert fleet.rests(lease_id) <= 0.5
    step_when_due(fleet)
    assert tried(fleet, lease_id) == (REGION, SMALL)


@pytest.mark.parametrize(("becomes_ready", "wait_seconds"), [(True, 0), (False, 0), (False, 86_400)])
def test_what_costs_much_more_waits_a_minute_for_what_is_not_ready(
    fleet: Fleet, listed: set[str], *, becomes_ready: bool, wait_seconds: int
) -> None:
    assert price(fleet, LARGE) > 2 * price(fleet, SMALL)
    offer_elsewhere(fleet, LARGE)
    listed.add(ELSEWHERE)
    lease_id = fleet.create(**ANY_A10G, wait_seconds=wait_seconds)
    fleet.step()
    assert tried(fleet, lease_id) is None
    if becomes_ready:
        listed.add(REGION)
    else:
        fleet.runtime.database.run(update(lease).values(wait_until=lease.c.wait_until - timedelta(minutes=1)))
    step_when_due(fleet)
    assert tried(fleet, lease_id) == ((REGION, SMALL) if becomes_ready else (ELSEWHERE, LARGE))


@pytest.mark.parametrize(("times", "taken"), [("1.5", (ELSEWHERE, SMALL)), ("1.51", None)])
def test_what_costs_about_the_same_is_taken_at_once(
    fleet: Fleet, listed: set[str], times: str, taken: tuple[str, str] | None
) -> None:
    offer_elsewhere(fleet, SMALL, price(fleet, SMALL) * Decimal(times))
    listed.add(ELSEWHERE)
    lease_id = fleet.create()
    fleet.step()
    assert tried(fleet, lease_id) == taken
