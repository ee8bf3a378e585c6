"""What happens to volumes, so that every point of their protocol is reached. Each lease mounts a volume of its own."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from secrets import token_hex

from app.domain.tags import VOLUME
from app.local.waiting import wait_until
from tests.crash_matrix.group import MOUNT, POLL, STUCK_SECONDS, TYPES, Arm, Group
from tests.e2e.cloud import Json
from tests.e2e.truth import own_id

CREATES: Mapping[str, str] = {"aws": "CreateVolume", "gcp": "disks.insert", "azure": "Disks.CreateOrUpdate"}
READS: Mapping[str, str] = {"aws": "DescribeVolumes", "gcp": "disks.list", "azure": "Disks.Get"}
ATTACHES: Mapping[str, str] = {
    "aws": "AttachVolume",
    "gcp": "instances.attachDisk",
    "azure": "VirtualMachines.AttachDetachDataDisks",
}
EXISTS: Mapping[str, str] = {
    "aws": "IdempotentParameterMismatch",
    "gcp": "alreadyExists",
    "azure": "PreconditionFailed",
}
"""The cloud's words for another resource with this token or name."""
REFUSES: Mapping[str, tuple[str, str]] = {
    "aws": ("CreateVolume", "VolumeLimitExceeded"),
    "gcp": ("disks.insert", "quotaExceeded"),
    "azure": ("Disks.Get", "SkuNotAvailable"),
}
"""The call of a creation that is refused, and the code. At Azure gpulease reads first, and a disk that it sees is its own."""
_FILE = f"{MOUNT}/checkpoint"
_OPEN = ("creating", "available", "deleting")


def mounted(group: Group, arm: Arm | None) -> None:
    """Spot leases write files on volumes, and are interrupted. The replacement VM reads them."""
    _create(group)
    group.create(arm, market="spot", on_interruption="replace", wait_seconds=600)
    group.until("active")
    before = dict(_vms(group))
    written = {lease for lease, vm in before.items() if group.cloud.write_file(vm, _FILE, lease)}
    for vm in before.values():
        group.cloud.interrupt(vm["id"], notice_seconds=3.0, provider=group.provider)
    taken = {vm["id"] for vm in before.values()}
    group.until_all(lambda lease: lease["state"] == "active" and own_id(lease) not in taken)
    for lease, vm in _vms(group):
        text = group.cloud.read_file(vm, _FILE)
        if lease in written and text != lease and group.tenant.lease(lease)["state"] == "active":
            group.wrong.append(f"disk: {vm['id']} of {lease} reads {text!r}")
    _end(group)


def mounted_badly(group: Group, arm: Arm | None) -> None:
    """Answers to creations are lost, or say that the disk exists. VMs get their disks late, and deletions are not confirmed."""
    creates, count = CREATES[group.provider], len(group.names)
    with ExitStack() as faults:
        for mode, details in (("error", {"code": EXISTS[group.provider]}), ("lose_reply", {})) * 2:
            faults.enter_context(group.cloud.fault(creates, mode, provider=group.provider, times=count, **details))
        _create(group)
    with group.cloud.fault(ATTACHES[group.provider], "error", provider=group.provider, times=2 * count):
        group.create(arm, wait_seconds=600)
        group.until("active")
    with group.cloud.fault(READS[group.provider], "error", provider=group.provider, times=None, probability=0.5):
        group.release()
        group.tenant.delete_volumes()
        group.until_hit(at_least=10, quiet=20)
    _end(group)


def disks_behind_our_back(group: Group, arm: Arm | None) -> None:
    """Somebody deletes the disk of a volume. Another volume fails, and nobody knows yet that its disk was created."""
    for volume in _create(group):
        for disk in _disks(group, volume):
            group.cloud.delete_disk(disk)
    _until(group, "lost")
    creates, (refused, code) = CREATES[group.provider], REFUSES[group.provider]
    with ExitStack() as faults:
        faults.enter_context(group.cloud.fault(creates, "lose_reply", provider=group.provider, times=len(group.names)))
        asked = _ask(group)
        wait_until(lambda: all(_disks(group, volume) for volume in asked), timeout=STUCK_SECONDS, poll=POLL)
        faults.enter_context(group.cloud.fault(refused, "error", provider=group.provider, times=None, code=code))
        _until(group, "failed", "available")
    group.volumes.clear()
    group.create(arm)
    group.until("active")
    wait_until(lambda: not any(_disks(group, volume) for volume in asked), timeout=STUCK_SECONDS, poll=POLL)
    group.until_hit(quiet=30)
    _end(group)


def _ask(group: Group) -> list[Json]:
    """A volume for each name, to be mounted by its lease."""
    place = group.tenant.volume_place(group.provider, TYPES[group.provider])
    group.volumes |= {name: f"volume-{token_hex(4)}" for name in group.names}
    for name in group.names:
        answer = group.tenant.ask_for_volume(group.volumes[name], place)
        assert answer.is_success, answer.text
    return _mine(group)


def _create(group: Group) -> list[Json]:
    """The same, when each has its disk. A volume that has none after all is mounted by nobody."""
    _ask(group)
    _until(group, "available")
    usable = {volume["name"] for volume in _mine(group) if volume["state"] == "available"}
    group.volumes = {name: volume for name, volume in group.volumes.items() if volume in usable}
    return _mine(group)


def _mine(group: Group) -> list[Json]:
    """The volumes of this group's leases as they are: the tenant has others at other clouds."""
    return [volume for volume in group.tenant.volumes() if volume["name"] in group.volumes.values()]


def _until(group: Group, *states: str) -> None:
    wait_until(lambda: all(one["state"] in states for one in _mine(group)), timeout=STUCK_SECONDS, poll=POLL)


def _disks(group: Group, volume: Json) -> list[Json]:
    """The disks that a volume has now."""
    return [one for one in group.cloud.disks() if one["tags"].get(VOLUME) == volume["id"] and not one["deleted_at"]]


def _vms(group: Group) -> Iterator[tuple[str, Json]]:
    """The VM of each active lease."""
    for lease in group.seen():
        if lease["state"] == "active":
            yield lease["id"], group.cloud.vm(own_id(lease))


def _end(group: Group) -> None:
    """Leases are released, then volumes are deleted."""
    group.release()

    def over() -> bool:
        group.tenant.delete_volumes()
        return not group.tenant.volumes(*_OPEN)

    wait_until(over, timeout=STUCK_SECONDS, poll=POLL)
