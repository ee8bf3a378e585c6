"""Groups: what members share at the cloud, and who reaches them."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from app.domain import tags
from app.domain.ids import TenantId
from app.domain.tags import OwnerTags
from app.local.waiting import wait_until
from tests.workers.providers.contract import batches
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import NETWORKS, as_stored, case, launch, leftovers, look, wish
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
    return repeated(lambda: backend.provider.launch(backend.region, as_stored(params)))


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


PORTS = (1, 22, 2049, 8888, 29500, 65535)
"""SSH, NFS, Jupyter and `torchrun` among them."""


def open_ports(backend: Backend, source: Vm, target: Vm) -> tuple[int, ...]:
    return backend.open_ports(source.id, target.id, PORTS)


def of_tenant(name: str, lease: str) -> OwnerTags:
    return replace(owner(lease), tenant_id=TenantId(name))


@case(Power.SEPARATION)
def the_only_path_between_vms_is_that_between_members_of_one_group(backend: Backend) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "plain-too": {},
        "networks": {"allowed_cidrs": NETWORKS},
        "group-1": {"group": APART},
        "group-2": {"group": APART},
        "other-1": {"group": replace(OTHER, placement="any")},
        "other-2": {"group": replace(OTHER, placement="any"), "allowed_cidrs": NETWORKS},
    }
    vms: dict[tuple[str, str], Vm] = {}
    for tenant in ("tenant_a", "tenant_b"):
        for kind, changes in kinds.items():
            if tenant == "tenant_b" and "group" in changes:
                continue  # a group belongs to one tenant
            wanted = wish(backend, of_tenant(tenant, f"lease_{tenant}_{kind}"), **changes)
            vms[tenant, kind] = launched(backend, backend.provider.plan(wanted))
    for (tenant, kind), source in vms.items():
        for (theirs, other), target in vms.items():
            is_member = "group" in kinds[kind] and kinds[kind]["group"] == kinds[other].get("group")
            if source.id != target.id:
                open_to = open_ports(backend, source, target)
                assert open_to == (PORTS if is_member else ()), f"{tenant}/{kind} to {theirs}/{other}"


@case(Power.BATCHES, Power.CAPACITY, Power.SEPARATION)
def vms_of_one_create_call_do_not_reach_each_other_or_those_of_another_tenant(backend: Backend) -> None:
    first, second = launched_batch(backend).values()
    alone = launch(backend, of_tenant("tenant_b", "lease_b"))
    for source, target in itertools.permutations((first, second, alone), 2):
        assert open_ports(backend, source, target) == ()


def launched_batch(backend: Backend) -> Mapping[int, Vm]:
    return repeated(lambda: batches.launched(backend, 2)).vms


@case(Power.SEPARATION)
def networks_that_hold_another_vm_let_it_reach_ssh_and_nothing_else(backend: Backend) -> None:
    target = launch(backend, owner("lease_a"), allowed_cidrs=("0.0.0.0/0",))
    assert open_ports(backend, launch(backend, of_tenant("tenant_b", "lease_b")), target) == (22,)


@case()
def the_firewall_of_the_installation_is_never_a_leftover(backend: Backend) -> None:
    end(backend, launch(backend))
    assert wait_until(lambda: leftovers(backend) == [], timeout=PATIENCE)


@case()
def members_with_networks_let_the_networks_reach_ssh_and_nothing_else(backend: Backend) -> None:
    first = member(backend, 0, APART, allowed_cidrs=NETWORKS)
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
    assert open_ports(backend, vms[0], vms[2]) == PORTS
    assert open_ports(backend, alone, vms[1]) == PORTS
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
    remove_shared(backend)
    for one in held:
        backend.provider.remove_leftover(one)
    assert wait_until(lambda: leftovers(backend) == [], timeout=PATIENCE)


def remove_shared(backend: Backend) -> None:
    """As the sweep does it: each when nothing uses it. A rule that names a group of VMs uses that group."""

    def removed() -> bool:
        for one in shared(backend):
            if not one.in_use:
                backend.provider.remove_leftover(one)
        return shared(backend) == []

    assert wait_until(removed, timeout=PATIENCE)


@case(Power.PLACEMENT)
def a_member_makes_again_what_was_removed_between_two_launches(backend: Backend) -> None:
    end(backend, member(backend, 0))
    remove_shared(backend)
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
