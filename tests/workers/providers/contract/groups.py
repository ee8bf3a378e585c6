"""Groups: what members share at the cloud, and who reaches them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from app.domain import tags
from app.local.waiting import wait_until
from tests.workers.providers.contract import batches
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import NETWORKS, case, launch, leftovers, look, wish
from tests.workers.providers.samples import GROUP, owner
from workers.providers import errors
from workers.providers.types import GroupSpec, Leftover, Params, Vm

T = TypeVar("T")
APART = replace(GROUP, placement="same_zone", interconnect="none")
"""A group whose members are in one zone, without more."""
OTHER = replace(GROUP, group_id="group_01kb0000000000000000000009")


def member(backend: Backend, n: int, group: GroupSpec = GROUP, **changes: Any) -> Vm:
    return launched(backend, backend.provider.plan(wish(backend, owner(f"lease_{n}"), group=group, **changes)))


def launched(backend: Backend, params: Params) -> Vm:
    return repeated(lambda: backend.provider.launch(backend.region, params))


def repeated(call: Callable[[], T]) -> T:
    """As the worker does it: the same call again while something is not ready."""
    results: list[T] = []

    def ready() -> bool:
        try:
            results.append(call())
        except errors.NotReady:
            return False
        return True

    assert wait_until(ready, timeout=PATIENCE)
    return results[0]


def shared(backend: Backend) -> Sequence[Leftover]:
    return [one for one in leftovers(backend) if one.free]


def end(backend: Backend, *vms: Vm) -> None:
    for vm in vms:
        backend.provider.terminate(backend.region, [vm.id])
    gone = {vm.id for vm in vms}
    assert wait_until(lambda: gone.isdisjoint(backend.alive()), timeout=PATIENCE)


@case(Power.PLACEMENT)
def a_plan_of_a_member_is_pure_and_survives_being_stored_as_json(backend: Backend) -> None:
    first, second = (backend.provider.plan(wish(backend, group=GROUP)) for _ in range(2))
    assert json.loads(json.dumps(first)) == first == second


@case()
def members_reach_each_other(backend: Backend) -> None:
    first, second = (member(backend, n, APART) for n in range(2))
    assert backend.reaches(first.id, second.id)
    assert backend.reaches(second.id, first.id)


@case()
def members_with_networks_reach_each_other_the_networks_reach_ssh_and_nobody_else_anything(backend: Backend) -> None:
    first, second = (member(backend, n, APART, allowed_cidrs=NETWORKS) for n in range(2))
    assert backend.reaches(first.id, second.id)
    assert backend.reaches(second.id, first.id)
    stranger = member(backend, 2, replace(OTHER, placement="any"), allowed_cidrs=NETWORKS)
    for one in (stranger, launch(backend, owner("lease_3"), allowed_cidrs=NETWORKS)):
        assert not backend.reaches(one.id, first.id)
        assert not backend.reaches(first.id, one.id)
    rules = [rule for found in backend.firewalls(first.id).values() for rule in found]
    assert sorted(rules) == [("tcp", 22, 22, one) for one in sorted(NETWORKS)]


@case(Power.PLACEMENT)
def members_are_close_together_and_tagged_with_their_group(backend: Backend) -> None:
    first, second = (member(backend, n) for n in range(2))
    assert backend.placed(first.id) == backend.placed(second.id) != None  # noqa: E711
    assert look(backend, first.id).tags[tags.GROUP] == GROUP.group_id
    other = member(backend, 2, OTHER)
    assert backend.placed(other.id) not in {None, backend.placed(first.id)}
    assert backend.placed(member(backend, 3, APART).id) is None


@case(Power.PLACEMENT, Power.BATCHES)
def a_batch_of_members_is_placed_like_single_ones(backend: Backend) -> None:
    vms = repeated(lambda: batches.launched(backend, 3, group=GROUP)).vms
    alone = member(backend, 9)
    assert {backend.placed(vm.id) for vm in vms.values()} == {backend.placed(alone.id)}
    assert backend.reaches(vms[0].id, vms[2].id)
    assert backend.reaches(alone.id, vms[1].id)
    assert look(backend, vms[1].id).tags[tags.GROUP] == GROUP.group_id


@case(Power.PLACEMENT, Power.CAPACITY)
def a_refused_member_leaves_the_group_as_it_is_and_nothing_stays_after_it(backend: Backend) -> None:
    first = member(backend, 0)
    backend.exhaust(backend.zone)
    with pytest.raises(errors.InsufficientCapacity):
        _launch_or_wait(backend, backend.provider.plan(wish(backend, owner("lease_1"), group=GROUP)))
    assert shared(backend)
    assert backend.placed(first.id) is not None


def _launch_or_wait(backend: Backend, params: Params) -> None:
    """Raises the refusal, also where it comes after the VM was accepted."""
    vm = launched(backend, params)
    assert wait_until(lambda: look(backend, vm.id).refusal is not None, timeout=PATIENCE)
    refusal = look(backend, vm.id).refusal
    assert refusal is not None
    raise refusal("refused")


@case(Power.PLACEMENT)
def what_a_group_shares_is_in_use_until_its_last_member_has_gone(backend: Backend) -> None:
    first, second = (member(backend, n) for n in range(2))
    held = shared(backend)
    assert held
    assert all(one.in_use and one.tags[tags.SHARED] == GROUP.group_id for one in held)
    end(backend, first)
    assert all(one.in_use for one in shared(backend))
    end(backend, second)
    assert wait_until(lambda: not any(one.in_use for one in shared(backend)), timeout=PATIENCE)
    for one in [*shared(backend), *held]:
        backend.provider.remove_leftover(one)
    assert wait_until(lambda: leftovers(backend) == [], timeout=PATIENCE)


@case(Power.PLACEMENT)
def a_member_makes_again_what_was_removed_between_two_launches(backend: Backend) -> None:
    end(backend, member(backend, 0))
    assert wait_until(lambda: not any(one.in_use for one in shared(backend)), timeout=PATIENCE)
    for one in shared(backend):
        backend.provider.remove_leftover(one)
    assert wait_until(lambda: shared(backend) == [], timeout=PATIENCE)
    assert backend.placed(member(backend, 1).id) is not None


@case(Power.PLACEMENT, Power.TOKENS, Power.LOST_ANSWERS)
def whatever_answer_is_lost_a_member_is_one_vm_in_its_group(backend: Backend) -> None:
    for n, stage in enumerate(backend.group_stages):
        group = replace(GROUP, group_id=f"group_01kb000000000000000000001{n}")
        params = backend.provider.plan(wish(backend, owner(f"lease_{n}"), group=group))
        backend.lose_reply(stage)
        with pytest.raises(errors.OutcomeUnknown):
            launched(backend, params)
        vm = launched(backend, params)
        assert len(backend.alive()) == n + 1
        assert backend.placed(vm.id) is not None
