"""Leases of one tenant that want the same VM are launched with one create call."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.db.schema.tables import attempt, lease, provider_bucket
from app.domain.boot_sizes import TOO_LONG
from app.domain.tokens import agent_hash, host_key_hash, slot_token
from cloudsim.user_data import first_boot
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.lifecycle.batch_steps import (
    batches,
    created,
    each_vm_is_in_its_slot,
    led_together,
    planned_together,
    send_batch,
    states,
)
from workers.lifecycle.batches import company
from workers.providers.aws.adapter import AwsProvider
from workers.providers.errors import InvalidSpec
from workers.providers.types import BatchLaunched, LaunchSpec, Params

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPBLvpGMa8Ck+CZFsl3sHC4vtX5kV3fMw9vMkKPmXYT"


def test_twenty_leases_of_a_tenant_take_one_call(fleet: Fleet) -> None:
    leases = created(fleet, 20)
    fleet.drive_all_to(leases, "active")
    assert (fleet.runs(), len(fleet.vms())) == (1, 20)
    [batch] = batches(fleet)
    assert (batch.slots, batch.params) == (20, None)
    assert len({fleet.attempts(lease_id)[0].instance_id for lease_id in leases}) == 20


def test_two_tenants_share_no_call(fleet: Fleet) -> None:
    leases = created(fleet, 3)
    with fleet.other_tenant():
        leases += created(fleet, 3)
    fleet.drive_all_to(leases, "active")
    assert (fleet.runs(), len(fleet.vms())) == (2, 6)
    assert sorted(batch.slots for batch in batches(fleet)) == [3, 3]
    assert len({batch.tenant_id for batch in batches(fleet)}) == 2


def test_two_api_keys_of_a_tenant_share_no_call(fleet: Fleet) -> None:
    """Code in one VM learns the tokens of all VMs of its call."""
    leases = created(fleet, 6)
    for number, lease_id in enumerate(leases):
        owned = update(lease).where(lease.c.id == lease_id).values(key_id=f"key_{number % 2}")
        fleet.runtime.database.run(owned)
    fleet.drive_all_to(leases, "active")
    assert sorted(batch.slots for batch in batches(fleet)) == [3, 3]
    for batch in batches(fleet):
        slots = (
            select(lease.c.key_id).join(attempt, attempt.c.lease_id == lease.c.id).where(attempt.c.batch_id == batch.id)
        )
        assert len({row.key_id for row in fleet.runtime.database.all(slots)}) == 1


def test_other_requests_share_no_call(fleet: Fleet) -> None:
    leases = [*created(fleet, 2), *created(fleet, 2, disk_gib=120), *created(fleet, 2, ssh_public_keys=[KEY])]
    fleet.drive_all_to(leases, "active")
    assert (fleet.runs(), len(batches(fleet))) == (3, 3)


def test_a_lone_lease_has_no_batch(fleet: Fleet) -> None:
    fleet.active()
    assert (fleet.runs(), batches(fleet)) == (1, [])


def test_the_setting_switches_batches_off(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(launch_batch=1)
    leases = created(fleet, 3)
    fleet.drive_all_to(leases, "active")
    assert (fleet.runs(), batches(fleet)) == (3, [])


def test_vms_get_tags_of_their_own(fleet: Fleet) -> None:
    leases = created(fleet, 3)
    fleet.drive_all_to(leases, "active")
    fleet.drive_to_own_tags()
    assert {(vm["tags"]["gpulease-lease"], vm["tags"]["Name"]) for vm in fleet.vms()} == {
        (lease_id, f"t{number}") for number, lease_id in enumerate(leases)
    }


# --- rates -------------------------------------------------------------------------------------------------------


def test_one_of_them_takes_a_slot_of_the_rate_for_all(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(provider_rate_limits=True)
    use_up(fleet)
    leases = created(fleet, 5)
    fleet.step()
    (leader,) = leaders(fleet, leases)
    slot = fleet.lease(leader).slot_at
    assert min(fleet.lease(lease_id).next_due for lease_id in leases) == slot
    assert states(fleet, leases) == [["planned"]] * 5
    let_send(fleet, leader)
    assert states(fleet, leases) == [["known"]] * 5
    assert (fleet.runs(), [fleet.lease(lease_id).slot_at for lease_id in leases]) == (1, [None] * 5)


def use_up(fleet: Fleet) -> None:
    """So much has been launched that a call has to wait for a while."""
    values = {"name": f"{ACCOUNT}/{REGION}/launch", "next_free": func.now() + timedelta(seconds=60)}
    fleet.runtime.database.run(provider_bucket.insert().values(**values))


def leaders(fleet: Fleet, leases: list[Any]) -> list[Any]:
    """The leases that have a slot of the rate, each for the call of a batch."""
    return [lease_id for lease_id in leases if fleet.lease(lease_id).slot_at is not None]


def let_send(fleet: Fleet, leader: Any) -> None:
    """The slot of a leader comes."""
    now = {"slot_at": func.now(), "next_due": func.now()}
    fleet.runtime.database.run(update(lease).where(lease.c.id == leader).values(now))
    fleet.step()


def test_a_leader_waits_for_leases_that_are_about_to_be_placed(fleet: Fleet) -> None:
    leases = planned_together(fleet, 2)
    leases += created(fleet, 2)
    let_send(fleet, leaders(fleet, leases)[0])
    assert fleet.runs() == 0
    fleet.drive_all_to(leases, "active")
    assert (fleet.runs(), [batch.slots for batch in batches(fleet)]) == (1, [4])


def test_a_leader_that_has_waited_for_a_second_sends(fleet: Fleet) -> None:
    leases = planned_together(fleet, 2)
    fleet.runtime.database.run(update(attempt).values(created_at=func.now() - timedelta(seconds=1)))
    later = created(fleet, 2)
    let_send(fleet, leaders(fleet, leases)[0])
    assert (fleet.runs(), states(fleet, leases)) == (1, [["known"]] * 2)
    fleet.drive_all_to(leases + later, "active")
    assert sorted(batch.slots for batch in batches(fleet)) == [2, 2]


def test_a_leader_that_is_gone_is_replaced(fleet: Fleet) -> None:
    leases = planned_together(fleet, 3)
    fleet.runtime.database.run(update(lease).where(lease.c.slot_at.is_not(None)).values(next_due=None))
    late = {"slot_at": func.now() - timedelta(seconds=10)}
    fleet.runtime.database.run(update(lease).where(lease.c.slot_at.is_not(None)).values(**late))
    fleet.drive_all_to(leases, "active")
    assert fleet.runs() == 1


# --- answers that are not the VMs --------------------------------------------------------------------------------


def test_a_part_of_the_vms_starts_and_the_other_leases_go_elsewhere(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "partial", times=1, count=2)
    leases = created(fleet, 5, wait_seconds=60)
    fleet.drive_all_to(leases, "active")
    assert sorted(map(len, states(fleet, leases))) == [1, 1, 2, 2, 2]
    refused = [fleet.attempts(lease_id)[0].error for lease_id in leases if len(fleet.attempts(lease_id)) == 2]
    assert {error["class"] for error in refused} == {"InsufficientCapacity"}
    assert len(fleet.vms()) == 5
    assert fleet.used()["gpus"] == 5


def test_seven_of_a_hundred_vms_start_and_the_others_are_refused(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(provider_rate_limits=True)
    use_up(fleet)
    leases = planned_together(fleet, 100)
    fleet.sim.fault("RunInstances", "partial", times=1, count=7)
    let_send(fleet, leaders(fleet, leases)[0])
    assert Counter(one[0] for one in states(fleet, leases)) == {"known": 7, "refused": 93}
    assert (fleet.runs(), len(fleet.sim.instances())) == (1, 7)
    known = [one for one in leases if fleet.attempts(one)[0].state == "known"]
    assert {fleet.attempts(one)[0].instance_id for one in known} == {vm["id"] for vm in fleet.vms()}


def test_a_vm_of_a_slot_that_was_not_sent_belongs_to_no_lease(make_fleet: Callable[..., Fleet]) -> None:
    """The answer gives one VM the index of a slot that the batch does not have. Its lease finds it by a listing."""

    class WrongIndex(AwsProvider):
        def launch_batch(self, region: str, params: Params) -> BatchLaunched:
            launched = super().launch_batch(region, params)
            vms = {7 if slot == 1 else slot: vm for slot, vm in launched.vms.items()}
            return BatchLaunched(vms=vms, missing=launched.missing)

    fleet = make_fleet(connect_account=WrongIndex)
    leases = planned_together(fleet, 3)
    send_batch(fleet)
    assert sorted(states(fleet, leases)) == [["known"], ["known"], ["sent"]]
    fleet.drive_all_to(leases, "active")
    assert each_vm_is_in_its_slot(fleet, leases)
    assert (len(fleet.sim.instances()), fleet.orphans()) == (3, [])


def test_the_order_of_the_answer_does_not_matter(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "shuffle", times=1)
    leases = planned_together(fleet, 4)
    send_batch(fleet)
    assert each_vm_is_in_its_slot(fleet, leases)


def test_a_refused_batch_ends_all_of_its_attempts(fleet: Fleet) -> None:
    leases = planned_together(fleet, 3)
    fleet.sim.fault("RunInstances", "error", code="InsufficientInstanceCapacity", times=1)
    send_batch(fleet)
    assert [one[0] for one in states(fleet, leases)] == ["refused"] * 3
    fleet.drive_all_to(leases, "active", "failed")
    assert len(fleet.vms()) == len([one for one in leases if fleet.lease(one).state == "active"])
    assert all(batch.params is None for batch in batches(fleet))


def test_a_quota_with_room_for_some_is_filled(fleet: Fleet) -> None:
    leases = planned_together(fleet, 8)
    fleet.sim.fault("RunInstances", "error", code="VcpuLimitExceeded", times=1)
    send_batch(fleet)
    assert sorted(states(fleet, leases)) == [["planned"]] * 4 + [["refused"]] * 4


def test_after_throttling_the_attempts_are_planned_again_for_any_call(fleet: Fleet) -> None:
    leases = planned_together(fleet, 3)
    before = [fleet.attempts(lease_id)[0] for lease_id in leases]
    fleet.sim.fault("RunInstances", "throttle", times=1)
    send_batch(fleet)
    rows = [fleet.attempts(lease_id)[0] for lease_id in leases]
    assert [(row.host_key_hash, row.agent_hash) for row in rows] == [
        (row.host_key_hash, row.agent_hash) for row in before
    ]
    assert {(row.state, row.batch_id, row.first_sent_at) for row in rows} == {("planned", None, None)}
    fleet.end(leases[0])
    fleet.drive_all_to(leases[1:], "active")
    fleet.drive_to(leases[0], "released")
    assert len(fleet.vms()) == 2
    assert {batch.slots for batch in batches(fleet)} == {2, 3}


def test_a_throttled_second_batch_waits_and_the_first_one_runs(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(provider_rate_limits=True, launch_batch=3)
    use_up(fleet)
    leases = planned_together(fleet, 6)
    first, second = leaders(fleet, leases)
    let_send(fleet, first)
    fleet.sim.fault("RunInstances", "throttle", times=1)
    let_send(fleet, second)
    assert sorted(one[0] for one in states(fleet, leases)) == ["known"] * 3 + ["planned"] * 3
    fleet.runtime.database.run(provider_bucket.delete())
    fleet.drive_all_to(leases, "active")
    assert (len(fleet.sim.instances()), [len(one) for one in states(fleet, leases)]) == (6, [1] * 6)


def test_a_lost_answer_is_repeated_with_the_same_token(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=10.0)
    leases = planned_together(fleet, 5)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    fleet.drive_all_to(leases, "active")
    assert len(fleet.sim.instances()) == 5
    assert [len(fleet.attempts(lease_id)) for lease_id in leases] == [1] * 5
    assert fleet.runs() <= 2
    assert len(batches(fleet)) == 1


def test_one_worker_repeats_a_call_for_all_of_its_slots(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(unknown_retry_seconds=10.0)
    leases = planned_together(fleet, 5)
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=1)
    send_batch(fleet)
    assert {(one.state, one.unknown_since is None) for lease_id in leases for one in fleet.attempts(lease_id)} == {
        ("sent", False)
    }
    fleet.drive(lambda: states(fleet, leases) == [["known"]] * 5)
    assert fleet.runs() == 2


def test_a_refusal_after_a_lost_answer_proves_nothing(fleet: Fleet) -> None:
    leases = planned_together(fleet, 3)
    fleet.sim.fault("RunInstances", "lose_reply", times=1)
    send_batch(fleet)
    fleet.sim.fault("RunInstances", "error", code="InsufficientInstanceCapacity", times=None)
    while states(fleet, leases) == [["sent"]] * 3:
        fleet.step()
    assert {state for one in states(fleet, leases) for state in one} <= {"settling", "known"}
    fleet.drive_all_to(leases, "active")
    assert len(fleet.sim.instances()) == 3


def test_a_batch_that_made_nothing_is_dead_only_after_the_proof(fleet: Fleet) -> None:
    leases = planned_together(fleet, 3)
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    fleet.drive(lambda: states(fleet, leases) == [["settling"]] * 3)
    assert all(batch.params is not None for batch in batches(fleet))
    for lease_id in leases:
        fleet.end(lease_id)
    fleet.drive_all_to(leases, "released")
    assert states(fleet, leases) == [["dead"]] * 3
    assert [batch.params for batch in batches(fleet)] == [None]
    assert fleet.used() == {}


def test_each_vm_derives_its_tokens_from_its_slot(make_fleet: Callable[..., Fleet]) -> None:
    calls: list[Params] = []

    class Recording(AwsProvider):
        def launch_batch(self, region: str, params: Params) -> BatchLaunched:
            calls.append(params)
            return super().launch_batch(region, params)

    fleet = make_fleet(connect_account=Recording, agent="on", public_url="http://127.0.0.1:1")
    leases = planned_together(fleet, 3, proof="required")
    send_batch(fleet)
    (secret,) = set(re.findall(r"SECRET = \"([0-9a-f]{64})\"", user_data(calls[0])))
    for lease_id in leases:
        (one,) = fleet.attempts(lease_id)
        assert one.agent_hash == agent_hash(slot_token(secret, "agent", one.batch_index))
        assert one.host_key_hash == host_key_hash(slot_token(secret, "host-keys", one.batch_index))


def user_data(params: Params) -> str:
    """The programs that the first boot of the VMs writes."""
    return "".join(str(file["content"]) for file in first_boot(params["UserData"]).config.get("write_files", []))


def test_an_attempt_without_company_gets_parameters_of_its_own_before_its_call(fleet: Fleet) -> None:
    first, second = led_together(fleet)
    assert [fleet.attempts(lease_id)[0].params is None for lease_id in (first, second)] == [False, True]
    fleet.end(first)
    fleet.drive_to(first, "released")
    fleet.drive_to(second, "active")
    [vm] = fleet.vms()
    assert vm["tags"]["gpulease-lease"] == second
    assert batches(fleet) == []


def test_an_attempt_that_cannot_be_planned_alone_tries_the_next_offering(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, planned = AwsProvider.plan, list[Params]()

    def only_the_leader(self: AwsProvider, spec: LaunchSpec) -> Params:
        if planned:
            raise InvalidSpec("too long", code=TOO_LONG)
        planned.append(plan(self, spec))
        return planned[0]

    with monkeypatch.context() as patch:
        patch.setattr(AwsProvider, "plan", only_the_leader)
        patch.setattr(company, "_WINDOW", timedelta(seconds=2))
        leader, other = led_together(fleet, wait_seconds=600)
        fleet.end(leader)
        fleet.drive_to(leader, "released")
        fleet.drive(lambda: fleet.attempts(other)[0].state == "refused")
    assert fleet.runs() == 0
    assert fleet.attempts(other)[0].error["code"] == TOO_LONG
