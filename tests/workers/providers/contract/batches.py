"""Launch batches: several VMs with one call, each in its slot."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.domain import tags
from app.domain.ids import LeaseId
from app.domain.leases import VmState
from app.domain.tags import OwnerTags
from app.domain.tokens import is_genuine
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import NETWORKS, case, leftovers, listed, look, wish
from tests.workers.providers.samples import owner, token_of
from workers.providers import errors
from workers.providers.send_window import send_window
from workers.providers.types import BatchLaunched, Params, Slot, Vm

BATCH = "batch_a"
TOKEN = "b" * 64
SECRET = "c" * 64
SIZE = 7
LATEST = owner().deadline_at + timedelta(hours=1)


def slots(size: int = SIZE) -> list[Slot]:
    owners = [replace(owner(f"lease_{index}"), n=index + 1) for index in range(size)]
    return [Slot(index=index, token=token_of(of), owner=of) for index, of in enumerate(owners)]


def planned(backend: Backend, size: int = SIZE, **changes: Any) -> Params:
    shared = wish(backend, replace(owner(), deadline_at=LATEST), slot_secret=SECRET, **changes)
    return backend.provider.plan_batch(shared, BATCH, TOKEN, slots(size))


def launched(backend: Backend, size: int = SIZE, **changes: Any) -> BatchLaunched:
    return backend.provider.launch_batch(backend.region, planned(backend, size, **changes))


def ids(vms: Mapping[int, Vm]) -> dict[int, str]:
    return {slot: vm.id for slot, vm in vms.items()}


@case(Power.BATCHES, Power.CAPACITY)
def a_batch_starts_each_vm_in_its_slot(backend: Backend) -> None:
    batch = launched(backend)
    assert sorted(batch.vms) == list(range(SIZE))
    assert not batch.missing
    assert set(ids(batch.vms).values()) == set(backend.alive())
    for slot, vm in batch.vms.items():
        assert vm.batch == (BATCH, slot)
        assert (vm.region, vm.zone, vm.instance_type) == (backend.region, backend.zone, backend.instance_type)
        assert vm.state in {VmState.PENDING, VmState.RUNNING}
        assert look(backend, vm.id).batch == (BATCH, slot)
    assert {vm.id: vm.batch for vm in listed(backend)} == {vm.id: vm.batch for vm in batch.vms.values()}


@case(Power.BATCHES)
def the_vms_share_tags_and_none_names_a_lease(backend: Backend) -> None:
    (vm, *_) = launched(backend, 2).vms.values()
    shown = look(backend, vm.id).tags
    assert shown[tags.INSTALLATION] == owner().installation
    assert shown[tags.TENANT] == owner().tenant_id
    assert shown[tags.BATCH] == BATCH
    assert tags.deadline(shown) == LATEST
    assert shown[tags.LABEL_PREFIX + "team"] == "vision"
    assert tags.attempt_key(shown) is None
    assert OwnerTags.parse(vm.tags) is None


@case(Power.BATCHES, Power.TOKENS)
def each_vm_is_genuine_for_the_batch_or_for_its_slot(backend: Backend) -> None:
    vms = launched(backend, 3).vms
    for slot in slots(3):
        identity = look(backend, vms[slot.index].id).launch_identity
        assert is_genuine(identity, TOKEN) or is_genuine(identity, slot.token)


@case(Power.BATCHES)
def a_batch_plan_is_pure_and_survives_being_stored_as_json(backend: Backend) -> None:
    first, second = (planned(backend, allowed_cidrs=NETWORKS) for _ in range(2))
    assert json.loads(json.dumps(first)) == first == second


@case(Power.BATCHES, Power.TOKENS)
def a_repeated_batch_is_the_same_vms(backend: Backend) -> None:
    params = planned(backend)
    first, second = (backend.provider.launch_batch(backend.region, params) for _ in range(2))
    assert ids(first.vms) == ids(second.vms) == ids(backend.provider.find_batch(backend.region, params))
    assert len(backend.alive()) == SIZE


@case(Power.BATCHES, Power.TOKENS)
def a_batch_that_was_never_sent_is_not_found(backend: Backend) -> None:
    assert backend.provider.find_batch(backend.region, planned(backend)) == {}


@case(Power.BATCHES, Power.TOKENS, Power.LOST_ANSWERS)
def a_batch_whose_answer_is_lost_is_found_slot_by_slot(backend: Backend) -> None:
    params = planned(backend)
    backend.lose_next_batch_reply()
    with pytest.raises(errors.OutcomeUnknown):
        backend.provider.launch_batch(backend.region, params)
    found = backend.provider.find_batch(backend.region, params)
    assert sorted(found) == list(range(SIZE))
    assert all(vm.batch == (BATCH, slot) for slot, vm in found.items())
    assert ids(backend.provider.launch_batch(backend.region, params).vms) == ids(found)
    assert set(ids(found).values()) == set(backend.alive())


@case(Power.BATCHES, Power.TOKENS, Power.CAPACITY)
def a_part_of_a_batch_starts_and_the_other_slots_are_refused(backend: Backend) -> None:
    backend.leave_room(backend.zone, 3)
    params = planned(backend)
    batch = backend.provider.launch_batch(backend.region, params)
    assert len(batch.vms) == 3
    assert batch.vms.keys() | batch.missing.keys() == set(range(SIZE))
    assert {type(error) for error in batch.missing.values()} == {errors.InsufficientCapacity}
    assert set(ids(batch.vms).values()) == set(backend.alive())
    assert all(look(backend, vm.id).batch == (BATCH, slot) for slot, vm in batch.vms.items())
    backend.leave_room(backend.zone, SIZE)
    again = backend.provider.launch_batch(backend.region, params)
    assert (ids(again.vms), again.missing.keys()) == (ids(batch.vms), batch.missing.keys())


@case(Power.BATCHES, Power.CAPACITY)
def a_batch_without_any_room_is_refused_whole(backend: Backend) -> None:
    backend.exhaust(backend.zone)
    with pytest.raises(errors.InsufficientCapacity):
        launched(backend, allowed_cidrs=NETWORKS)
    assert not backend.alive()
    assert not leftovers(backend)


@case(Power.BATCHES, Power.TOKENS, Power.CAPACITY)
def an_answer_in_another_order_changes_no_slot(backend: Backend) -> None:
    params = planned(backend)
    backend.shuffle_next_batch()
    batch = backend.provider.launch_batch(backend.region, params)
    assert {slot: look(backend, vm.id).batch for slot, vm in batch.vms.items()} == {
        slot: (BATCH, slot) for slot in range(SIZE)
    }
    assert ids(backend.provider.find_batch(backend.region, params)) == ids(batch.vms)


@case(Power.BATCHES)
def a_batch_that_was_held_up_for_too_long_is_not_sent(backend: Backend) -> None:
    with send_window(closes_at=1.0, clock=lambda: 1.5), pytest.raises(errors.SendExpired):
        launched(backend, allowed_cidrs=NETWORKS)
    assert backend.alive() == {}


@case(Power.BATCHES, Power.TOKENS)
def an_ended_vm_of_a_batch_does_not_come_back(backend: Backend) -> None:
    params = planned(backend, 3)
    vms = backend.provider.launch_batch(backend.region, params).vms
    backend.provider.terminate(backend.region, [vms[1].id])
    assert wait_until(lambda: vms[1].id not in backend.alive(), timeout=PATIENCE)
    found = backend.provider.find_batch(backend.region, params)
    assert ids(found) == ids(vms)
    assert found[1].state is VmState.GONE
    backend.provider.launch_batch(backend.region, params)
    assert set(backend.alive()) == {vms[0].id, vms[2].id}


@case(Power.BATCHES, Power.BELONGINGS)
def labelled_slots_carry_their_owner_on_all_that_belongs_to_them(backend: Backend) -> None:
    vms = launched(backend, 3).vms
    owners = {vms[slot.index].id: slot.owner for slot in slots(3)}
    result = backend.provider.label_slots(backend.region, owners, {vms[0].id: "train-7b"})
    assert result.done == owners.keys()
    assert not result.refused
    for vm_id, of in owners.items():
        shown = look(backend, vm_id)
        assert OwnerTags.parse(shown.tags) == of
        assert shown.batch is not None
        assert shown.tags[tags.LABEL_PREFIX + "team"] == "vision"
        for found in backend.belongings(vm_id).values():
            assert found.items() >= of.as_tags().items()
    assert tags.name(look(backend, vms[0].id).tags) == "train-7b"


@case(Power.BATCHES)
def a_vm_that_has_gone_blocks_no_other_label(backend: Backend) -> None:
    (vm,) = launched(backend, 1).vms.values()
    missing = vm.id[:-4] + ("1111" if vm.id[-4:] != "1111" else "2222")
    result = backend.provider.label_slots(backend.region, {missing: owner("lease_x"), vm.id: owner("lease_0")})
    assert result.done == {vm.id}
    assert type(result.refused[missing]) is errors.NotFound
    assert look(backend, vm.id).tags[tags.LEASE] == LeaseId("lease_0")


@case(Power.BATCHES, Power.BELONGINGS)
def the_vms_of_a_batch_share_one_firewall_until_the_last_one_ends(backend: Backend) -> None:
    vms = launched(backend, 2, allowed_cidrs=NETWORKS).vms
    rules = [backend.firewalls(vm.id) for vm in vms.values()]
    assert rules[0] == rules[1]
    assert {rule for found in rules[0].values() for rule in found} == {("tcp", 22, 22, one) for one in NETWORKS}
    backend.provider.terminate(backend.region, [vms[0].id])
    assert wait_until(lambda: vms[0].id not in backend.alive(), timeout=PATIENCE)
    assert all(one.in_use for one in _groups(backend))
    backend.provider.terminate(backend.region, [vms[1].id])
    assert wait_until(lambda: all(not one.in_use for one in _groups(backend)), timeout=PATIENCE)
    for one in _groups(backend):
        assert tags.attempt_key(one.tags) == ("lease_0", 1)
        backend.provider.remove_leftover(one)
    assert not _groups(backend)


def _groups(backend: Backend) -> list[Any]:
    return [one for one in leftovers(backend, ["lease_0"]) if one.free]
