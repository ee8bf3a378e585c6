"""What happens to a launch batch meanwhile: workers die, answers come late, leases end, and listings show its VMs."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, update

from app.db.schema.tables import attempt, launch_batch
from app.domain.lifecycle import Look, Step, decide
from tests.harness.databases import Databases, full_disk
from tests.workers.fleet import Fleet
from tests.workers.late import LOST, Answer, Scripted, Stall
from tests.workers.lifecycle.batch_steps import (
    batches,
    each_vm_is_in_its_slot,
    led_together,
    planned_together,
    send_batch,
    states,
)
from workers.lifecycle.sweeper import Sweeper
from workers.providers.aws.adapter import AwsProvider
from workers.providers.errors import InsufficientCapacity, Throttled
from workers.providers.types import BatchLaunched, Params


class CrashedError(BaseException):
    """Stands for kill -9: nothing catches it."""


class CrashBeforeTheCall(AwsProvider):
    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        raise CrashedError


class CrashAfterTheCall(AwsProvider):
    def launch_batch(self, region: str, params: Params) -> BatchLaunched:
        super().launch_batch(region, params)
        raise CrashedError


@pytest.mark.parametrize("provider", [CrashBeforeTheCall, CrashAfterTheCall])
def test_a_kill_around_the_call_leaves_no_twin(make_fleet: Callable[..., Fleet], provider: type[AwsProvider]) -> None:
    first = make_fleet(connect_account=provider, unknown_retry_seconds=10.0)
    leases = planned_together(first, 5)
    killed(first, leases)
    second = make_fleet(unknown_retry_seconds=10.0)
    second.drive_all_to(leases, "active")
    assert len(second.sim.instances()) == 5
    assert [len(second.attempts(lease_id)) for lease_id in leases] == [1] * 5
    assert second.orphans() == []


def test_claims_of_a_batch_are_released_once_the_database_takes_writes_again(
    make_fleet: Callable[..., Fleet], databases: Databases, database_url: str
) -> None:
    with full_disk(databases, database_url) as fill:

        class FullDuringTheCall(AwsProvider):
            def launch_batch(self, region: str, params: Params) -> BatchLaunched:
                launched = super().launch_batch(region, params)
                fill()
                return launched

        fleet = make_fleet(connect_account=FullDuringTheCall)
        fleet.may_break_off = True
        leases = planned_together(fleet, 5)
        send_batch(fleet)
        assert any(fleet.lease(lease_id).claim_id for lease_id in leases)
    sweeper = Sweeper(fleet.runtime, fleet.reconciler)
    sweeper.sweep()
    sweeper.drain()
    assert [fleet.lease(lease_id).claim_id for lease_id in leases] == [None] * 5
    fleet.drive_all_to(leases, "active")
    assert len(fleet.sim.instances()) == 5


def killed(fleet: Fleet, leases: list[Any]) -> None:
    """The worker dies in its call; its claims run out."""
    with pytest.raises(CrashedError):
        fleet.drive(lambda: False)
    fleet.end_claims(*leases)


def test_a_part_of_the_vms_after_a_kill(make_fleet: Callable[..., Fleet]) -> None:
    first = make_fleet(connect_account=CrashAfterTheCall, unknown_retry_seconds=10.0)
    first.sim.fault("RunInstances", "partial", times=1, count=2)
    leases = planned_together(first, 5, wait_seconds=60)
    killed(first, leases)
    second = make_fleet(unknown_retry_seconds=10.0)
    second.drive_all_to(leases, "active")
    first_attempts = Counter(one[0] for one in states(second, leases))
    assert first_attempts["known"] == 2
    assert first_attempts["refused"] + first_attempts["dead"] == 3, "dead: no call was left to make in time"
    assert len(second.sim.instances()) == 5


LATE: dict[str, Answer] = {
    "with the VMs": Answer(),
    "as a refusal": Answer(InsufficientCapacity("none left", code="InsufficientInstanceCapacity")),
    "as throttled": Answer(Throttled("slow down", code="RequestLimitExceeded")),
    "as lost": Answer(LOST, sent=True),
}
"""How a call ends that stalls before its request leaves, while another worker makes the same call."""


@pytest.mark.parametrize("ends", LATE)
def test_an_answer_that_comes_after_another_worker_took_over_changes_nothing(
    make_fleet: Callable[..., Fleet], ends: str
) -> None:
    scripted = Scripted()
    first, second = make_fleet(connect_account=scripted.connect), make_fleet()
    leases = planned_together(first, 3)
    before: list[Any] = []

    def take_over() -> None:
        first.end_claims(*leases)
        first.runtime.database.run(update(attempt).values(retry_at=None))
        second.drive_all_to(leases, "active")
        before.extend(second.attempts(lease_id) for lease_id in leases)

    scripted.script["launch_batch"] = [Stall(LATE[ends], take_over)]
    first.drive(lambda: bool(before))
    assert [second.attempts(lease_id) for lease_id in leases] == before
    assert [len(rows) for rows in before] == [1] * 3
    assert (len(second.sim.instances()), second.orphans(), second.used()["gpus"]) == (3, [], 3)


def test_a_vm_that_another_worker_stores_during_the_search_for_it_is_ended(
    make_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_fleet(unknown_retry_seconds=10.0), make_fleet(unknown_retry_seconds=10.0)
    leases = led_together(first)
    first.sim.fault("RunInstances", "error", code="InternalError", times=1)
    send_batch(first)
    first.end(leases[1])
    searches: list[Step] = []

    def decided(*facts: Any) -> Any:
        step = decide(*facts)
        if isinstance(step, Look) and not searches:
            searches.append(step)
            second.drive(lambda: states(second, leases) == [["known"]] * 2)
        return step

    monkeypatch.setattr("workers.lifecycle.reconciler.decide", decided)
    first.drive_to(leases[1], "released")
    assert (len(searches), [batch.params for batch in batches(first)]) == (1, [None])
    assert [(one.state, one.instance_id is None) for one in first.attempts(leases[1])] == [("dead", False)]
    assert (len(first.sim.instances()), len(first.vms()), first.used()["gpus"]) == (2, 1, 1)


def test_a_lease_released_before_the_call_is_left_out(fleet: Fleet) -> None:
    leases = planned_together(fleet, 4)
    fleet.end(leases[1])
    fleet.drive_to(leases[1], "released")
    fleet.drive_all_to([leases[0], *leases[2:]], "active")
    assert [len(fleet.sim.instances()), batches(fleet)[0].slots] == [3, 3]


def test_a_lease_released_during_the_call_gets_its_vm_and_ends_it(make_fleet: Callable[..., Fleet]) -> None:
    released: list[Callable[[], None]] = []

    class Meanwhile(AwsProvider):
        def launch_batch(self, region: str, params: Params) -> BatchLaunched:
            released[0]()
            return super().launch_batch(region, params)

    fleet = make_fleet(connect_account=Meanwhile)
    leases = planned_together(fleet, 3)
    released.append(lambda: fleet.end(leases[1]))
    fleet.drive_all_to([leases[0], leases[2]], "active")
    fleet.drive_to(leases[1], "released")
    assert (len(fleet.sim.instances()), len(fleet.vms()), fleet.used()["gpus"]) == (3, 2, 2)


def test_the_inventory_knows_a_vm_by_batch_and_slot(fleet: Fleet) -> None:
    leases = planned_together(fleet, 3)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    send_batch(fleet)
    fleet.observe()
    assert states(fleet, leases) == [["known"]] * 3
    assert fleet.orphans() == []
    assert fleet.hold() is None
    assert each_vm_is_in_its_slot(fleet, leases)


def test_a_vm_in_a_slot_that_no_attempt_has_is_ended(fleet: Fleet) -> None:
    """A call that was said to be throttled has worked after all."""
    leases = planned_together(fleet, 2)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    send_batch(fleet)
    values = {"state": "planned", "batch_id": None, "batch_index": None, "last_sent_at": None, "unknown_since": None}
    fleet.runtime.database.run(update(attempt).values(**values, retry_at=func.now()))
    fleet.observe()
    assert {orphan.cause for orphan in fleet.orphans()} == {"other_attempt"}
    assert fleet.hold() is None
    fleet.drive_all_to(leases, "active")
    fleet.drive(lambda: len(fleet.vms()) == 2)


def test_a_vm_of_a_batch_that_the_database_has_lost_sets_the_hold(fleet: Fleet) -> None:
    leases = planned_together(fleet, 2)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    send_batch(fleet)
    for lease_id in leases:
        fleet.lose(lease_id)
    fleet.runtime.database.run(launch_batch.delete())
    fleet.observe()
    assert fleet.hold() is not None
    assert {orphan.cause for orphan in fleet.orphans()} == {"lost_row"}
    assert len(fleet.vms()) == 2
