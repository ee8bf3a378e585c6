"""Offerings that an operator has cordoned get no launch, whatever a refresh of the catalogue writes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, update

from app.db.fleet import cordons
from app.db.schema.tables import offering
from app.domain.offerings import OfferingSelector
from tests.workers.fleet import ACCOUNT, LEAST, REGION, Fleet

HERE = OfferingSelector(account=ACCOUNT, region=REGION)
BY = {"by": "key_1", "since": "2026-07-01T12:00:00Z", "note": None}


@pytest.fixture
def cordon(fleet: Fleet) -> Callable[..., None]:
    """Cordons what has these values in the region, as the API stores it."""

    def change(**where: Any) -> None:
        selected = {"zone": None, "instance_type": None, "market": None, **where}
        fleet.runtime.database.run(cordons.cordon_offerings(HERE, [{**selected, **BY}]))
        fleet.runtime.catalogue.forget()

    return change


def cordoned(fleet: Fleet) -> set[str]:
    fleet.runtime.catalogue.forget()
    return {offered.key.zone for offered in fleet.runtime.catalogue.offerings() if offered.cordoned}


def test_a_lease_is_placed_where_nothing_is_cordoned(fleet: Fleet, cordon: Callable[..., None]) -> None:
    first = fleet.create()
    fleet.drive_to(first, "active")
    zone = fleet.attempts(first)[-1].zone
    cordon(zone=zone, instance_type="g5.xlarge")
    second = fleet.create()
    fleet.drive_to(second, "active")
    assert fleet.attempts(second)[-1].zone != zone
    assert fleet.lease(first).state == "active", "running leases continue"


def test_a_lease_that_fits_nothing_but_cordoned_offerings_fails_by_that_name(
    fleet: Fleet, cordon: Callable[..., None]
) -> None:
    lease_id = fleet.create(reserved=LEAST)
    cordon()
    fleet.drive_to(lease_id, "failed")
    reason = fleet.lease(lease_id).reason
    assert (reason["code"], reason["message"]) == (
        "capacity_exhausted",
        "every offering that fits is cordoned by an operator",
    )
    assert fleet.attempts(lease_id) == []


def test_a_cordon_outlives_refreshes_and_the_row_of_its_offering(fleet: Fleet, cordon: Callable[..., None]) -> None:
    cordon(zone=f"{REGION}a")
    fleet.refresh()
    assert cordoned(fleet) == {f"{REGION}a"}
    fleet.runtime.database.run(update(offering).values(refreshed_at=func.now() - timedelta(days=3)))
    fleet.runtime.database.run(delete(offering))
    assert cordoned(fleet) == set()
    fleet.refresh()
    assert cordoned(fleet) == {f"{REGION}a"}, "the offering has come back and is still cordoned"


def test_a_zone_that_appears_later_is_cordoned_with_its_type(fleet: Fleet, cordon: Callable[..., None]) -> None:
    fleet.runtime.database.run(delete(offering).where(offering.c.zone == f"{REGION}b"))
    cordon(instance_type="g5.xlarge")
    fleet.refresh()
    assert f"{REGION}b" in cordoned(fleet)
