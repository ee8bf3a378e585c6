"""What every adapter must do, written once; a backend runs it against one stand-in for a cloud.

A backend that cannot show something says so as data (`Power` -> reason); the cases that need it are then not
run against that backend.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from time import monotonic
from typing import Any, Protocol

import pytest

from app.domain import tags
from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import OwnerTags
from app.local.waiting import wait_until
from tests.workers.providers.samples import INSTALLATION, owner, spec
from workers.providers import base
from workers.providers.base import Image, LaunchSpec, Leftover, Params, Provider, Vm

PATIENCE = 30.0
"""Seconds that anything simulated may take."""


class Power(StrEnum):
    """What a stand-in may or may not be able to show."""

    TOKENS = "idempotent launch tokens, and finding by them"
    BOOT = "a boot that takes time, status checks included"
    REFUSALS = "any refusal of a launch on request"
    LATE_REFUSALS = "a launch that is accepted and then refused"
    LOST_ANSWERS = "answers that are lost or never come"
    CAPACITY = "places without capacity"
    INTERRUPTIONS = "spot VMs taken back"
    NOTICES = "a notice minutes before a spot VM is taken back"
    MANY = "thousands of VMs"
    OFFERS = "types, zones and prices"
    QUOTAS = "service quotas"
    IMAGE = "the driver-ready image"
    LEFTOVERS = "a disk that outlives its VM"
    BELONGINGS = "tags on what is made with a VM, from the launch call"
    IMAGE_CHECK = "refusing an image that does not exist"
    CONSOLE = "what a VM prints while it boots"
    HELD = "refusing to remove what is in use"
    REBOOTS = "reboots that leave a trace"
    AT_ONCE = "no capacity in the answer to the launch itself"
    MEMORY = "VMs that still show once they have ended"


Inbound = tuple[str, int, int, str]
"""(protocol, first port, last port, network)."""


class Backend(Protocol):
    """A stand-in for a cloud with an adapter connected to it, empty at the start of each case."""

    provider: Provider
    impatient: Provider
    """The same account; its calls end after `short_timeout` seconds."""
    short_timeout: float
    region: str
    other_region: str
    zone: str
    other_zone: str
    instance_type: str
    refusals: Sequence[type[base.ProviderError]]
    """What `refuse` can make of a launch."""
    belonging_kinds: frozenset[str]
    """Kinds of leftover that are made, and tagged, with each VM."""
    firewall_stages: Sequence[str]
    """The calls that make a firewall for `NETWORKS`, in their order."""
    page: int
    """Most VMs of one page of a listing."""
    portion: int
    """Most VMs of one direct get."""

    def image(self) -> Image:
        """Some image that exists."""

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        """Ground truth: tags by id of every VM that is not ended."""

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        """Ground truth: tags of the VM's disk and network interface, by kind of leftover."""

    def refuse(self, kind: type[base.ProviderError]) -> None:
        """Makes the next launch fail in a way that means `kind`."""

    def refuse_late(self) -> None:
        """The next launch is accepted, and refused a moment later because there is no capacity."""

    def lose_next_launch_reply(self) -> None:
        """The next launch is done and its answer lost."""

    def hang_next_launch(self) -> None:
        """The next launch gets no answer."""

    def exhaust(self, zone: str) -> None:
        """No VM can start in the zone any more."""

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        """The cloud takes a VM back."""

    def end_from_outside(self, vm_id: str) -> None:
        """Somebody else ends the VM."""

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        """Running VMs that somebody started."""

    def plant_elsewhere(self, tags: Mapping[str, str]) -> None:
        """One more, in the other region."""

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[Inbound]]:
        """Ground truth: inbound rules of each firewall object on a VM, by its id."""

    def break_firewall(self, stage: str) -> None:
        """The next call of a stage of making a firewall (`firewall_stages`) is done and its answer lost."""

    def reboots(self) -> int:
        """Ground truth: how many reboots were taken."""

    def keeping_the_disk(self, params: Params) -> Params:
        """The same launch, but its disk stays behind."""


Case = Callable[[Backend], None]


@dataclass(frozen=True)
class _Entry:
    run: Case
    needs: frozenset[Power]


_CASES: list[_Entry] = []


def case(*needs: Power) -> Callable[[Case], Case]:
    def register(run: Case) -> Case:
        _CASES.append(_Entry(run, frozenset(needs)))
        return run

    return register


