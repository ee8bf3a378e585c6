"""Lost answers, crashes between call and record, cancels at every moment: never two VMs, never one left over."""

from collections.abc import Callable

import pytest
from sqlalchemy import text, update

from app.db.schema.tables import attempt
from app.domain.ids import LeaseId
from app.domain.tags import ATTEMPT, INSTALLATION, LEASE, TENANT
from tests.workers.fleet import Fleet
from workers.providers.aws.adapter import AwsProvider
from workers.providers.types import Params, Vm

LONGER_THAN_AT_FIRST = 10.0


class CrashedError(BaseException):
    """Stands for kill -9: nothing catches it."""


class CrashAfterLaunch(AwsProvider):
    """A provider whose process dies after the create call was answered, before anything is recorded."""

    def launch(self, region: str, params: Params) -> Vm:
        super().launch(region, params)
        raise CrashedError


def test_a_lost_reply_is_repeated_with_the_same_token_and_makes_one_vm(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=10.0)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    lease_id = fleet.create()
    while fleet.attempts(lease_id) == [] or fleet.attempts(lease_id)[0].state != "known":
        fleet.step()
    assert fleet.runs() == 2
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    (vm,) = fleet.sim.instances()
    assert [(a.n, a.instance_id) for a in fleet.attempts(lease_id)] == [(1, vm["id"])]


def test_a_vm_whose_reply_was_lost_is_adopted_from_a_listing(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    lease_id = fleet.create()
    fleet.step()
    fleet.observe()
    assert [a.state for a in fleet.attempts(lease_id)] == ["known"]
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert fleet.runs() == len(fleet.sim.instances()) == 1


def test_a_hanging_call_is_given_up_and_repeated_with_the_same_token(quick_fleet: Fleet) -> None:
    quick_fleet.sim.fault("RunInstances", "hang", times=1, delay_seconds=5)
    lease_id = quick_fleet.create()
    assert quick_fleet.drive_to(lease_id, "active", "failed").state == "active"
    quick_fleet.drive(lambda: len(quick_fleet.sim.instances()) == 1)


def test_a_worker_killed_between_call_and_record_leaves_one_vm(make_fleet: Callable[..., Fleet]) -> None:
    first = make_fleet(connect_account=CrashAfterLaunch, unknown_retry_seconds=10.0)
    lease_id = first.create()
    with pytest.raises(CrashedError):
        first.step()
    first.end_claims(lease_id)
    assert len(first.vms()) == 1
    second = make_fleet(unknown_retry_seconds=10.0)
    assert second.drive_to(lease_id, "active", "failed").state == "active"
    assert len(second.sim.instances()) == 1
    assert [a.n for a in second.attempts(lease_id)] == [1]


def test_a_cancel_while_the_outcome_is_unknown_finds_the_vm_and_ends_it(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    lease_id = fleet.create()
    fleet.step()
    assert [a.state for a in fleet.attempts(lease_id)] == ["sent"]
    fleet.end(lease_id)
    assert fleet.drive_to(lease_id, "released", "failed").state == "released"
    assert len(fleet.sim.instances()) == 1
    assert fleet.vms() == []
    assert fleet.runs() == 1


def test_a_create_that_never_happened_is_declared_dead_only_after_the_proof(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.state == "settling" for a in fleet.attempts(lease_id)))
    assert fleet.used()["gpus"] == 1
    fleet.end(lease_id)
    sends = fleet.runs()
    fleet.drive_to(lease_id, "released")
    (attempt,) = fleet.attempts(lease_id)
    assert attempt.state == "dead"
    assert attempt.empty_listings >= 2
    assert fleet.runs() == sends, "nothing is created while settling"
    assert attempt.billing_started_at is None


def test_a_vm_that_ended_before_anybody_saw_it_leaves_things_that_keep_no_lease(fleet: Fleet) -> None:
    """Every answer to the create call is lost. The VM ends by itself; an address of it stays, idle and billed."""
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.state == "settling" for a in fleet.attempts(lease_id)))
    left = {INSTALLATION: fleet.runtime.installation.id, LEASE: lease_id, ATTEMPT: "1", TENANT: fleet.tenant_id}
    fleet.make_address(left)
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    (attempt,) = fleet.attempts(lease_id)
    assert (attempt.state, attempt.error["class"], attempt.clean) == ("dead", "NeverSeen", True)
    assert fleet.sim.resources() == []
    assert fleet.used() == {}


