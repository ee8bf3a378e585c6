"""Volumes: disks that outlive VMs."""

from dataclasses import replace
from typing import Any

import pytest

from app.domain import tags
from app.domain.ids import TenantId
from app.domain.leases import VmState
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import another, await_gone, await_state, case, launch, leftovers, look, wish
from tests.workers.providers.samples import INSTALLATION, owner
from workers.providers import errors
from workers.providers.ports import Provider
from workers.providers.types import CloudVolume, DiskSpec, DiskState, Vm, VolumeSpec


def new_volume(provider: Provider, zone: str, letter: str = "a") -> DiskSpec:
    return DiskSpec(
        volume_id=f"vol_01kb{letter * 22}",
        tenant_id=TenantId("tenant_a"),
        installation=INSTALLATION,
        name="datasets",
        zone=zone,
        size_gib=100,
        kind=provider.disk_kinds()["*"],
    )


def new(backend: Backend, letter: str = "a", **changes: Any) -> DiskSpec:
    """A volume that this backend can make."""
    return replace(new_volume(backend.provider, backend.zone, letter), **changes)


def use_each_call(provider: Provider, region: str, vm: Vm) -> None:
    """Each call of the port, with a VM that runs or will run."""
    volume, other = (provider.create_volume(region, new_volume(provider, vm.zone, letter)) for letter in "ab")

    def is_running() -> bool:
        seen = provider.get(region, [vm.id])[vm.id]
        return seen is not None and seen.state is VmState.RUNNING

    assert wait_until(is_running, timeout=PATIENCE)
    assert wait_until(lambda: provider.attach_volume(region, vm.id, mount(volume)), timeout=PATIENCE)
    assert len(provider.list_volumes(frozenset({region}), INSTALLATION).volumes) == 2
    provider.delete_volume(region, other.id)


def shown(backend: Backend, volume_id: str) -> CloudVolume | None:
    return backend.provider.get_volumes(backend.region, [volume_id])[volume_id]


def ready(backend: Backend, letter: str = "a", **changes: Any) -> CloudVolume:
    volume_id = backend.provider.create_volume(backend.region, new(backend, letter, **changes)).id
    volume: list[CloudVolume | None] = []

    def is_ready() -> bool:
        volume[:] = [shown(backend, volume_id)]
        return volume[0] is not None and volume[0].state is DiskState.READY

    assert wait_until(is_ready, timeout=PATIENCE)
    assert volume[0] is not None
    return volume[0]


def mount(volume: CloudVolume, index: int = 0) -> VolumeSpec:
    return VolumeSpec(cloud_id=volume.id, path="/data", index=index)


def attached(backend: Backend, vm: Vm, *mounts: VolumeSpec) -> None:
    await_state(backend, vm.id, VmState.RUNNING)
    for volume in mounts:
        wait_until(
            lambda volume=volume: backend.provider.attach_volume(backend.region, vm.id, volume), timeout=PATIENCE
        )


def listed(backend: Backend) -> list[CloudVolume]:
    listing = backend.provider.list_volumes(frozenset({backend.region}), INSTALLATION)
    assert not listing.failed
    return list(listing.volumes)


@case()
def a_volume_is_what_was_asked_for_and_carries_its_row(backend: Backend) -> None:
    volume = ready(backend)
    assert (volume.region, volume.zone, volume.size_gib) == (backend.region, backend.zone, 100)
    assert volume.attached_to is None
    assert volume.tags[tags.INSTALLATION] == INSTALLATION
    assert volume.tags[tags.TENANT] == "tenant_a"
    assert volume.tags[tags.VOLUME] == new(backend).volume_id
    assert listed(backend) == [volume]


@case(Power.TOKENS)
def a_repeated_creation_is_the_same_volume(backend: Backend) -> None:
    ids = {backend.provider.create_volume(backend.region, new(backend)).id for _ in range(3)}
    other = backend.provider.create_volume(backend.region, new(backend, "b"))
    assert len(ids) == 1
    assert other.id not in ids
    assert len(listed(backend)) == 2