def cases(lacks: Mapping[Power, str]) -> list[Any]:
    """Parameters for pytest: the cases that need nothing of what the backend lacks."""
    return [pytest.param(entry.run, id=entry.run.__name__) for entry in _CASES if not entry.needs & set(lacks)]


# --- helpers ----------------------------------------------------------------------------------------------


def wish(backend: Backend, of: OwnerTags | None = None, **changes: Any) -> LaunchSpec:
    """A specification that this backend can launch."""
    place = {"region": backend.region, "zone": backend.zone, "instance_type": backend.instance_type}
    return spec(of, **(place | {"image": backend.image()} | changes))


def launch(backend: Backend, of: OwnerTags | None = None, **changes: Any) -> Vm:
    return backend.provider.launch(backend.region, backend.provider.plan(wish(backend, of, **changes)))


def look(backend: Backend, vm_id: str) -> Vm:
    vm = backend.provider.get(backend.region, [vm_id])[vm_id]
    assert vm is not None
    return vm


def another(vm_id: str) -> str:
    """An id of the same form that no VM has."""
    return vm_id[:-4] + ("1111" if vm_id[-4:] != "1111" else "2222")


def await_gone(backend: Backend, vm_id: str) -> Vm | None:
    """What is still shown of a VM that has ended: None where a cloud forgets it at once."""

    def gone() -> bool:
        seen = backend.provider.get(backend.region, [vm_id])[vm_id]
        return seen is None or seen.state is VmState.GONE

    assert wait_until(gone, timeout=PATIENCE)
    return backend.provider.get(backend.region, [vm_id])[vm_id]


def refused(backend: Backend, of: OwnerTags | None = None, **changes: Any) -> type[base.Refused]:
    """What the refusal of a launch means, also where it comes after the VM was accepted; one that stays is ended then."""
    try:
        vm = launch(backend, of, **changes)
    except base.Refused as error:
        return type(error)
    assert wait_until(lambda: look(backend, vm.id).refusal is not None, timeout=PATIENCE)
    kind = look(backend, vm.id).refusal
    assert kind is not None
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    return kind


def await_state(backend: Backend, vm_id: str, state: VmState) -> Vm:
    assert wait_until(lambda: look(backend, vm_id).state is state, timeout=PATIENCE)
    return look(backend, vm_id)


def listed(backend: Backend, installation: str = INSTALLATION) -> list[Vm]:
    return [vm for page in backend.provider.list(frozenset({backend.region}), installation) for vm in page.vms]


def leftovers(backend: Backend, lease_ids: Sequence[str] | None = None) -> list[Leftover]:
    return list(backend.provider.leftovers(backend.region, INSTALLATION, lease_ids))


def left_alone(backend: Backend, lease_ids: Sequence[str] | None = None) -> list[Leftover]:
    return [one for one in leftovers(backend, lease_ids) if not one.in_use]


# --- launching --------------------------------------------------------------------------------------------


@case()
def a_launch_starts_one_vm_as_asked(backend: Backend) -> None:
    vm = launch(backend)
    assert (vm.region, vm.zone, vm.instance_type) == (backend.region, backend.zone, backend.instance_type)
    assert vm.market is Market.ON_DEMAND
    assert vm.state in {VmState.PENDING, VmState.RUNNING}
    assert vm.token == wish(backend).token
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
    with pytest.raises(base.TokenConflict):
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
    with pytest.raises(base.OutcomeUnknown):
        backend.provider.launch(backend.region, params)
    vm = backend.provider.launch(backend.region, params)
    assert list(backend.alive()) == [vm.id]


@case(Power.LOST_ANSWERS)
def a_launch_without_answer_is_unknown_within_the_timeout(backend: Backend) -> None:
    params = backend.impatient.plan(wish(backend))
    backend.impatient.identity()
    backend.hang_next_launch()
    started = monotonic()
    with pytest.raises(base.OutcomeUnknown):
        backend.impatient.launch(backend.region, params)
    assert monotonic() - started < backend.short_timeout + 5


@case(Power.REFUSALS)
def each_refusal_says_what_to_do_and_starts_nothing(backend: Backend) -> None:
    for n, kind in enumerate(backend.refusals):
        backend.refuse(kind)
        with pytest.raises(base.ProviderError) as caught:
            launch(backend, owner(n=n))
        assert type(caught.value) is kind
        assert caught.value.code
        assert caught.value.message
    assert not backend.alive()


