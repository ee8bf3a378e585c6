"""Disks of volumes in the simulated clouds: made late, shown late, refused, and held by the VM that has them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.simulation.batches import Batches
from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.machines import REGION
from workers.providers.errors import CredentialsRejected, NotFound, NotReady, ProviderError, ProviderQuotaExceeded
from workers.providers.types import CloudVolume, DiskSpec, DiskState, VolumeListing, VolumeSpec


@dataclass(eq=False, slots=True, kw_only=True)
class Disk:
    """One disk, with its history. `machine`: the newest VM that has had it. `writers`: the leases that have written on it."""

    id: str
    volume_id: str
    tenant_id: str
    zone: str
    size_gib: int
    born: float
    ready_from: float
    machine: Machine | None = None
    gone_at: float | None = None

    @property
    def holder(self) -> Machine | None:
        """The VM that has it until that VM has gone."""
        return self.machine if self.machine is not None and self.machine.alive else None


class Volumes(Batches):
    """The volumes of one process at one account."""

    def create_volume(self, region: str, new: DiskSpec) -> CloudVolume:
        cloud = self._cloud

        def act() -> CloudVolume:
            if self._stranger:
                raise CredentialsRejected("somebody else's", code="AuthFailure")
            return _shown(make(cloud, new), cloud.scheduler.now)

        return self._call("create_volume", act, later=_unheard(lambda: make(cloud, new)))

    def get_volumes(self, region: str, volume_ids: Sequence[str]) -> Mapping[str, CloudVolume | None]:
        def look() -> Mapping[str, CloudVolume | None]:
            known = {disk.id: _shown(disk, self._cloud.scheduler.now) for disk in self._disks()}
            return {volume_id: known.get(volume_id) for volume_id in volume_ids}

        return self._call("get_volumes", look)

    def list_volumes(self, regions: frozenset[str], installation: str) -> VolumeListing:
        def look() -> VolumeListing:
            disks = [] if self._cloud.listing_empty else self._disks()
            return VolumeListing(volumes=[_shown(disk, self._cloud.scheduler.now) for disk in disks])

        return self._call("list_volumes", look)

    def attach_volume(self, region: str, vm_id: str, volume: VolumeSpec) -> bool:
        cloud = self._cloud

        def act() -> bool:
            disk = cloud.disks.get(volume.cloud_id)
            if disk is None or disk.gone_at is not None or self._stranger:
                raise NotFound(f"no disk {volume.cloud_id}", code="NotFound")
            return attach(cloud, disk, cloud.machines[vm_id])

        return self._call("attach_volume", act, later=_unheard(act))

    def delete_volume(self, region: str, volume_id: str) -> None:
        cloud = self._cloud

        def act() -> None:
            disk = cloud.disks.get(volume_id)
            if disk is None or disk.gone_at is not None or self._stranger:
                return
            if disk.holder is not None:
                raise NotReady(f"{disk.id} is attached to {disk.holder.id}", code="VolumeInUse")
            if cloud.deleting is not None:
                cloud.deleting(disk)
            disk.gone_at = cloud.scheduler.now
            cloud.tell(f"{disk.id} of {disk.volume_id} is deleted")
            cloud.scheduler.count("volume: deleted")

        self._call("delete_volume", act, later=_unheard(act))

    def _disks(self) -> list[Disk]:
        return [] if self._stranger else [disk for disk in self._cloud.disks.values() if disk.gone_at is None]


def _unheard(act: Callable[[], object]) -> Callable[[], None]:
    """An act whose refusal nobody waits for."""

    def late() -> None:
        with suppress(ProviderError):
            act()

    return late


def make(cloud: Cloud, new: DiskSpec) -> Disk:
    """The create call, landing now. The name or token of a volume makes one disk."""
    random, weather = cloud.scheduler.random, cloud.weather
    existing = [disk for disk in cloud.disks.values() if disk.volume_id == new.volume_id]
    living = [disk for disk in existing if disk.gone_at is None]
    if living:
        cloud.scheduler.count("volume: create call again")
        return living[0]
    if random.random() < weather.refused:
        cloud.scheduler.count("volume: refused")
        raise ProviderQuotaExceeded("no room", code="VolumeLimitExceeded")
    now = cloud.scheduler.now
    disk = Disk(
        id=f"{cloud.name}-disk-{len(cloud.disks) + 1}",
        volume_id=new.volume_id,
        tenant_id=new.tenant_id,
        zone=new.zone,
        size_gib=new.size_gib,
        born=now,
        ready_from=now + random.uniform(0, 20),
    )
    cloud.disks[disk.id] = disk
    cloud.scheduler.count("volume: made")
    cloud.tell(f"{disk.id} is made for {disk.volume_id} in {disk.zone}")
    return disk


def attach(cloud: Cloud, disk: Disk, machine: Machine) -> bool:
    """Whether the VM has the disk already. If not, it gets the disk now."""
    if disk.zone != machine.zone:
        raise Violation(f"{disk.id} in {disk.zone} is asked for {machine.id} in {machine.zone}")
    if disk.holder is machine:
        return True
    if disk.holder is not None:
        cloud.scheduler.count("volume: held by the VM before")
        raise NotReady(f"{disk.id} is attached to {disk.holder.id}", code="VolumeInUse")
    if not machine.alive or cloud.scheduler.now < disk.ready_from:
        raise NotReady(f"{machine.id} or {disk.id} is not ready", code="IncorrectState")
    if cloud.attaching is not None:
        cloud.attaching(disk, machine)
    disk.machine = machine
    cloud.tell(f"{disk.id} of {disk.volume_id} is attached to {machine.id}")
    cloud.scheduler.count("volume: attached")
    return False


def _shown(disk: Disk, now: float) -> CloudVolume:
    return CloudVolume(
        id=disk.id,
        region=REGION,
        zone=disk.zone,
        size_gib=disk.size_gib,
        state=DiskState.READY if now >= disk.ready_from else DiskState.CREATING,
        tags={},
        attached_to=disk.holder.id if disk.holder is not None else None,
    )
