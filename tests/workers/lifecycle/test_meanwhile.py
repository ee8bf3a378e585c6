"""What changes while a step is under way: the step that was decided on no longer holds, or its claim is somebody else's."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from app.db.schema.tables import event, lease
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState
from app.domain.lifecycle import BeginRelease, Enter, Place, Requeue, Send, Step, decide
from app.settings import AccountSettings, Settings
from tests.harness.databases import Databases, full_disk
from tests.workers.fleet import Fleet
from workers.lifecycle.sweeper import Sweeper
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.types import Params, Vm


class During:
    """Runs `act` once: within the next create call, or between the decision for a step that `at` fits and that step."""

    def __init__(self) -> None:
        self.act: Callable[[], object] | None = None
        self.at: Callable[[Step | None], bool] = lambda step: step is None

    def happen(self, step: Step | None = None) -> None:
        if self.act is not None and self.at(step):
            act, self.act = self.act, None
            act()


class Launching(AwsProvider):
    """Things happen between the create call and its answer."""

    def __init__(self, during: During, account: AccountSettings, settings: Settings) -> None:
        assert isinstance(account, AwsAccount)
        super().__init__(account, settings)
        self._during = during

    def launch(self, region: str, params: Params) -> Vm:
        vm = super().launch(region, params)
        self._during.happen()
        return vm


@pytest.fixture
def during() -> During:
    return During()


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], during: During, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Things happen between a decision and its step, or within a create call."""

    def decided(*facts: Any) -> Any:
        step = decide(*facts)
        during.happen(step)
        return step

    monkeypatch.setattr("workers.lifecycle.reconciler.decide", decided)
    return make_fleet(connect_account=lambda account, settings: Launching(during, account, settings))


def take_claim(fleet: Fleet, lease_id: LeaseId) -> None:
    """What another worker does after this one has let its claim run out."""
    theirs = {"claim_id": uuid4(), "held_until": func.now() + timedelta(minutes=1)}
    fleet.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(theirs))


def test_a_claim_that_could_not_be_released_is_released_once_the_database_takes_writes_again(
    fleet: Fleet, during: During, databases: Databases, database_url: str
) -> None:
    """Without that the lease waits until the claim runs out: the process lives, so nobody else may take it."""
    fleet.may_break_off = True
    lease_id = fleet.create()
    with full_disk(databases, database_url) as fill:
        during.act, during.at = fill, lambda step: isinstance(step, Place)
        assert fleet.reconciler.run_hinted(lease_id)
    assert fleet.lease(lease_id).claim_id is not None
    sweeper = Sweeper(fleet.runtime, fleet.reconciler)
    sweeper.sweep()
    sweeper.drain()
    assert fleet.lease(lease_id).claim_id is None
    fleet.drive_to(lease_id, "active")
    assert len(fleet.vms()) == 1


def test_an_extension_is_stronger_than_an_expiry_that_was_already_decided(fleet: Fleet, during: During) -> None:
    lease_id = fleet.create(ttl=3600)
    fleet.drive_to(lease_id, "active")
    fleet.extend(lease_id, -1)
    during.act, during.at = lambda: fleet.extend(lease_id, 3600), lambda step: isinstance(step, BeginRelease)
    fleet.runtime.database.run(update(lease).values(next_due=func.now()))
    fleet.step()
    assert during.act is None, "an expiry was decided"
    fleet.drive(lambda: fleet.rests(lease_id) > 10)
    kept = fleet.lease(lease_id)
    assert (kept.state, kept.desired, kept.reason) == ("active", "run", None)
    assert "lease.releasing" not in fleet.events(lease_id)


def test_a_tenant_that_is_active_again_keeps_a_lease_whose_end_was_already_decided(
    fleet: Fleet, during: During
) -> None:
    lease_id = fleet.create()
    fleet.suspend()
    during.act, during.at = fleet.activate, lambda step: isinstance(step, BeginRelease)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert during.act is None


@pytest.mark.parametrize("step", [Place(), Enter(LeaseState.BOOTING), Enter(LeaseState.ACTIVE), Requeue()], ids=repr)
def test_a_release_is_stronger_than_a_step_that_was_already_decided(fleet: Fleet, during: During, step: Step) -> None:
    lease_id = fleet.create(market="spot", on_interruption="replace")
    during.act, during.at = lambda: fleet.end(lease_id), lambda decided: decided == step
    if isinstance(step, Requeue):
        fleet.drive_to(lease_id, "active")
        (vm,) = fleet.vms()
        fleet.sim.interrupt(vm["id"], 0)
    fleet.drive(lambda: during.act is None)
    told = fleet.events(lease_id)
    assert told[-1] in {"lease.releasing", "lease.released"}, "the step was not taken"
    fleet.drive_to(lease_id, "released")
    assert fleet.vms() == []
    assert fleet.used() == {}