def test_after_a_send_of_unknown_outcome_a_refusal_is_not_believed(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=30.0)
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=1)
    lease_id = fleet.create()
    fleet.step()
    fleet.sim.capacity(0)
    fleet.drive(lambda: fleet.attempts(lease_id)[0].state == "settling")
    assert fleet.attempts(lease_id)[0].error["class"] == "InsufficientCapacity"
    assert fleet.runs() == 2, "refused when repeated, and never sent again"
    fleet.sim.capacity(None)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert [a.state for a in fleet.attempts(lease_id)] == ["dead", "known"]
    assert len(fleet.vms()) == 1


def test_a_refusal_after_a_lost_answer_leads_to_the_vm_that_was_made(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=30.0)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    fleet.sim.fault("RunInstances", "error", code="IdempotentParameterMismatch", times=1)
    lease_id = fleet.create()
    fleet.step()
    fleet.wait_for(lambda: fleet.rests(lease_id) <= 0)
    fleet.step()
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    (vm,) = fleet.sim.instances()
    assert [(a.n, a.instance_id) for a in fleet.attempts(lease_id)] == [(1, vm["id"])]
    assert fleet.runs() == 2


@pytest.mark.parametrize("state", ["queued", "provisioning", "booting", "active"])
def test_a_release_in_every_state_leaves_nothing(fleet: Fleet, state: str) -> None:
    fleet.sim.settings(boot_seconds=8.0 if state == "booting" else 0.4)
    lease_id = fleet.create()
    if state != "queued":
        reach(fleet, lease_id, state)
    fleet.end(lease_id)
    assert fleet.lease(lease_id).state == "releasing"
    assert fleet.drive_to(lease_id, "released", "failed").state == "released"
    assert fleet.vms() == []
    assert fleet.used() == {}


def reach(fleet: Fleet, lease_id: LeaseId, state: str) -> None:
    if state == "provisioning":
        fleet.step()
        assert fleet.lease(lease_id).state == "provisioning"
    else:
        fleet.drive_to(lease_id, state)


def test_a_late_vm_of_an_attempt_declared_dead_is_ended_by_garbage_collection(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.state == "settling" for a in fleet.attempts(lease_id)))
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    tags = {"gpulease-installation": fleet.runtime.installation.id, "gpulease-lease": lease_id, "gpulease-attempt": "1"}
    (late,) = fleet.plant(tags=tags, token=fleet.attempts(lease_id)[0].token)
    fleet.drive(lambda: not fleet.is_alive(late))
    (orphan,) = fleet.orphans()
    assert orphan.cause == "ended_lease"


def test_a_cloud_without_answers_is_asked_ever_more_rarely_until_a_listing_is_complete(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(unknown_retry_seconds=0.1)
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: any(one.unknown_since is not None for one in fleet.attempts(lease_id)))
    fleet.sim.fault("*", "error", code="InternalError", times=None)
    fleet.runtime.database.run(update(attempt).values(last_sent_at=text("now() - interval '60 seconds'")))
    fleet.drive(lambda: fleet.rests(lease_id) > LONGER_THAN_AT_FIRST)
    assert fleet.attempts(lease_id)[0].state == "settling"
    fleet.sim.clear_faults()

    def due() -> bool:
        fleet.observe()
        return fleet.rests(lease_id) <= 0

    fleet.wait_for(due)
