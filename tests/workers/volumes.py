"""Volumes beside a fleet: rows as the API makes them, and the jobs that work on them."""

from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from app.db.core.ids import new_id
from app.db.fleet import volumes
from app.db.schema.tables import lease, quota, volume
from app.domain.ids import LeaseId
from app.domain.volumes import VolumeState
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.volumes import work_on_volumes
from workers.observation.volumes import observe_volumes
from workers.providers.errors import ProviderError

ZONE = f"{REGION}a"


class VolumeFleet:
    """The volumes of a fleet's tenant."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._database = fleet.runtime.database

    def create(self, name: str = "data", **values: Any) -> str:
        """What POST /v1/volumes does."""
        volume_id = new_id("vol")
        place = {"provider": "aws", "account": ACCOUNT, "region": REGION, "zone": ZONE}
        facts = {"id": volume_id, "tenant_id": self.fleet.tenant_id, "key_id": "key_x", "name": name, "size_gib": 10}
        self._database.run(insert(volume).values(**{**place, **facts, **values}))
        known = select(quota.c.used).where(quota.c.tenant_id == self.fleet.tenant_id, quota.c.resource == "volume_gib")
        if self._database.first(known) is None:
            self._database.run(insert(quota).values(tenant_id=self.fleet.tenant_id, resource="volume_gib", used=0))
        mine = (quota.c.tenant_id == self.fleet.tenant_id, quota.c.resource == "volume_gib")
        self._database.run(update(quota).where(*mine).values(used=quota.c.used + 10))
        return volume_id

    def available(self, name: str = "data", **values: Any) -> str:
        """A volume whose disk exists."""
        volume_id = self.create(name, **values)
        self.work_until(volume_id, VolumeState.AVAILABLE)
        return volume_id

    def delete(self, volume_id: str) -> None:
        """What DELETE does."""
        self._database.all(volumes.request_deletion(volume_id, None, within=self.fleet.tenant_id))

    def lease(self, *names: str, **changes: Any) -> LeaseId:
        """A lease that holds these volumes, as its admission does it."""
        mounts = [{"name": name, "path": f"/mnt/{name}"} for name in names]

        def claim(connection: Connection, lease_id: LeaseId) -> None:
            rows = connection.execute(volumes.named(self.fleet.tenant_id, names, lock=True)).all()
            claimed = volumes.claim([row.id for row in rows], lease_id, within=self.fleet.tenant_id)
            assert connection.execute(claimed).rowcount == len(names), "a volume is not free"
            place = {"account": ACCOUNT, "region": REGION, "zone": rows[0].zone}
            connection.execute(update(lease).where(lease.c.id == lease_id).values(volume_place=place))

        return self.fleet.create(volumes=mounts, also=claim, **changes)

    def return_quota(self) -> None:
        """As the statement that ends the tenant's only volume does it."""
        mine = (quota.c.tenant_id == self.fleet.tenant_id, quota.c.resource == "volume_gib")
        self._database.run(update(quota).where(*mine).values(used=0))

    def row(self, volume_id: str) -> Any:
        return self._database.first(select(volume).where(volume.c.id == volume_id))

    def rows(self, state: str) -> list[Any]:
        """The volumes in a state."""
        return self._database.all(select(volume).where(volume.c.state == state))

    def work(self) -> None:
        """One run of the job, for what is due now."""
        with suppress(ProviderError):
            work_on_volumes(self.fleet.runtime, ACCOUNT, REGION)

    def observe(self) -> None:
        """One listing."""
        observe_volumes(self.fleet.runtime, ACCOUNT, REGION)

    def work_until(self, volume_id: str, state: VolumeState, seconds: float = 120.0) -> None:
        until = self.fleet.runtime.monotonic() + seconds
        while self.row(volume_id).state != state:
            assert self.fleet.runtime.monotonic() < until, dict(self.row(volume_id)._mapping)
            self.work()
            self.fleet.let_pass(1.0)

    def make_due(self, volume_id: str) -> None:
        self._database.run(update(volume).where(volume.c.id == volume_id).values(retry_at=func.now()))

    def disks(self) -> list[dict[str, Any]]:
        """The disks of volumes, as the cloud itself knows them."""
        listed = self.fleet.sim.resources()
        return [disk for disk in listed if disk["kind"] == "volume" and "gpulease-volume" in disk["tags"]]
