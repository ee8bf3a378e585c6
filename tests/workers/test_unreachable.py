"""A cloud to which no connection can be made holds a lease for a while, not for ever."""

from collections.abc import Callable

import pytest

from app.settings import AccountConfig, Settings
from app.settings.accounts import AwsAccount
from tests.workers.fleet import Fleet
from workers.providers.aws.adapter import AwsProvider
from workers.providers.base import Image, Params, Unreachable, Vm


class Line:
    """What cannot be reached now: `launch`, `identity`, `image`. Connects accounts over itself."""

    def __init__(self) -> None:
        self.cut: set[str] = set()

    def connect(self, account: AccountConfig, settings: Settings) -> AwsProvider:
        return OverLine(self, account, settings)

    def check(self, call: str) -> None:
        if call in self.cut:
            raise Unreachable("no connection to the endpoint", code="EndpointConnectionError")


class OverLine(AwsProvider):
    """An account behind a line that may be cut; nothing is sent then."""

    def __init__(self, line: Line, account: AccountConfig, settings: Settings) -> None:
        assert isinstance(account, AwsAccount)
        super().__init__(account, settings)
        self._line = line

    def launch(self, region: str, params: Params) -> Vm:
        self._line.check("launch")
        return super().launch(region, params)

    def identity(self) -> str:
        self._line.check("identity")
        return super().identity()

    def image(self, region: str, name: str | None = None) -> Image:
        self._line.check("image")
        return super().image(region, name)


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], line: Line) -> Fleet:
    return make_fleet(connect_account=line.connect, unreachable_seconds=0.5, unknown_retry_seconds=2.0)


def test_a_connection_that_comes_back_soon_costs_nothing(fleet: Fleet, line: Line) -> None:
    line.cut = {"launch"}
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.unreachable_since is not None for a in fleet.attempts(lease_id)))
    line.cut = set()
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert [a.n for a in fleet.attempts(lease_id)] == [1]


def test_after_a_while_the_attempt_is_refused_and_the_next_candidate_is_tried(fleet: Fleet, line: Line) -> None:
    line.cut = {"launch"}
    lease_id = fleet.create(wait_seconds=600)
    fleet.drive(lambda: len(fleet.attempts(lease_id)) == 2)
    first = fleet.attempts(lease_id)[0]
    assert (first.state, first.error["class"]) == ("refused", "Unreachable")
    cooling = [o.cool_off for o in fleet.runtime.catalogue.offerings() if o.cool_off is not None]
    assert [(one.reason, one.code) for one in cooling] == [("provider_error", "EndpointConnectionError")]
    line.cut = set()
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert len(fleet.sim.instances()) == 1


def test_throttling_in_between_shows_that_the_cloud_is_there(fleet: Fleet, line: Line) -> None:
    line.cut = {"launch"}
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.unreachable_since is not None for a in fleet.attempts(lease_id)))
    fleet.sim.fault("RunInstances", "throttle", times=1)
    line.cut = set()
    fleet.drive(lambda: fleet.runs() == 1)
    assert [a.unreachable_since for a in fleet.attempts(lease_id)] == [None]


def test_after_a_send_of_unknown_outcome_an_unreachable_cloud_is_no_refusal(fleet: Fleet, line: Line) -> None:
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    lease_id = fleet.create()
    fleet.step()
    line.cut = {"launch"}
    while fleet.attempts(lease_id)[0].state == "sent":
        fleet.step()
        fleet.runtime.stopping.wait(0.05)
    assert "attempt.settling" in fleet.events(lease_id)
    assert [a.state for a in fleet.attempts(lease_id)] == ["known"], "only looked for, and found"
    assert len(fleet.sim.instances()) == 1


@pytest.mark.parametrize("call", ["identity", "image"])
def test_a_cloud_out_of_reach_before_any_attempt_ends_a_lease_that_does_not_wait(
    make_fleet: Callable[..., Fleet], line: Line, call: str
) -> None:
    make_fleet()
    line.cut = {call}
    fleet = make_fleet(connect_account=line.connect, unreachable_seconds=0.0, observe=False)
    lease_id = fleet.create()
    failed = fleet.drive_to(lease_id, "failed", "released")
    assert failed.reason["code"] == "provider_error"
    assert "EndpointConnectionError" in failed.reason["message"]
    assert fleet.attempts(lease_id) == []
    assert fleet.used() == {}
