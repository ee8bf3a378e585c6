"""Launches: once, as asked, refused, unanswered."""

import json
from datetime import UTC
from time import monotonic

import pytest

from app.domain import tags
from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import OwnerTags
from app.domain.tokens import is_genuine
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import (
    NETWORKS,
    await_gone,
    case,
    launch,
    leftovers,
    look,
    refused,
    wish,
)
from tests.workers.providers.samples import owner
from workers.providers import errors
from workers.providers.send_window import send_window


@case()
def a_launch_starts_one_vm_as_asked(backend: Backend) -> None:
    vm = launch(backend)
    assert (vm.region, vm.zone, vm.instance_type) == (backend.region, backend.zone, backend.instance_type)
    assert vm.market is Market.ON_DEMAND
    assert vm.state in {VmState.PENDING, VmState.RUNNING}
    assert is_genuine(vm.launch_identity, wish(backend).token)
    assert vm.launched_at is not None
    assert vm.launched_at.tzinfo is UTC
    assert list(backend.alive()) == [vm.id]


@case()
def a_spot_launch_is_seen_as_spot(backend: Backend) -> None:
    vm = launch(backend, market=Market.SPOT)
    assert vm.market is Market.SPOT
    assert look(backend, vm.id).market is Market.SPOT


@case()
def a_plan_is_pure_and_survives_being_stored_as_json(backend: Backend) -> None:
    first, second = (backend.provider.plan(wish(backend)) for _ in range(2))
    assert first == second
    assert json.loads(json.dumps(first)) == first


@case()
def the_vm_carries_owner_and_labels_from_its_first_moment(backend: Backend) -> None:
    vm = launch(backend)
    assert OwnerTags.parse(vm.tags) == owner()
    assert vm.tags[tags.LABEL_PREFIX + "team"] == "vision"
    assert backend.alive()[vm.id].items() >= owner().as_tags().items()


@case(Power.BELONGINGS)
def what_is_made_with_a_vm_carries_the_owner_too(backend: Backend) -> None:
    vm = launch(backend)
    belongings = backend.belongings(vm.id)
    assert set(belongings) == backend.belonging_kinds
    for found in belongings.values():
        assert found.items() >= owner().as_tags().items()


@case(Power.TOKENS)
def a_repeated_launch_is_the_same_vm(backend: Backend) -> None:
    params = backend.provider.plan(wish(backend))
    first, second = (backend.provider.launch(backend.region, params) for _ in range(2))
    assert first.id == second.id
    assert list(backend.alive()) == [first.id]


@case(Power.TOKENS)
def a_repeated_spot_launch_is_the_same_vm(backend: Backend) -> None:
    params = backend.provider.plan(wish(backend, market=Market.SPOT))
    first, second = (backend.provider.launch(backend.region, params) for _ in range(2))
    assert first.id == second.id


@case(Power.TOKENS)
def the_same_token_with_other_parameters_is_a_conflict(backend: Backend) -> None:
    vm = launch(backend)
    with pytest.raises(errors.TokenConflict):
        launch(backend, disk_gib=999)
    assert list(backend.alive()) == [vm.id]


@case(Power.TOKENS)
def another_attempt_is_another_vm(backend: Backend) -> None:
    launch(backend, owner(n=1))
    launch(backend, owner(n=2))
    assert len(backend.alive()) == 2


@case(Power.TOKENS, Power.LOST_ANSWERS)
def a_lost_reply_and_a_repeat_make_one_vm(backend: Backend) -> None:
    params = backend.provider.plan(wish(backend))
    backend.lose_next_launch_reply()
    with pytest.raises(errors.OutcomeUnknown):
        backend.provider.launch(backend.region, params)
    vm = backend.provider.launch(backend.region, params)
    assert list(backend.alive()) == [vm.id]


@case()
def a_launch_that_was_held_up_for_too_long_is_not_sent(backend: Backend) -> None:
    with send_window(closes_at=1.0, clock=lambda: 1.5), pytest.raises(errors.SendExpired):
        launch(backend, allowed_cidrs=NETWORKS)
    assert backend.alive() == {}
    with send_window(closes_at=1.0, clock=lambda: 0.5):
        vm = launch(backend, allowed_cidrs=NETWORKS)
    assert list(backend.alive()) == [vm.id]


@case(Power.LOST_ANSWERS)
def a_launch_without_answer_is_unknown_within_the_timeout(backend: Backend) -> None:
    params = backend.impatient.plan(wish(backend))
    backend.impatient.identity()
    backend.hang_next_launch()
    started = monotonic()
    with pytest.raises(errors.OutcomeUnknown):
        backend.impatient.launch(backend.region, params)
    assert monotonic() - started < backend.short_timeout + 5


@case(Power.REFUSALS)
def each_refusal_says_what_to_do_and_starts_nothing(backend: Backend) -> None:
    for n, kind in enumerate(backend.refusals):
        backend.refuse(kind)
        with pytest.raises(errors.ProviderError) as caught:
            launch(backend, owner(n=n))
        assert type(caught.value) is kind
        assert caught.value.code
        assert caught.value.message
    assert not backend.alive()


@case(Power.REFUSALS)
def trouble_at_the_provider_is_an_unknown_outcome(backend: Backend) -> None:
    backend.refuse(errors.OutcomeUnknown)
    with pytest.raises(errors.OutcomeUnknown):
        launch(backend)


@case(Power.LATE_REFUSALS)
def a_refusal_after_the_answer_is_told_by_get_and_find(backend: Backend) -> None:
    backend.refuse_late()
    vm = launch(backend, allowed_cidrs=NETWORKS)
    assert look(backend, vm.id).state is VmState.PENDING
    assert wait_until(lambda: look(backend, vm.id).refusal is not None, timeout=PATIENCE)
    seen = look(backend, vm.id)
    assert seen.state in {VmState.GONE, VmState.STOPPED}, "it must not count as coming"
    assert seen.refusal is errors.InsufficientCapacity
    assert seen.state_reason is not None
    assert seen.state_reason["code"]
    assert not seen.interrupted
    found = backend.provider.find(backend.region, wish(backend).token, owner())
    assert found is not None
    assert (found.id, found.refusal) == (vm.id, errors.InsufficientCapacity)
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    assert wait_until(lambda: all(one.free and not one.in_use for one in leftovers(backend)), timeout=PATIENCE)
    assert not backend.alive()


@case(Power.CAPACITY)
def a_full_zone_refuses_and_the_next_one_launches(backend: Backend) -> None:
    backend.exhaust(backend.zone)
    assert refused(backend) is errors.InsufficientCapacity
    vm = launch(backend, owner(n=2), zone=backend.other_zone)
    assert list(backend.alive()) == [vm.id]
