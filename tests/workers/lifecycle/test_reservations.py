"""Leases in capacity that was bought ahead: AWS's reservations and capacity blocks, from the settings to the VM's end."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.db.fleet import reservations
from app.db.schema.tables import attempt
from app.domain.reservations import ENDING_MARGIN
from cloudsim.testing import Control
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.observe_reservations import observe_reservations
from workers.providers.aws.reservations import BLOCK_ENDS_VMS, BLOCK_MARKET

ZONE = "us-east-1a"
OPEN_ID, BLOCK_ID = "cr-0000000000000000a", "cr-0000000000000000b"
BOUGHT: dict[str, Any] = {"zone": ZONE, "instance_type": "g5.xlarge", "total": 1}
SETTINGS = f"""
[[accounts]]
provider = "aws"
name = "{ACCOUNT}"
regions = ["{REGION}"]
endpoint_url = "URL"

[[accounts.reservations]]
name = "lab"
kind = "capacity_reservation"
id = "{OPEN_ID}"
region = "{REGION}"
zone = "{ZONE}"
instance_type = "g5.xlarge"

[[accounts.reservations]]
name = "block"
kind = "capacity_block"
id = "{BLOCK_ID}"
region = "{REGION}"
zone = "{ZONE}"
instance_type = "g5.xlarge"
price_per_hour = "0.5"
"""


@pytest.fixture
def start(make_fleet: Callable[..., Fleet], sim: Control, tmp_path: Path) -> Callable[..., Fleet]:
    """A fleet whose account has both reservations, as the cloud now reports them."""

    def begin(**changes: Any) -> Fleet:
        path = tmp_path / "reserved.toml"
        path.write_text(SETTINGS.replace("URL", sim.url))
        fleet = make_fleet(config=path, **changes)
        observe_reservations(fleet.runtime, ACCOUNT, REGION)
        return fleet

    return begin


def reservation_of(fleet: Fleet, lease_id: str) -> tuple[str | None, Any]:
    (row,) = fleet.runtime.database.all(
        select(attempt.c.reservation, attempt.c.reserved_until).where(
            attempt.c.lease_id == lease_id, attempt.c.ended_at.is_(None)
        )
    )
    return row.reservation, row.reserved_until


def test_two_reservations_of_one_type_are_two_offerings_and_give_no_more_than_their_slots(
    start: Callable[..., Fleet], sim: Control
) -> None:
    sim.reserve(OPEN_ID, kind="default", **BOUGHT)
    sim.reserve(BLOCK_ID, kind=BLOCK_MARKET, ends_in=86_400, ends_vms_before=1800, **BOUGHT)
    fleet = start()
    first, second = fleet.create(market="reserved"), fleet.create(market="reserved")
    third = fleet.create(market="reserved")
    fleet.drive(lambda: {fleet.lease(one).state for one in (first, second, third)} == {"active", "failed"})

    placed = sorted(
        name
        for one in (first, second, third)
        if fleet.lease(one).state == "active"
        for name in [fleet.lease(one).placement["reservation"]]
    )
    assert placed == ["block", "lab"]
    (failed,) = [fleet.lease(one) for one in (first, second, third) if fleet.lease(one).state == "failed"]
    assert failed.reason["code"] == "capacity_exhausted"
    assert "no slot of reservation" in failed.reason["message"]
    assert len(sim.instances(alive="true")) == 2

    observe_reservations(fleet.runtime, ACCOUNT, REGION)
    assert [row.free_now for row in fleet.runtime.database.all(reservations.candidates())] == [0, 0]


def test_a_lease_ends_before_its_block_even_when_the_block_is_cut_short(
    start: Callable[..., Fleet], sim: Control
) -> None:
    sim.reserve(BLOCK_ID, kind=BLOCK_MARKET, ends_in=86_400, **BOUGHT)
    fleet = start()
    lease_id = fleet.active(market="reserved")
    ends_at = fleet.now() + timedelta(days=1)
    name, until = reservation_of(fleet, lease_id)
    assert name == "block"
    assert abs(ends_at - BLOCK_ENDS_VMS - ENDING_MARGIN - until) < timedelta(seconds=15)
    assert str(fleet.lease(lease_id).cost_closed) == "0.000000"
    assert [str(attempt.price_per_hour) for attempt in fleet.attempts(lease_id)] == ["0.500000"]

    soon = BLOCK_ENDS_VMS + ENDING_MARGIN
    sim.reserve(BLOCK_ID, kind=BLOCK_MARKET, ends_in=soon.total_seconds(), **BOUGHT)
    observe_reservations(fleet.runtime, ACCOUNT, REGION)
    ended = fleet.drive_to(lease_id, "released")
    assert ended.reason["code"] == "reservation_ended"
    assert ended.placement["reserved_until"] < ended.expires_at.isoformat()
    assert sim.instances(alive="true") == []
