"""Leases that are claimed together share statements and calls, and a lease that cannot is moved alone."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from app.db.leases import claims
from app.db.schema.tables import attempt, event, lease, offering
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState
from app.domain.lifecycle import Enter
from tests.workers.cohorts import created, move
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.lifecycle.batches.cohorts import Cohort
from workers.lifecycle.step_table import STEPS, WriteSpec
from workers.lifecycle.steps.context import StepContext, context_from_row
from workers.lifecycle.steps.enter import enter_active
from workers.lifecycle.steps.proof import await_proof
from workers.observation.watch import watch
from workers.runtime.brakes import set_hold


def drive_all(fleet: Fleet, leases: list[LeaseId], state: str) -> None:
    fleet.drive(lambda: {fleet.lease(lease_id).state for lease_id in leases} == {state})


def booted(fleet: Fleet, count: int) -> list[LeaseId]:
    """Leases in `booting` whose VMs have passed their checks, all due."""
    leases = created(fleet, count)
    fleet.sim.fault("DescribeInstanceStatus", "error", times=None)
    drive_all(fleet, leases, "booting")
    fleet.sim.clear_faults()
    fleet.wait_for(lambda: all(vm["ready"] for vm in fleet.vms()))
    watch(fleet.runtime, ACCOUNT, REGION)
    return leases


def test_ready_leases_become_active_together_and_rest(fleet: Fleet) -> None:
    leases = booted(fleet, 3)
    learnt = select(func.sum(offering.c.launches), func.max(offering.c.ready_seconds))
    assert tuple(fleet.runtime.database.all(learnt)[0]) == (3, None)
    assert move(fleet) == []
    rows = [fleet.lease(lease_id) for lease_id in leases]
    assert {(row.state, row.claim_id, row.held_until) for row in rows} == {("active", None, None)}
    assert all(row.next_due > fleet.now() for row in rows)
    active = fleet.runtime.database.all(select(event.c.data).where(event.c.type == "lease.active"))
    assert {row.data["instance_id"] for row in active} == {vm["id"] for vm in fleet.vms()}
    assert [row.connection["public_ip"] is not None for row in rows] == [True] * 3


def test_vms_end_with_one_call(fleet: Fleet) -> None:
    leases = created(fleet, 5)
    drive_all(fleet, leases, "active")
    for lease_id in leases:
        fleet.end(lease_id)
    drive_all(fleet, leases, "released")
    assert fleet.sim.calls()["TerminateInstances"] == 1
    assert fleet.vms() == []
    assert fleet.used() == {}


def test_a_protected_vm_keeps_no_other_from_its_end(fleet: Fleet) -> None:
    leases = created(fleet, 4)
    drive_all(fleet, leases, "active")
    protected = fleet.attempts(leases[1])[0].instance_id
    fleet.sim.protect(protected)
    for lease_id in leases:
        fleet.end(lease_id)
    others = [lease_id for lease_id in leases if lease_id != leases[1]]
    drive_all(fleet, others, "released")
    assert [vm["id"] for vm in fleet.vms()] == [protected]
    assert fleet.attempts(leases[1])[0].error["code"] == "OperationNotPermitted"
    fleet.sim.protect(protected, protected=False)
    fleet.drive_to(leases[1], "released")


def test_a_throttled_end_is_asked_for_again_by_each_lease(fleet: Fleet) -> None:
    leases = created(fleet, 3)
    drive_all(fleet, leases, "active")
    fleet.sim.fault("TerminateInstances", "throttle", times=1)
    for lease_id in leases:
        fleet.end(lease_id)
    move(fleet)
    retries = fleet.runtime.database.all(select(attempt.c.retry_at, attempt.c.terminate_sent_at))
    assert all(row.retry_at > fleet.now() and row.terminate_sent_at is None for row in retries)
    drive_all(fleet, leases, "released")


def test_a_lease_that_another_worker_took_over_is_left_to_it(fleet: Fleet) -> None:
    lost, kept, other = booted(fleet, 3)
    rows = fleet.runtime.database.all(claims.claim_due(100, fleet.runtime.settings.claim_seconds))
    claimed = {LeaseId(row.id): row.claim_id for row in rows}
    theirs = {"claim_id": uuid4(), "held_until": func.now() + timedelta(minutes=1)}
    fleet.runtime.database.run(update(lease).where(lease.c.id == lost).values(**theirs))
    Cohort(fleet.runtime, claimed, fleet.reconciler.run).move()
    assert [fleet.lease(lease_id).state for lease_id in (lost, kept, other)] == ["booting", "active", "active"]
    assert fleet.lease(lost).claim_id == theirs["claim_id"]


def test_ready_vms_are_waited_for_together_to_prove_their_gpus(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(agent="on", proof_seconds=120.0)
    lost, *ours = booted(fleet, 3)
    rows = fleet.runtime.database.all(claims.claim_due(100, fleet.runtime.settings.claim_seconds))
    claimed = {LeaseId(row.id): row.claim_id for row in rows}
    loaded = [
        context_from_row(fleet.runtime, row, row.claim_id)
        for row in fleet.runtime.database.all(claims.load_each(claimed))
    ]
    theirs = {"claim_id": uuid4(), "held_until": func.now() + timedelta(minutes=1)}
    fleet.runtime.database.run(update(lease).where(lease.c.id == lost).values(**theirs))
    assert [ctx.lease.id for ctx in await_proof(loaded)] == [ctx.lease.id for ctx in loaded if ctx.lease.id in ours]
    assert [fleet.attempts(one)[0].proof_awaited_at is None for one in (lost, *ours)] == [True, False, False]


def test_leases_whose_vms_are_waited_for_rest_together(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(agent="on", proof_seconds=120.0)
    leases = booted(fleet, 3)
    assert move(fleet) == []
    assert all(fleet.attempts(one)[0].proof_awaited_at is not None and fleet.rests(one) > 10 for one in leases)


def test_a_lease_that_ends_meanwhile_is_moved_alone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = booted(fleet, 3)

    def ending(some: Sequence[StepContext]) -> list[StepContext]:
        fleet.end(leases[0])
        return enter_active(some)

    monkeypatch.setitem(STEPS, Enter, WriteSpec({LeaseState.ACTIVE: ending}))
    assert leases[0] in move(fleet)
    assert [fleet.lease(lease_id).state for lease_id in leases[1:]] == ["active", "active"]
    fleet.drive_to(leases[0], "released")


def test_a_step_that_fails_for_all_is_done_for_each(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = booted(fleet, 3)

    def broken(some: Sequence[StepContext]) -> list[StepContext]:
        if len(some) > 1:
            raise RuntimeError("a bug")
        return enter_active(some)

    monkeypatch.setitem(STEPS, Enter, WriteSpec({LeaseState.ACTIVE: broken}))
    assert sorted(move(fleet)) == sorted(leases)
    assert [fleet.lease(lease_id).state for lease_id in leases] == ["active"] * 3


def test_on_hold_all_rest(fleet: Fleet) -> None:
    leases = booted(fleet, 3)
    set_hold(fleet.runtime.database, "test")
    assert move(fleet) == []
    assert [fleet.lease(lease_id).state for lease_id in leases] == ["booting"] * 3
    assert all(0 < fleet.rests(lease_id) <= 2 for lease_id in leases)
