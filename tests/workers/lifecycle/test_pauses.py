"""How long a lease rests while it looks for a place: to the second, between two readings of the database's clock."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import func, text, update

from app.db.core.ids import new_id
from app.db.leases import reboots
from app.db.schema.tables import lease, offering, provider_bucket
from app.domain.ids import TenantId
from tests.workers.failing import NO_LINE, NOBODY_KNOWS, REJECTED, SLOW_DOWN, Failing
from tests.workers.fleet import ACCOUNT, AT_LEAST_ONE, LEAST, REGION, Fleet
from workers.providers.errors import InvalidSpec, NotOffered, ProviderError

ZONE = "us-east-1a"


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], failing: Failing) -> Fleet:
    return make_fleet(connect_account=failing.connect, unreachable_seconds=40.0, unknown_retry_seconds=600.0)


# --- looking for a place ---------------------------------------------------------------------------------------


def test_while_launches_are_stopped(fleet: Fleet) -> None:
    fleet.stop_launches()
    assert fleet.pause(fleet.create()) == 5
    assert fleet.pause(fleet.create(ttl=3)).expected <= 3


@pytest.mark.parametrize("error", [REJECTED, SLOW_DOWN, InvalidSpec("no such thing", code="Invalid")])
def test_while_an_account_does_not_say_who_it_is(fleet: Fleet, failing: Failing, error: ProviderError) -> None:
    distrust(fleet)
    failing.errors = {"identity": error}
    lease_id = fleet.create()
    assert fleet.pause(lease_id) == 2
    assert fleet.attempts(lease_id) == []


def distrust(fleet: Fleet) -> None:
    """As after the time that an answer about who an account is is believed."""
    fleet.runtime.accounts._trusted_until.clear()


@pytest.mark.parametrize(("call", "error"), [("identity", NO_LINE), ("identity", NOBODY_KNOWS), ("image", NO_LINE)])
def test_while_a_cloud_is_out_of_reach(
    fleet: Fleet, failing: Failing, monkeypatch: pytest.MonkeyPatch, call: str, error: ProviderError
) -> None:
    distrust(fleet)
    failing.errors = {call: error}
    lease_id = fleet.create(wait_seconds=60)
    for away, seconds in ((0.0, 2), (10.0, 5), (39.0, 10)):
        monkeypatch.setattr(fleet.runtime.accounts, "out_of_reach", lambda _, away=away: away)
        assert fleet.pause(lease_id) == seconds
    assert fleet.cooling() == []


@pytest.mark.parametrize("call", ["identity", "image"])
def test_a_cloud_out_of_reach_for_long_is_set_aside(
    fleet: Fleet, failing: Failing, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    distrust(fleet)
    failing.errors = {call: NO_LINE}
    monkeypatch.setattr(fleet.runtime.accounts, "out_of_reach", lambda _: 40.0)
    lease_id = fleet.create(wait_seconds=600)
    assert fleet.pause(lease_id) == 30
    assert fleet.lease(lease_id).reason["code"] == "provider_error"
    assert {row[1:] for row in fleet.cooling()} == {("provider_error", "EndpointConnectionError", 60)}


def test_while_an_image_cannot_be_asked_for(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"image": SLOW_DOWN}
    assert fleet.pause(fleet.create()) == 2
    assert fleet.cooling() == []


@pytest.mark.parametrize(
    ("error", "aside"),
    [(InvalidSpec("none", code="NoImage"), "image_missing"), (NotOffered("gone", code="Gone"), "provider_error")],
)
def test_an_offering_without_an_image_is_set_aside(
    fleet: Fleet, failing: Failing, error: ProviderError, aside: str
) -> None:
    failing.errors = {"image": error}
    fleet.make_due(fleet.create(wait_seconds=600))
    fleet.step()
    assert (ZONE, aside, error.code, 60) in fleet.cooling()


def test_credentials_that_are_refused_for_an_image_set_the_account_aside(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"image": REJECTED, "identity": REJECTED}
    lease_id = fleet.create(wait_seconds=600)
    fleet.step()
    assert (fleet.account().state, fleet.account().last_error["code"]) == ("failing", "AuthFailure")
    assert fleet.attempts(lease_id) == []


def test_without_capacity_a_lease_looks_again_when_the_first_offering_may_be_tried_or_in_half_a_minute(
    fleet: Fleet,
) -> None:
    fleet.sim.capacity(0)
    lease_id = fleet.create(wait_seconds=600)
    assert fleet.pause(lease_id) == 30
    soon = fleet.now() + timedelta(seconds=20)
    fleet.runtime.database.run(update(offering).where(offering.c.zone == ZONE).values(cool_until=soon))
    fleet.runtime.catalogue.forget()
    assert 19 < fleet.pause(lease_id).expected <= 20
    fleet.runtime.database.run(update(lease).values(wait_until=func.now() + timedelta(seconds=9)))
    assert 8 < fleet.pause(lease_id).expected <= 9


def test_what_is_set_aside_is_tried_in_the_first_pass_of_a_lease_and_not_in_others(fleet: Fleet) -> None:
    fleet.sim.capacity(0)
    lease_id = fleet.create(wait_seconds=600)
    fleet.step()
    tried = fleet.runs()
    assert tried > 1
    for _ in range(2):
        fleet.make_due(lease_id)
        fleet.step()
        assert fleet.runs() == tried, "a lease that waits asks nobody who has just refused it"
    fleet.create(wait_seconds=600)
    fleet.step()
    assert fleet.runs() == 2 * tried, "a new one asks each"


def test_an_offering_beyond_the_quota_is_counted_once(fleet: Fleet) -> None:
    fleet.limit("gpus", 3)
    failed = fleet.drive_to(fleet.create(instance_types=["g5.12xlarge"], gpu=AT_LEAST_ONE, reserved=LEAST), "failed")
    count = len([o for o in fleet.runtime.catalogue.offerings() if o.key.instance_type == "g5.12xlarge"]) // 2
    assert f"any of the {count} offerings" in failed.reason["message"]


# --- rates -----------------------------------------------------------------------------------------------------


@pytest.fixture
def paced(make_fleet: Callable[..., Fleet], failing: Failing) -> Fleet:
    """Launches each lease alone. Leases that are launched together share a slot: see `test_batches`."""
    return make_fleet(connect_account=failing.connect, provider_rate_limits=True, launch_batch=1)


def use_up(fleet: Fleet, operation: str, seconds: float) -> None:
    """So much has been asked of it that a call has to wait so long, and a bit more for a burst."""
    full = func.now() + timedelta(seconds=seconds + 60)
    name = f"{ACCOUNT}/{REGION}/{operation}"
    with fleet.runtime.database.begin() as connection:
        connection.execute(text("DELETE FROM provider_bucket WHERE name = :name"), {"name": name})
        connection.execute(provider_bucket.insert().values(name=name, next_free=full))


def test_a_launch_waits_for_its_slot_and_keeps_it(paced: Fleet) -> None:
    use_up(paced, "launch", 5)
    lease_id = paced.create()
    first = paced.pause(lease_id).expected
    assert 5 < first <= 65
    reserved = paced.lease(lease_id)
    assert (reserved.slot_bucket, reserved.slot_at) == (f"{ACCOUNT}/{REGION}/launch", reserved.next_due)
    assert paced.attempts(lease_id) == []
    assert paced.pause(lease_id).expected <= first
    assert paced.lease(lease_id).slot_at == reserved.slot_at, "no other slot is taken for it"
    paced.runtime.database.run(update(lease).values(slot_at=func.now()))
    paced.make_due(lease_id)
    paced.step()
    assert len(paced.attempts(lease_id)) == 1
    assert (paced.lease(lease_id).slot_bucket, paced.lease(lease_id).slot_at) == (None, None)


def test_a_tenant_with_many_leases_gives_one_of_its_slots_to_another_tenant(paced: Fleet) -> None:
    use_up(paced, "launch", 5)
    many = [paced.create() for _ in range(3)]
    for lease_id in many:
        paced.pause(lease_id)
    slots = sorted(paced.lease(lease_id).slot_at for lease_id in many)
    paced.tenant_id = TenantId(new_id("tenant"))
    paced._make_tenant()
    other = paced.create()
    paced.pause(other)
    assert paced.lease(other).slot_at in slots[:-1]
    assert max(paced.lease(lease_id).slot_at for lease_id in many) > slots[-1]


@pytest.mark.parametrize("operation", ["terminate", "write"])
def test_a_call_waits_a_second_when_its_rate_is_used_up(paced: Fleet, operation: str) -> None:
    lease_id = paced.active()
    if operation == "terminate":
        paced.end(lease_id)
    else:
        paced.runtime.database.run(reboots.request(lease_id, None, within=None))
    use_up(paced, operation, 60)
    assert paced.pause(lease_id) == 1
    assert len(paced.vms()) == 1
    assert paced.sim.calls().get("RebootInstances", 0) == 0
