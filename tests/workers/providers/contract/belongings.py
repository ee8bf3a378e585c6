"""What belongs to a VM: disks, and who may come in."""

import json
from collections.abc import Sequence

import pytest

from app.domain.leases import VmState
from app.domain.tags import OwnerTags
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Inbound, Power
from tests.workers.providers.contract.cases import (
    NETWORKS,
    await_state,
    case,
    launch,
    left_alone,
    leftovers,
    wish,
)
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.types import Leftover, Vm


@case(Power.BELONGINGS)
def what_a_living_vm_holds_is_in_use(backend: Backend) -> None:
    launch(backend)
    held = leftovers(backend)
    assert {one.kind for one in held} == backend.belonging_kinds
    assert all(one.in_use for one in held)
    assert all(OwnerTags.parse(one.tags) == owner() for one in held)


@case()
def nothing_stays_behind_an_ended_vm(backend: Backend) -> None:
    vm = launch(backend)
    launch(backend, owner(installation="another-installation"))
    backend.provider.terminate(backend.region, [vm.id])
    assert wait_until(lambda: leftovers(backend) == [], timeout=PATIENCE)


@case(Power.LEFTOVERS)
def a_disk_left_behind_is_found_by_lease_and_removed(backend: Backend) -> None:
    params = backend.keeping_the_disk(backend.provider.plan(wish(backend)))
    vm = backend.provider.launch(backend.region, params)
    backend.provider.terminate(backend.region, [vm.id])
    assert wait_until(lambda: bool(left_alone(backend)), timeout=PATIENCE)
    (disk,) = left_alone(backend, [owner().lease_id, "lease_without_any"])
    assert disk.kind == "volume"
    assert left_alone(backend, ["lease_without_any"]) == []
    for _ in range(2):
        backend.provider.remove_leftover(disk)
    assert wait_until(lambda: leftovers(backend) == [], timeout=PATIENCE)


SSH_ONLY = [("tcp", 22, 22, one) for one in sorted(NETWORKS)]


def groups_left(backend: Backend, lease_ids: Sequence[str] | None = None) -> list[Leftover]:
    return [one for one in leftovers(backend, lease_ids) if one.free]


def inbound(backend: Backend, vm: Vm) -> list[Inbound]:
    return sorted(rule for rules in backend.firewalls(vm.id).values() for rule in rules)


@case()
def allowed_networks_reach_port_22_and_nothing_else(backend: Backend) -> None:
    vm = launch(backend, allowed_cidrs=NETWORKS)
    assert inbound(backend, vm) == SSH_ONLY


@case()
def without_networks_no_firewall_is_made(backend: Backend) -> None:
    launch(backend)
    assert groups_left(backend) == []


@case()
def a_plan_with_networks_is_pure_and_survives_being_stored_as_json(backend: Backend) -> None:
    first, second = (backend.provider.plan(wish(backend, allowed_cidrs=NETWORKS)) for _ in range(2))
    assert first == second
    assert json.loads(json.dumps(first)) == first


@case(Power.TOKENS)
def a_repeat_with_networks_is_the_same_vm_behind_the_same_firewall(backend: Backend) -> None:
    params = backend.provider.plan(wish(backend, allowed_cidrs=NETWORKS))
    first, second = (backend.provider.launch(backend.region, params) for _ in range(2))
    assert first.id == second.id
    assert len(groups_left(backend)) == len(backend.firewalls(first.id))
    assert inbound(backend, first) == SSH_ONLY


@case(Power.TOKENS, Power.LOST_ANSWERS)
def whatever_answer_is_lost_a_repeat_makes_one_vm_behind_one_firewall(backend: Backend) -> None:
    for n, stage in enumerate((*backend.firewall_stages, "launched"), start=1):
        params = backend.provider.plan(wish(backend, owner(n=n), allowed_cidrs=NETWORKS))
        if stage == "launched":
            backend.lose_next_launch_reply()
        else:
            backend.break_firewall(stage)
        with pytest.raises(errors.OutcomeUnknown):
            backend.provider.launch(backend.region, params)
        vm = backend.provider.launch(backend.region, params)
        assert len(backend.alive()) == n
        assert len(groups_left(backend)) == n * len(backend.firewalls(vm.id))
        assert inbound(backend, vm) == SSH_ONLY


@case(Power.CAPACITY, Power.AT_ONCE)
def a_refused_launch_leaves_no_firewall(backend: Backend) -> None:
    backend.exhaust(backend.zone)
    with pytest.raises(errors.InsufficientCapacity):
        launch(backend, allowed_cidrs=NETWORKS)
    assert groups_left(backend) == []


@case()
def a_firewall_is_the_owners_and_goes_after_its_vm(backend: Backend) -> None:
    vm = launch(backend, allowed_cidrs=NETWORKS)
    launch(backend, owner(installation="another-installation"), allowed_cidrs=NETWORKS)
    held = groups_left(backend, [owner().lease_id, "lease_without_any"])
    assert held
    assert all(one.in_use and OwnerTags.parse(one.tags) == owner() for one in held)
    backend.provider.terminate(backend.region, [vm.id])
    assert wait_until(lambda: not any(one.in_use for one in groups_left(backend)), timeout=PATIENCE)
    for one in held * 2:
        backend.provider.remove_leftover(one)
    assert wait_until(lambda: leftovers(backend) == [], timeout=PATIENCE)
    assert len(backend.provider.leftovers(backend.region, "another-installation", None).resources) > 0


@case(Power.HELD)
def a_firewall_in_use_stays(backend: Backend) -> None:
    vm = launch(backend, allowed_cidrs=NETWORKS)
    (held,) = groups_left(backend)
    with pytest.raises(errors.ProviderError):
        backend.provider.remove_leftover(held)
    assert list(backend.firewalls(vm.id)) == [held.id]


@case()
def a_vm_without_public_address_has_a_private_one(backend: Backend) -> None:
    vm = await_state(backend, launch(backend, public_ip=False).id, VmState.RUNNING)
    assert vm.public_ip is None
    assert vm.private_ip