@case()
def an_unknown_volume_is_known_to_be_none(backend: Backend) -> None:
    volume = ready(backend)
    missing = another(volume.id)
    assert backend.provider.get_volumes(backend.region, [missing, volume.id, "no-id"]) == {
        missing: None,
        "no-id": None,
        volume.id: volume,
    }
    assert backend.provider.get_volumes(backend.region, []) == {}


@case()
def disks_of_vms_and_of_other_installations_are_no_volumes(backend: Backend) -> None:
    launch(backend)
    backend.provider.create_volume(backend.region, new(backend, "c", installation="another-installation"))
    assert listed(backend) == []


@case()
def a_volume_is_no_leftover_of_any_lease(backend: Backend) -> None:
    ready(backend)
    assert leftovers(backend) == []


@case()
def an_attached_volume_shows_it_and_a_repeat_changes_nothing(backend: Backend) -> None:
    first, second = ready(backend), ready(backend, "b")
    vm = launch(backend, volumes=(mount(first), mount(second, 1)))
    attached(backend, vm, mount(first), mount(second, 1))
    assert backend.provider.attach_volume(backend.region, vm.id, mount(first))
    for volume in (first, second):
        seen = shown(backend, volume.id)
        assert seen is not None
        assert seen.attached_to is not None
        assert seen.state is DiskState.READY
    assert look(backend, vm.id).state is VmState.RUNNING


@case()
def a_volume_of_a_vm_cannot_be_attached_elsewhere_or_deleted(backend: Backend) -> None:
    volume = ready(backend)
    vm, other = launch(backend), launch(backend, owner("lease_b"))
    attached(backend, vm, mount(volume))
    await_state(backend, other.id, VmState.RUNNING)
    with pytest.raises(errors.NotReady):
        backend.provider.attach_volume(backend.region, other.id, mount(volume))
    with pytest.raises(errors.NotReady):
        backend.provider.delete_volume(backend.region, volume.id)
    assert shown(backend, volume.id) is not None


@case()
def a_volume_outlives_its_vm_and_goes_to_the_next_one(backend: Backend) -> None:
    volume = ready(backend)
    vm = launch(backend)
    attached(backend, vm, mount(volume))
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    following = launch(backend, owner(n=2))
    await_state(backend, following.id, VmState.RUNNING)

    def has_moved() -> bool:
        try:
            return backend.provider.attach_volume(backend.region, following.id, mount(volume))
        except errors.NotReady:
            return False

    assert wait_until(has_moved, timeout=PATIENCE)
    assert leftovers(backend, ["lease_without_any"]) == []


@case()
def a_renewed_deadline_leaves_the_tags_of_a_volume(backend: Backend) -> None:
    volume = ready(backend)
    vm = launch(backend)
    attached(backend, vm, mount(volume))
    backend.provider.set_deadline(backend.region, [vm.id], owner().deadline_at).require()
    seen = shown(backend, volume.id)
    assert seen is not None
    assert seen.tags == volume.tags


@case()
def a_deleted_volume_is_gone_and_deleting_it_twice_is_silent(backend: Backend) -> None:
    volume, other = ready(backend), ready(backend, "b")
    for _ in range(2):
        backend.provider.delete_volume(backend.region, volume.id)
    backend.provider.delete_volume(backend.region, another(volume.id))
    assert wait_until(lambda: shown(backend, volume.id) is None, timeout=PATIENCE)
    assert [kept.id for kept in listed(backend)] == [other.id]


@case()
def attaching_what_does_not_exist_is_not_found(backend: Backend) -> None:
    vm = launch(backend)
    await_state(backend, vm.id, VmState.RUNNING)
    missing = replace(mount(ready(backend)), cloud_id=another(ready(backend).id))
    with pytest.raises(errors.NotFound):
        backend.provider.attach_volume(backend.region, vm.id, missing)


@case()
def a_vm_with_volumes_waits_for_them_by_its_boot_configuration(backend: Backend) -> None:
    volume = ready(backend)
    plain, with_volume = (backend.provider.plan(wish(backend, volumes=mounts)) for mounts in ((), (mount(volume),)))
    assert plain == backend.provider.plan(wish(backend))
    assert plain != with_volume
