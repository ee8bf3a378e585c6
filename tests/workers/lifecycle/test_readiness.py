"""A place that is not ready yet is asked again soon; until then a lease takes what costs about the same, not what costs much more."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, literal, select, update

from app.db.schema.tables import account, lease, offering, periodic_job
from app.domain.ids import LeaseId
from app.domain.offerings import Market
from tests.workers.fleet import AT_LEAST_ONE, REGION, Fleet

ELSEWHERE = "us-west-2"
SMALL, LARGE = "g5.xlarge", "g5.12xlarge"
ANY_A10G: Mapping[str, Any] = {"gpu": AT_LEAST_ONE, "instance_types": None}


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


# --- no inventory has listed the region since the worker started --------------------------------------------


def let_time_pass(fleet: Fleet, seconds: float) -> None:
    """The worker has run for so long, and every lease was created so much earlier."""
    past = timedelta(seconds=seconds)
    fleet.runtime.first_listings.started_at -= past
    fleet.runtime.database.run(update(lease).values(wait_until=lease.c.wait_until - past))


def listing_fails(fleet: Fleet) -> None:
    """An inventory process tries, and the cloud refuses."""
    job = {"last_started_at": func.now(), "last_error": "Unreachable: no connection"}
    fleet.runtime.database.run(update(periodic_job).where(periodic_job.c.kind == "inventory").values(**job))


@pytest.mark.parametrize("wait_seconds", [0, 30])
def test_a_lease_waits_for_an_inventory_that_is_away_and_says_so(
    fleet: Fleet, listed: set[str], wait_seconds: int
) -> None:
    lease_id = fleet.create(wait_seconds=wait_seconds)
    fleet.runtime.first_listings.started_at = fleet.now()
    fleet.step()
    assert fleet.lease(lease_id).reason is None, "the worker has only just started"
    let_time_pass(fleet, 100)
    step_when_due(fleet)
    waiting = fleet.lease(lease_id)
    assert (waiting.state, waiting.reason["code"], waiting.reason["origin"]) == (
        "queued",
        "region_not_listed",
        "system",
    )
    assert "no complete listing of the region yet" in waiting.reason["message"]
    assert waiting.reason["retryable"]
    assert 5 < fleet.rests(lease_id) <= 10
    step_when_due(fleet)
    assert fleet.events(lease_id) == ["lease.queued"], "told once"
    listed.add(REGION)
    fleet.make_due(lease_id)
    assert fleet.drive_to(lease_id, "active", "failed").reason is None
    assert fleet.events(lease_id).count("lease.queued") == 1


def test_when_the_inventory_is_back_a_lease_that_does_not_wait_ends_with_the_clouds_own_answer(
    fleet: Fleet, listed: set[str]
) -> None:
    fleet.sim.capacity(0, region=REGION)
    lease_id = fleet.create()
    let_time_pass(fleet, 100)
    fleet.step()
    listed.add(REGION)
    fleet.make_due(lease_id)
    assert fleet.drive_to(lease_id, "failed").reason["code"] == "capacity_exhausted"
    assert len(fleet.attempts(lease_id)) > 1


def test_a_lease_that_waits_for_capacity_shows_that_when_the_listing_is_no_longer_missing(
    fleet: Fleet, listed: set[str]
) -> None:
    fleet.sim.capacity(0, region=REGION)
    lease_id = fleet.create(wait_seconds=600)
    let_time_pass(fleet, 100)
    fleet.step()
    listed.add(REGION)
    fleet.make_due(lease_id)
    fleet.drive(lambda: (fleet.lease(lease_id).reason or {}).get("code") == "capacity_exhausted")


def test_refusals_elsewhere_do_not_end_a_lease_whose_other_region_waits_for_the_inventory(
    fleet: Fleet, listed: set[str]
) -> None:
    offer_elsewhere(fleet, SMALL, price(fleet, SMALL))
    listed.add(REGION)
    fleet.sim.capacity(0, region=REGION)
    lease_id = fleet.create()
    fleet.drive(lambda: fleet.lease(lease_id).state == "provisioning" and fleet.rests(lease_id) > 0)
    let_time_pass(fleet, 100)
    step_when_due(fleet)
    waiting = fleet.lease(lease_id)
    assert (waiting.state, waiting.reason["code"]) == ("queued", "region_not_listed")
    listed.add(ELSEWHERE)
    fleet.make_due(lease_id)
    assert fleet.drive_to(lease_id, "active", "failed").region == ELSEWHERE


def test_a_region_whose_listing_fails_ends_a_lease_that_does_not_wait_and_the_reason_says_so(
    fleet: Fleet, listed: set[str]
) -> None:
    lease_id = fleet.create()
    listing_fails(fleet)
    fleet.step()
    assert fleet.lease(lease_id).state == "queued", "the listing may go well next time"
    let_time_pass(fleet, 100)
    step_when_due(fleet)
    failed = fleet.drive_to(lease_id, "failed")
    assert (failed.reason["code"], failed.reason["origin"]) == ("region_not_listed", "provider")
    assert "listing us-east-1 at aws fails" in failed.reason["message"]


def test_a_lease_that_waits_longer_shows_that_the_listing_fails(fleet: Fleet, listed: set[str]) -> None:
    lease_id = fleet.create(wait_seconds=600)
    listing_fails(fleet)
    let_time_pass(fleet, 100)
    fleet.step()
    waiting = fleet.lease(lease_id)
    assert (waiting.state, waiting.reason["code"], waiting.reason["origin"]) == (
        "queued",
        "region_not_listed",
        "provider",
    )


def test_a_failure_from_before_the_worker_started_says_nothing(fleet: Fleet, listed: set[str]) -> None:
    lease_id = fleet.create()
    listing_fails(fleet)
    fleet.runtime.first_listings.started_at = fleet.now()
    fleet.runtime.database.run(update(lease).values(wait_until=lease.c.wait_until - timedelta(seconds=100)))
    fleet.step()
    assert fleet.lease(lease_id).state == "queued"