@case(Power.REFUSALS)
def trouble_at_the_provider_is_an_unknown_outcome(backend: Backend) -> None:
    backend.refuse(base.OutcomeUnknown)
    with pytest.raises(base.OutcomeUnknown):
        launch(backend)


@case(Power.LATE_REFUSALS)
def a_refusal_after_the_answer_is_told_by_get_and_find(backend: Backend) -> None:
    backend.refuse_late()
    vm = launch(backend, allowed_cidrs=NETWORKS)
    assert look(backend, vm.id).state is VmState.PENDING
    assert wait_until(lambda: look(backend, vm.id).refusal is not None, timeout=PATIENCE)
    seen = look(backend, vm.id)
    assert seen.state in {VmState.GONE, VmState.STOPPED}, "it must not count as coming"
    assert seen.refusal is base.InsufficientCapacity
    assert seen.state_reason is not None
    assert seen.state_reason["code"]
    assert not seen.interrupted
    found = backend.provider.find(backend.region, wish(backend).token, owner())
    assert found is not None
    assert (found.id, found.refusal) == (vm.id, base.InsufficientCapacity)
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    assert wait_until(lambda: all(one.free and not one.in_use for one in leftovers(backend)), timeout=PATIENCE)
    assert not backend.alive()


@case(Power.CAPACITY)
def a_full_zone_refuses_and_the_next_one_launches(backend: Backend) -> None:
    backend.exhaust(backend.zone)
    assert refused(backend) is base.InsufficientCapacity
    vm = launch(backend, owner(n=2), zone=backend.other_zone)
    assert list(backend.alive()) == [vm.id]


# --- looking ----------------------------------------------------------------------------------------------


@case(Power.TOKENS)
def a_token_finds_its_vm(backend: Backend) -> None:
    vm = launch(backend)
    launch(backend, owner(n=2))
    found = backend.provider.find(backend.region, wish(backend).token, owner())
    assert found is not None
    assert found.id == vm.id


@case(Power.TOKENS)
def a_token_never_used_finds_nothing(backend: Backend) -> None:
    launch(backend)
    assert backend.provider.find(backend.region, "f" * 64, owner()) is None


@case(Power.TOKENS)
def a_token_finds_nothing_of_another_owner(backend: Backend) -> None:
    launch(backend)
    token = wish(backend).token
    for other in (owner(lease="lease_b"), owner(n=2), owner(installation="another")):
        assert backend.provider.find(backend.region, token, other) is None


@case(Power.TOKENS, Power.MEMORY)
def a_token_still_finds_a_vm_that_has_ended(backend: Backend) -> None:
    vm = launch(backend)
    backend.provider.terminate(backend.region, [vm.id])
    await_state(backend, vm.id, VmState.GONE)
    found = backend.provider.find(backend.region, wish(backend).token, owner())
    assert found is not None
    assert found.state is VmState.GONE


