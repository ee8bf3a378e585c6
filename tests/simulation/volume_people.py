"""Users who create volumes, lease VMs with them and delete them; and what must hold of the disks."""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from sqlalchemy import insert, select, update

from app.db.core.ids import new_id
from app.db.fleet import volumes
from app.db.schema.tables import quota, volume
from app.db.tenancy import quotas
from app.domain.ids import TenantId
from app.domain.lease_requests import LeaseRequest
from app.domain.quotas import VOLUME_GIB
from app.domain.volumes import ENDED, VolumeMount, VolumeState
from app.services.leases.requests import CreateLease
from app.services.principal import Role
from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.machines import REGION
from tests.simulation.people import People
from tests.simulation.processes import Grounds
from tests.simulation.restore import Restore
from tests.simulation.services import principal
from tests.simulation.volumes import Disk

_SIZE = 10
_AGAIN = 20.0
_OVER = frozenset({VolumeState.DELETING, VolumeState.DELETED, VolumeState.FAILED})


class VolumePeople:
    """Everything that they will do within `seconds` is arranged at once, by random numbers of their own."""

    def __init__(self, grounds: Grounds, people: People, seed: int, seconds: float) -> None:
        self._grounds, self._people = grounds, people
        self._random = Random(f"volumes of {seed}")
        self.acts = self._random.random() < grounds.weather.volumes
        for number in range(self._random.randint(2, 5) if self.acts else 0):
            grounds.scheduler.at(self._random.uniform(5, seconds * 0.5), partial(self._create, f"v{number}", seconds))

    def _create(self, name: str, seconds: float) -> None:
        """What POST /v1/volumes does, and some leases and deletions later."""
        random, scheduler = self._random, self._grounds.scheduler
        tenant_id, cloud = random.choice(self._people.tenants), random.choice(sorted(self._grounds.clouds))
        place = {"provider": cloud, "account": cloud, "region": REGION, "zone": random.choice(["a", "b"])}
        facts = {"id": new_id("vol"), "tenant_id": tenant_id, "key_id": "key_x", "name": name, "size_gib": _SIZE}
        mine = (quota.c.tenant_id == tenant_id, quota.c.resource == VOLUME_GIB)
        self._people.do(
            quotas.ensure_rows(tenant_id, [VOLUME_GIB]),
            insert(volume).values(**facts, **place),
            update(quota).where(*mine).values(used=quota.c.used + _SIZE),
        )
        scheduler.count("people: volume created")
        for _ in range(random.randint(1, 4)):
            scheduler.after(random.uniform(20, seconds), partial(self._lease, tenant_id, name))
        if random.random() < 0.5:
            scheduler.after(random.uniform(0, seconds), partial(self._delete, facts["id"]))

    def _lease(self, tenant_id: TenantId, name: str) -> None:
        """One that mounts the volume. It is refused while another lease has the volume."""
        wish = LeaseRequest.from_json(self._people.wish())
        mounts = (VolumeMount(name, "/data"),)
        request = replace(wish, name=None, ttl_seconds=self._random.randint(60, 600), wait_seconds=120, volumes=mounts)
        new = CreateLease(tenant_id=None, request=request, max_cost=None, startup_script=None)
        self._grounds.scheduler.count("people: lease with a volume")
        self._people.send(principal(Role.MEMBER, tenant_id), new, 1)

    def _delete(self, volume_id: str) -> None:
        """What DELETE does: nothing while a lease has the volume."""
        self._grounds.scheduler.count("people: volume deleted")
        self._people.do(volumes.request_deletion(volume_id, None, within=None))

    def end_all(self) -> None:
        """In the calm. A volume that a lease has is deleted later."""
        if not self.acts:
            return
        rows = self._people.do(select(volume.c.id).where(volume.c.state.in_(["creating", "available"])))[0].all()
        for row in rows:
            self._people.do(volumes.request_deletion(row.id, None, within=None))
        if rows:
            self._grounds.scheduler.after(_AGAIN, self.end_all)


class VolumePromises:
    """A disk is held by the VM of the lease that has its volume alone, and deleted only when its tenant requested it."""

    def __init__(self, grounds: Grounds, restore: Restore) -> None:
        self._grounds, self._restore = grounds, restore
        for cloud in grounds.clouds.values():
            cloud.attaching, cloud.deleting = self._check_attached, self._check_deleted

    def _row(self, volume_id: str) -> Any:
        self._grounds.clocked.set_time(self._grounds.scheduler)
        query = select(volume.c.state, volume.c.lease_id, volume.c.cloud_id).where(volume.c.id == volume_id)
        return self._grounds.clocked.connection.execute(query).first()

    def _check_attached(self, disk: Disk, machine: Machine) -> None:
        row = self._row(disk.volume_id)
        if self._restore.happened or (row is not None and row.lease_id == machine.key[0]):
            return
        raise Violation(f"{disk.id} is attached to {machine.id} of {machine.key}, its volume is {row}")

    def _check_deleted(self, disk: Disk) -> None:
        row = self._row(disk.volume_id)
        if row is None or VolumeState(row.state) not in _OVER:
            raise Violation(f"{disk.id} is deleted, its volume is {row}")

    def open(self) -> list[str]:
        """Volumes that have not ended yet."""
        self._grounds.clocked.set_time(self._grounds.scheduler)
        states = [str(state) for state in ENDED]
        query = select(volume.c.id, volume.c.state, volume.c.reason).where(volume.c.state.not_in(states))
        rows = self._grounds.clocked.connection.execute(query).all()
        return [f"volume {row.id} is {row.state}: {row.reason}" for row in rows]

    def settle(self) -> None:
        """At the end: no row of a volume says deleted while its disk stays, and none is lost."""
        for cloud in self._grounds.clouds.values():
            self._settle(cloud)

    def _settle(self, cloud: Cloud) -> None:
        doubled = [disk for disk in cloud.disks.values() if disk.gone_at is None]
        for disk in doubled:
            row = self._row(disk.volume_id)
            if row is not None and row.state == "deleted" and row.cloud_id == disk.id:
                raise Violation(f"{disk.id} is there, and its volume is deleted")
        if not self._restore.happened:
            lost = self._grounds.clocked.connection.execute(select(volume.c.id).where(volume.c.state == "lost")).all()
            if lost:
                raise Violation(f"lost: {lost}")
