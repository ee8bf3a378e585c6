from datetime import UTC, datetime, timedelta

from app.cli.render.timeline import stages
from tests.cli.fake_api import (
    ACTIVE,
    BOOTING,
    NO_CAPACITY,
    PROVISIONING,
    REFUSED_ATTEMPT,
    RELEASED,
    RELEASING,
    Json,
    a_lease,
)

START = datetime(2026, 6, 1, 10, tzinfo=UTC)


def _times(*changes: Json, tries: bool = True) -> list[tuple[str, float | None]]:
    lease = a_lease()
    for change in changes:
        lease |= change
    return [
        (stage.state, (stage.ended - stage.began).total_seconds() if stage.ended else None)
        for stage in stages(lease, [REFUSED_ATTEMPT] if tries else [])
    ]


def test_each_state_takes_as_long_as_its_timestamps_say() -> None:
    assert _times(PROVISIONING, BOOTING, ACTIVE, RELEASING, RELEASED) == [
        ("queued", 2),
        ("provisioning", 28),
        ("booting", 70),
        ("active", 3500),
        ("releasing", 9),
        ("released", None),
    ]


def test_the_last_stage_is_the_leases_own_state_and_goes_on() -> None:
    lease = a_lease()
    (only,) = stages(lease, [])
    assert (only.state, only.took(START + timedelta(seconds=7))) == ("queued", timedelta(seconds=7))
    assert _times(PROVISIONING, tries=False) == [("queued", 2), ("provisioning", None)]


def test_a_lease_without_capacity_shows_no_state_it_never_had() -> None:
    assert _times(PROVISIONING, NO_CAPACITY) == [("queued", 2), ("provisioning", 18), ("failed", None)]


def test_a_replaced_lease_is_queued_again() -> None:
    replaced = {"state": "queued", "updated_at": "2026-06-01T10:30:00Z"}
    assert _times(PROVISIONING, BOOTING, ACTIVE, replaced)[-2:] == [("active", 1700), ("queued", None)]
