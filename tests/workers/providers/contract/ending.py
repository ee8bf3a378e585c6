"""Ends: asked for, by somebody else, and by the provider."""

from datetime import UTC, datetime, timedelta

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import (
    another,
    await_gone,
    await_state,
    case,
    launch,
    listed,
    look,
)
from tests.workers.providers.samples import INSTALLATION, owner
from workers.providers import types


@case()
def a_terminated_vm_is_gone(backend: Backend) -> None:
    vm = launch(backend)
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    assert not backend.alive()
    assert {seen.state for seen in listed(backend)} <= {VmState.GONE}


@case(Power.MEMORY)
def a_terminated_vm_is_gone_with_the_time_of_its_end(backend: Backend) -> None:
    vm = launch(backend)
    before = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251
    backend.provider.terminate(backend.region, [vm.id])
    gone = await_state(backend, vm.id, VmState.GONE)
    assert gone.ended_at is not None
    assert timedelta(0) <= gone.ended_at - before < timedelta(seconds=PATIENCE)
    assert not gone.interrupted
    assert not backend.alive()
    assert {seen.state for seen in listed(backend)} <= {VmState.GONE}


@case()
def terminating_nothing_or_the_unknown_or_twice_is_silent(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    assert backend.provider.terminate(backend.region, []) == types.BatchResult()
    assert backend.provider.terminate(backend.region, [unknown]) == types.BatchResult()
    assert list(backend.alive()) == [vm.id]
    known = types.BatchResult(done=frozenset({vm.id}))
    assert backend.provider.terminate(backend.region, [unknown, vm.id]) == known, "known when its end was accepted"
    assert not backend.provider.terminate(backend.region, [unknown, vm.id]).refused
    await_gone(backend, vm.id)


@case()
def terminating_one_leaves_the_others(backend: Backend) -> None:
    first, second = launch(backend, owner(n=1)), launch(backend, owner(n=2))
    foreign = launch(backend, owner(installation="another-installation"))
    backend.provider.terminate(backend.region, [first.id])
    await_gone(backend, first.id)
    assert set(backend.alive()) == {second.id, foreign.id}


@case(Power.MANY)
def many_are_terminated_even_when_some_are_gone(backend: Backend) -> None:
    backend.plant(backend.portion + 1, owner().as_tags())
    ids = [vm.id for vm in listed(backend)]
    half = len(ids) // 2
    unknown = [another(vm_id) for vm_id in ids[:3]]
    ended = backend.provider.terminate(backend.region, [*ids[:half], *unknown, *ids[half:]])
    assert ended.done == set(ids)
    assert not ended.refused
    assert wait_until(lambda: not backend.alive(), timeout=PATIENCE)


@case()
def a_vm_ended_by_somebody_else_is_gone(backend: Backend) -> None:
    vm = launch(backend)
    backend.end_from_outside(vm.id)
    await_gone(backend, vm.id)
    assert not backend.alive()


@case(Power.MEMORY)
def a_vm_ended_by_somebody_else_is_gone_and_not_interrupted(backend: Backend) -> None:
    vm = launch(backend, market=Market.SPOT)
    backend.end_from_outside(vm.id)
    gone = await_state(backend, vm.id, VmState.GONE)
    assert not gone.interrupted
    assert gone.state_reason is not None


@case(Power.NOTICES)
def a_notice_is_told_before_the_end(backend: Backend) -> None:
    vm, other = launch(backend, market=Market.SPOT), launch(backend, owner(n=2), market=Market.SPOT)
    foreign = launch(backend, owner(installation="another-installation"), market=Market.SPOT)
    await_state(backend, vm.id, VmState.RUNNING)
    await_state(backend, foreign.id, VmState.RUNNING)
    assert list(backend.provider.interruptions(frozenset({backend.region}), INSTALLATION)) == []
    backend.interrupt(vm.id, 60)
    backend.interrupt(foreign.id, 60)
    (notice,) = backend.provider.interruptions(frozenset({backend.region}), INSTALLATION)
    assert (notice.vm_id, notice.action) == (vm.id, "terminate")
    assert notice.deadline_at is not None
    assert notice.deadline_at - notice.notice_at == timedelta(minutes=2)
    assert look(backend, other.id).state in {VmState.PENDING, VmState.RUNNING}


@case(Power.INTERRUPTIONS)
def an_interrupted_vm_says_that_the_provider_took_it(backend: Backend) -> None:
    vm = launch(backend, market=Market.SPOT)
    await_state(backend, vm.id, VmState.RUNNING)
    backend.interrupt(vm.id, 0)
    gone = await_state(backend, vm.id, VmState.GONE)
    assert gone.interrupted
    assert gone.state_reason is not None
    assert list(backend.provider.interruptions(frozenset({backend.region}), INSTALLATION)) == []
