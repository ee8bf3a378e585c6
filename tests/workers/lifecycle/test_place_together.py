"""Leases that are alike are placed by one transaction, and what concerns one of them keeps no other from its place."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from app.db.schema.tables import event
from app.domain.explanations.placement_failure import AUTH
from app.domain.ids import LeaseId
from app.domain.offerings import Offering
from tests.workers.cohorts import created, move
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.lifecycle.batches import place_together
from workers.lifecycle.steps.context import StepContext
from workers.lifecycle.steps.readiness import NotReadyError
from workers.lifecycle.steps.usable_image import usable_image

FOUR = {"model": "A10G", "count": 4, "memory_gib": None}


def planned_at(fleet: Fleet, leases: Sequence[LeaseId]) -> list[datetime]:
    """When each lease's attempt was planned: equal for those of one transaction."""
    return [one.created_at for lease_id in leases for one in fleet.attempts(lease_id)]


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    """Its worker knows the account's identity and image."""
    fleet.runtime.accounts.require_identity(ACCOUNT)
    fleet.runtime.accounts.image(ACCOUNT, REGION)
    return fleet


def test_equal_leases_are_placed_together(fleet: Fleet) -> None:
    leases = created(fleet, 5)
    assert move(fleet) == [], "they wait for company"
    times = planned_at(fleet, leases)
    assert (len(times), len(set(times))) == (5, 1)
    rows = [fleet.lease(lease_id) for lease_id in leases]
    assert {row.state for row in rows} == {"provisioning"}
    told = fleet.runtime.database.all(select(event.c.lease_id).where(event.c.type == "lease.provisioning"))
    assert {row.lease_id for row in told} == set(leases)
    assert len({row.deadline_applied for row in rows}) == 5
    assert fleet.used()["leases"] == 5


def test_leases_that_were_placed_together_start_with_one_call(fleet: Fleet) -> None:
    leases = created(fleet, 5)
    fleet.drive_all_to(leases, "active")
    assert fleet.runs() == 1
    fleet.drive_to_own_tags()
    assert len({vm["tags"]["gpulease-lease"] for vm in fleet.vms()}) == 5


def test_other_wishes_and_scripts_are_placed_apart(fleet: Fleet) -> None:
    scripts = [fleet.create(wait_seconds=600, script=f"echo {number % 2}") for number in range(4)]
    disks = [fleet.create(wait_seconds=600, disk_gib=120) for _ in range(2)]
    move(fleet)
    times = planned_at(fleet, scripts)
    assert sorted(Counter(times).values()) == [1, 1, 2], "those with another script are placed alone"
    assert times[0] == times[2] or times[1] == times[3]
    assert len({*planned_at(fleet, disks)} - {*times}) == 1


def test_where_the_quota_has_room_for_some_these_are_placed(fleet: Fleet) -> None:
    fleet.limit("gpus", 6)
    least = {"gpus": Decimal(1), "leases": Decimal(1)}
    leases = [
        fleet.create(wait_seconds=600, instance_types=["g5.12xlarge"], gpu=FOUR, reserved=least) for _ in range(3)
    ]
    move(fleet)
    states = sorted(fleet.lease(lease_id).state for lease_id in leases)
    assert states == ["provisioning", "queued", "queued"]
    assert fleet.used()["gpus"] == 6


def test_a_lease_that_ends_meanwhile_is_not_placed(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = created(fleet, 3)

    def ending(ctx: StepContext, offering: Offering) -> Any:
        fleet.end(leases[1])
        return usable_image(ctx, offering)

    monkeypatch.setattr(place_together, "usable_image", ending)
    assert leases[1] in move(fleet)
    assert [len(fleet.attempts(lease_id)) for lease_id in leases] == [1, 0, 1]
    fleet.drive_to(leases[1], "released")


def test_what_must_ask_the_cloud_first_is_placed_alone(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet()
    leases = created(fleet, 3)
    assert len(move(fleet)) == 1, "the image is not known to the first one"
    assert sorted(Counter(planned_at(fleet, leases)).values()) == [1, 2]


def test_what_keeps_all_from_an_offering_is_recorded_by_each_alone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = created(fleet, 3)

    def not_ready(_ctx: StepContext, _offering: Offering) -> Any:
        raise NotReadyError(timedelta(seconds=1), AUTH)

    monkeypatch.setattr(place_together, "usable_image", not_ready)
    assert sorted(move(fleet)) == sorted(leases)
    assert len(set(planned_at(fleet, leases))) == 3