@case()
def get_tells_known_from_unknown(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    found = backend.provider.get(backend.region, [vm.id, unknown])
    assert set(found) == {vm.id, unknown}
    assert found[unknown] is None
    assert look(backend, vm.id).tags == vm.tags


@case()
def get_of_nothing_is_empty(backend: Backend) -> None:
    launch(backend)
    assert backend.provider.get(backend.region, []) == {}


@case()
def a_listing_shows_all_of_this_installation_and_nothing_else(backend: Backend) -> None:
    ours = {launch(backend, owner(n=n)).id for n in (1, 2, 3)}
    launch(backend, owner(installation="another-installation"))
    backend.plant(1, {"Name": "somebody's"})
    assert {vm.id for vm in listed(backend)} == ours
    assert listed(backend, "no-such-installation") == []


@case()
def a_listing_of_several_regions_shows_each_vm_once_with_its_own(backend: Backend) -> None:
    backend.plant(2, owner().as_tags())
    backend.plant_elsewhere(owner().as_tags())
    here, there = backend.region, backend.other_region
    for asked, expected in (([here, there], [here, here, there]), ([here], [here, here]), ([there], [there])):
        pages = list(backend.provider.list(frozenset(asked), INSTALLATION))
        vms = [vm for page in pages for vm in page.vms]
        assert sorted(vm.region for vm in vms) == sorted(expected)
        assert len({vm.id for vm in vms}) == len(expected)
        assert not any(page.failed or page.unreachable for page in pages)
        assert backend.provider.interruptions(frozenset(asked), INSTALLATION) in ([], ())


@case(Power.MANY)
def a_listing_of_several_pages_shows_each_vm_once(backend: Backend) -> None:
    planted = 2 * backend.page + 1
    backend.plant(planted, owner().as_tags())
    backend.plant(50, owner(installation="another-installation").as_tags())
    pages = list(backend.provider.list(frozenset({backend.region}), INSTALLATION))
    assert len(pages) >= 3
    ids = [vm.id for page in pages for vm in page.vms]
    assert len(ids) == len(set(ids)) == planted


@case(Power.MANY)
def get_of_many_asks_in_portions(backend: Backend) -> None:
    backend.plant(2 * backend.portion + 1, owner().as_tags())
    ids = [vm.id for vm in listed(backend)]
    found = backend.provider.get(backend.region, ids)
    assert set(found) == set(ids)
    assert None not in found.values()


@case()
def running_shows_addresses(backend: Backend) -> None:
    vm = await_state(backend, launch(backend, public_ip=True).id, VmState.RUNNING)
    assert vm.public_ip
    assert vm.private_ip


@case(Power.BOOT)
def ready_comes_after_running_and_only_for_those_that_are(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    assert backend.provider.ready(backend.region, [vm.id]) == frozenset()
    assert wait_until(lambda: vm.id in backend.provider.ready(backend.region, [vm.id, unknown]), timeout=PATIENCE)
    assert backend.provider.ready(backend.region, [vm.id, unknown]) == {vm.id}
    assert look(backend, vm.id).state is VmState.RUNNING


@case()
def nobody_is_ready_when_nobody_was_asked_about(backend: Backend) -> None:
    launch(backend)
    assert backend.provider.ready(backend.region, []) == frozenset()


# --- ending -----------------------------------------------------------------------------------------------


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
    assert backend.provider.terminate(backend.region, []) == frozenset()
    assert backend.provider.terminate(backend.region, [unknown]) == frozenset()
    assert list(backend.alive()) == [vm.id]
    assert backend.provider.terminate(backend.region, [unknown, vm.id]) == {vm.id}, "known when its end was accepted"
    backend.provider.terminate(backend.region, [unknown, vm.id])
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
    backend.provider.terminate(backend.region, [*ids[:half], *unknown, *ids[half:]])
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


# --- what stays behind ------------------------------------------------------------------------------------


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


# --- who may come in --------------------------------------------------------------------------------------

NETWORKS = ("203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32")
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
        with pytest.raises(base.OutcomeUnknown):
            backend.provider.launch(backend.region, params)
        vm = backend.provider.launch(backend.region, params)
        assert len(backend.alive()) == n
        assert len(groups_left(backend)) == n * len(backend.firewalls(vm.id))
        assert inbound(backend, vm) == SSH_ONLY


@case(Power.CAPACITY, Power.AT_ONCE)
def a_refused_launch_leaves_no_firewall(backend: Backend) -> None:
    backend.exhaust(backend.zone)
    with pytest.raises(base.InsufficientCapacity):
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
    assert len(backend.provider.leftovers(backend.region, "another-installation", None)) > 0


@case(Power.HELD)
def a_firewall_in_use_stays(backend: Backend) -> None:
    vm = launch(backend, allowed_cidrs=NETWORKS)
    (held,) = groups_left(backend)
    with pytest.raises(base.OutcomeUnknown):
        backend.provider.remove_leftover(held)
    assert list(backend.firewalls(vm.id)) == [held.id]


@case()
def a_vm_without_public_address_has_a_private_one(backend: Backend) -> None:
    vm = await_state(backend, launch(backend, public_ip=False).id, VmState.RUNNING)
    assert vm.public_ip is None
    assert vm.private_ip


# --- rebooting and looking in -----------------------------------------------------------------------------


@case(Power.REBOOTS)
def a_running_vm_can_be_rebooted_and_stays_the_same(backend: Backend) -> None:
    vm = await_state(backend, launch(backend).id, VmState.RUNNING)
    before = backend.reboots()
    backend.provider.reboot(backend.region, [vm.id])
    assert backend.reboots() == before + 1
    assert look(backend, vm.id).state is VmState.RUNNING


@case()
def what_is_not_there_is_not_rebooted(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    with pytest.raises(base.NotFound):
        backend.provider.reboot(backend.region, [unknown])


@case(Power.BOOT)
def what_has_ended_is_not_rebooted(backend: Backend) -> None:
    vm = launch(backend)
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    with pytest.raises((base.InvalidSpec, base.NotFound)):
        backend.provider.reboot(backend.region, [vm.id])


@case(Power.CONSOLE)
def the_console_is_clean_text_and_empty_before_there_is_any(backend: Backend) -> None:
    vm = launch(backend)
    assert backend.provider.console_output(backend.region, vm.id) == ""
    await_state(backend, vm.id, VmState.RUNNING)
    text = backend.provider.console_output(backend.region, vm.id)
    assert "Linux version" in text
    assert all(character.isprintable() or character in "\n\t" for character in text)


@case()
def a_renewed_deadline_stands_on_the_vm_and_what_belongs_to_it(backend: Backend) -> None:
    vm, other = launch(backend, owner(n=1)), launch(backend, owner(n=2))
    later = owner().deadline_at + timedelta(hours=5)
    backend.provider.set_deadline(backend.region, [vm.id], later)
    assert tags.deadline(look(backend, vm.id).tags) == later
    assert {tags.deadline(found) for found in backend.belongings(vm.id).values()} == {later}
    renewed = replace(owner(), deadline_at=later)
    assert OwnerTags.parse(look(backend, vm.id).tags) == renewed
    assert tags.deadline(look(backend, other.id).tags) == owner().deadline_at


@case()
def a_deadline_that_could_not_be_written_is_told(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    later = owner().deadline_at + timedelta(hours=5)
    with pytest.raises(base.NotFound, match=unknown):
        backend.provider.set_deadline(backend.region, [unknown, vm.id], later)
    assert tags.deadline(look(backend, vm.id).tags) == later


# --- what there is ----------------------------------------------------------------------------------------


@case()
def the_account_knows_who_it_is(backend: Backend) -> None:
    assert backend.provider.identity()
    assert backend.provider.identity() == backend.provider.identity()


@case(Power.OFFERS)
def offers_name_zone_market_and_price(backend: Backend) -> None:
    offers = backend.provider.offered(backend.region)
    keys = {(one.zone, one.type.name, one.market) for one in offers}
    assert len(keys) == len(offers)
    assert {one.region for one in offers} == {backend.region}
    for market in Market:
        (one,) = (o for o in offers if (o.zone, o.type.name, o.market) == (backend.zone, backend.instance_type, market))
        assert isinstance(one.price_per_hour, Decimal)
        assert one.price_per_hour > 0
        assert one.price_source
        assert one.price_as_of is not None


@case(Power.OFFERS)
def spot_is_not_dearer_than_on_demand(backend: Backend) -> None:
    offers = backend.provider.offered(backend.region)
    prices = {(one.zone, one.type.name, one.market): one.price_per_hour for one in offers}
    for (zone, name, market), price in prices.items():
        fixed = prices.get((zone, name, Market.ON_DEMAND))
        if market is Market.SPOT and price is not None and fixed is not None:
            assert price <= fixed


@case(Power.QUOTAS)
def quotas_are_told_with_their_unit(backend: Backend) -> None:
    quotas = backend.provider.service_quotas(backend.region)
    assert quotas
    assert all(one.region == backend.region and one.unit and one.limit >= 0 for one in quotas)


@case(Power.IMAGE)
def the_image_is_driver_ready_and_can_be_launched(backend: Backend) -> None:
    image = backend.provider.image(backend.region)
    assert image.name
    assert launch(backend, image=image).id in backend.alive()


@case(Power.IMAGE_CHECK)
def an_image_that_does_not_exist_is_a_bad_request(backend: Backend) -> None:
    with pytest.raises(base.InvalidSpec):
        launch(backend, image=replace(backend.image(), id=another(backend.image().id)))
    assert not backend.alive()


@case()
def the_limits_name_launch_terminate_write_and_read(backend: Backend) -> None:
    assert set(backend.provider.limits.rates) == {"launch", "terminate", "write", "read"}