@pytest.mark.parametrize("brake", ["stop", "hold", "expiry", "failover", "suspension"])
def test_nothing_is_sent_when_a_brake_is_pulled_between_the_intent_and_the_call(
    fleet: Fleet, during: During, brake: str
) -> None:
    lease_id = fleet.create()
    pulled = {
        "stop": fleet.stop_launches,
        "hold": fleet.put_on_hold,
        "expiry": lambda: fleet.extend(lease_id, 1.9),
        "failover": fleet.change_timeline,
        "suspension": fleet.suspend,
    }
    during.act, during.at = pulled[brake], lambda step: isinstance(step, Send)
    assert fleet.pause(lease_id) == 1
    assert during.act is None
    (planned,) = fleet.attempts(lease_id)
    assert (planned.state, planned.first_sent_at, fleet.runs()) == ("planned", None, 0)


def test_the_answer_to_a_create_call_is_kept_by_whoever_lost_the_claim_who_moves_nothing(
    fleet: Fleet, during: During
) -> None:
    lease_id = fleet.create()
    during.act = lambda: take_claim(fleet, lease_id)
    fleet.step()
    (made,) = fleet.attempts(lease_id)
    (vm,) = fleet.sim.instances()
    assert (made.state, made.instance_id) == ("known", vm["id"]), "a fact is kept, whoever learns it"
    seen = fleet.lease(lease_id)
    assert (seen.launched_at, seen.placement["instance_id"]) == (None, None)
    assert "attempt.launched" not in fleet.events(lease_id)
    assert seen.held_until is not None, "the claim of the other one is left alone"


def test_a_lost_claim_is_no_bug(fleet: Fleet, during: During) -> None:
    lease_id = fleet.create()
    during.act = lambda: take_claim(fleet, lease_id)
    fleet.step()
    counted = fleet.runtime.metrics.registry.get_sample_value
    failures = {reason: counted("gpulease_step_failures_total", {"reason": reason}) for reason in ("claim_lost", "bug")}
    assert failures == {"claim_lost": 1.0, "bug": 0.0}


def test_the_end_of_an_attempt_is_told_with_what_it_was(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    (vm,) = fleet.sim.instances()
    fleet.sim.stop(vm["id"])
    fleet.drive_to(lease_id, "released", "failed")
    told = select(event.c.data).where(event.c.lease_id == lease_id, event.c.type == "attempt.dead")
    (row,) = fleet.runtime.database.all(told)
    assert (row.data["n"], row.data["instance_id"]) == (1, vm["id"])
    assert row.data["offering"]["instance_type"] == "g5.xlarge"


def test_a_replacement_is_waited_for_as_long_as_the_first_vm_was(fleet: Fleet) -> None:
    lease_id = fleet.create(market="spot", on_interruption="replace", wait_seconds=7200)
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.capacity(0)
    fleet.sim.interrupt(active.placement["instance_id"], 0)
    again = fleet.drive_to(lease_id, "queued")
    assert again.wait_until > active.wait_until
    assert abs((again.wait_until - again.updated_at) - timedelta(hours=2)) < timedelta(minutes=1)


def test_a_replacement_too_waits_a_minute_for_a_place_that_is_not_ready(fleet: Fleet) -> None:
    lease_id = fleet.create(market="spot", on_interruption="replace")
    active = fleet.drive_to(lease_id, "active")
    fleet.runtime.database.run(update(lease).values(created_at=lease.c.created_at - timedelta(hours=1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet.runtime.first_listings, "done", lambda *_: False)
        fleet.sim.interrupt(active.placement["instance_id"], 0)
        fleet.drive_to(lease_id, "queued")
        fleet.runtime.database.run(update(lease).values(next_due=func.now()))
        fleet.step()
        assert fleet.lease(lease_id).state == "queued"
    assert fleet.drive_to(lease_id, "active", "failed", "released").state == "active"


def test_an_account_that_refuses_us_at_the_end_of_a_vm_is_set_aside(fleet: Fleet) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.end(lease_id)
    fleet.sim.credentials(bad=["AKIASIMULATED0000001"])
    fleet.runtime.database.run(update(lease).values(next_due=func.now()))
    fleet.step()
    assert (fleet.account().state, fleet.account().last_error["code"]) == ("failing", "AuthFailure")
    fleet.sim.credentials(bad=[])
    fleet.refresh()
    fleet.drive_to(lease_id, "released")
    assert fleet.vms() == []
