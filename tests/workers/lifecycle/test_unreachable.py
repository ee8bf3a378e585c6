"""A cloud to which no connection can be made holds a lease for a while, not for ever."""

from collections.abc import Callable

import pytest

from tests.workers.failing import NO_LINE, Failing
from tests.workers.fleet import Fleet


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], failing: Failing) -> Fleet:
    return make_fleet(connect_account=failing.connect, unreachable_seconds=0.5, unknown_retry_seconds=2.0)


def test_a_connection_that_comes_back_soon_costs_nothing(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"launch": NO_LINE}
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.unreachable_since is not None for a in fleet.attempts(lease_id)))
    failing.errors = {}
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert [a.n for a in fleet.attempts(lease_id)] == [1]


def test_after_a_while_the_attempt_is_refused_and_the_next_candidate_is_tried(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"launch": NO_LINE}
    lease_id = fleet.create(wait_seconds=600)
    fleet.drive(lambda: len(fleet.attempts(lease_id)) == 2)
    first = fleet.attempts(lease_id)[0]
    assert (first.state, first.error["class"]) == ("refused", "Unreachable")
    cooling = [o.cool_off for o in fleet.runtime.catalogue.offerings() if o.cool_off is not None]
    assert [(one.reason, one.code) for one in cooling] == [("provider_error", "EndpointConnectionError")]
    failing.errors = {}
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert len(fleet.sim.instances()) == 1


def test_throttling_in_between_shows_that_the_cloud_is_there(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"launch": NO_LINE}
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.unreachable_since is not None for a in fleet.attempts(lease_id)))
    fleet.sim.fault("RunInstances", "throttle", times=1)
    failing.errors = {}
    fleet.drive(lambda: fleet.runs() == 1)
    assert [a.unreachable_since for a in fleet.attempts(lease_id)] == [None]


def test_after_a_send_of_unknown_outcome_an_unreachable_cloud_is_no_refusal(fleet: Fleet, failing: Failing) -> None:
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    lease_id = fleet.create()
    fleet.step()
    failing.errors = {"launch": NO_LINE}
    while fleet.attempts(lease_id)[0].state == "sent":
        fleet.step()
        fleet.let_pass(0.05)
    assert "attempt.settling" in fleet.events(lease_id)
    assert [a.state for a in fleet.attempts(lease_id)] == ["known"], "only looked for, and found"
    assert len(fleet.sim.instances()) == 1


@pytest.mark.parametrize("call", ["identity", "image"])
def test_a_cloud_out_of_reach_before_any_attempt_ends_a_lease_that_does_not_wait(
    make_fleet: Callable[..., Fleet], failing: Failing, call: str
) -> None:
    make_fleet()
    failing.errors = {call: NO_LINE}
    fleet = make_fleet(connect_account=failing.connect, unreachable_seconds=0.0, observe=False)
    lease_id = fleet.create()
    failed = fleet.drive_to(lease_id, "failed", "released")
    assert failed.reason["code"] == "provider_error"
    assert "EndpointConnectionError" in failed.reason["message"]
    assert fleet.attempts(lease_id) == []
    assert fleet.used() == {}
