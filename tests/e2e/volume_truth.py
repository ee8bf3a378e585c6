"""The disks of volumes by the clouds' own record, and what the database says of them."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import NullPool, create_engine, text

from app.db.core.urls import sync_url
from app.domain.tags import LEASE, VOLUME
from tests.e2e.cloud import Cloud, Json

_VOLUMES = "SELECT id, tenant_id, name, state, cloud_id FROM volume"
_LEASES = """
    SELECT id, tenant_id, jsonb_path_query_array(request -> 'volumes', '$[*].name') AS names FROM lease
    WHERE jsonb_array_length(request -> 'volumes') > 0
    """
_LIVE, _OVER = ("creating", "available"), ("deleted", "failed")
_VMS = "vms"


@dataclass(frozen=True)
class Excused:
    """What a database that has lost commits cannot know.

    `unknown`: volumes whose rows it has lost. `set_back`: volumes that were to be deleted before. `leases`: leases that it
    has lost, which are rebuilt without their volumes.
    """

    unknown: Collection[str] = frozenset()
    set_back: Collection[str] = frozenset()
    leases: Collection[str] = frozenset()


NOTHING = Excused()


def volume_problems(cloud: Cloud, database_url: str, excused: Excused = NOTHING) -> dict[str, list[str]]:
    """Lines by what is wrong, each list empty when all is well. The clouds are read before the database."""
    disks = [disk for disk in cloud.disks() if VOLUME in disk["tags"]]
    vms = {vm["id"]: vm for vm in cloud.vms()}
    rows, mounts = _read(database_url)
    of_volume: dict[str, list[Json]] = defaultdict(list)
    for disk in disks:
        of_volume[disk["tags"][VOLUME]].append(disk)
    known = [disk for disk in disks if disk["tags"][VOLUME] in rows]
    foreign = [
        line for disk in known for line in _foreign(disk, vms, rows[disk["tags"][VOLUME]], mounts, excused.leases)
    ]
    return {
        "disks lost": [
            f"{row.id} is {row.state}"
            for row in rows.values()
            if row.id not in excused.set_back and _is_lost(row, of_volume[row.id], cloud.vanished)
        ],
        "disks of volumes that are over": [
            f"{row.id} is {row.state}" for row in rows.values() if row.state in _OVER and any(_left(of_volume[row.id]))
        ],
        "disks doubled": [f"{volume}: {_ids(made)}" for volume, made in of_volume.items() if len(made) > 1],
        "disks attached twice": [line for disk in disks for line in _attached_twice(disk, vms)],
        "disks attached for another lease": foreign,
        "disks deleted with a VM": [
            f"{_ids([disk])} of {disk['deleted_with']}" for disk in disks if disk["deleted_with"]
        ],
        "disks without a row": [
            f"{_ids([disk])} of {disk['tags'][VOLUME]}"
            for disk in _left(disks)
            if disk["tags"][VOLUME] not in rows and disk["tags"][VOLUME] not in excused.unknown
        ],
        "disks of lost rows deleted": [
            f"{_ids([disk])} of {volume}"
            for volume in excused.unknown
            for disk in of_volume[volume]
            if disk["deleted_at"] and volume not in rows and volume not in excused.set_back
        ],
    }


def _read(database_url: str) -> tuple[Mapping[str, Any], Mapping[str, tuple[str, Sequence[str]]]]:
    """The rows of volumes, and the tenants and names of volumes of the leases that mount some."""
    engine = create_engine(sync_url(database_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL ROLE gpulease_worker"))
        rows = {row.id: row for row in connection.execute(text(_VOLUMES))}
        mounts = {row.id: (row.tenant_id, row.names) for row in connection.execute(text(_LEASES))}
    return rows, mounts


def _is_lost(row: Any, disks: Sequence[Json], vanished: Collection[str]) -> bool:
    """Whether a volume has its disk no more, and nobody deleted the disk at the cloud."""
    if any(disk["id"] in vanished for disk in disks):
        return False
    return row.state == "lost" or (row.state in _LIVE and row.cloud_id is not None and not any(_left(disks)))


def _attached_twice(disk: Json, vms: Mapping[str, Json]) -> Iterator[str]:
    """A VM got the disk before the end of the one that had it. Times of one cloud compare as text."""
    for before, after in zip(disk[_VMS], disk[_VMS][1:], strict=False):
        ended_at = vms[before["id"]]["ended_at"] if before["id"] in vms else ""
        if ended_at is None or ended_at > after["at"]:
            yield f"{_ids([disk])}: {before['id']} until {ended_at}, and {after['id']} from {after['at']}"


def _foreign(
    disk: Json,
    vms: Mapping[str, Json],
    row: Any,
    mounts: Mapping[str, tuple[str, Sequence[str]]],
    lost: Collection[str],
) -> Iterator[str]:
    """VMs of leases that did not ask for the volume, or of another tenant."""
    for one in disk[_VMS]:
        lease_id = vms[one["id"]]["tags"].get(LEASE) if one["id"] in vms else None
        tenant_id, names = mounts.get(str(lease_id), (row.tenant_id, ()))
        if lease_id is not None and (tenant_id != row.tenant_id or (row.name not in names and lease_id not in lost)):
            yield f"{_ids([disk])} of {row.id} at {one['id']} of {lease_id}"


def _left(disks: Sequence[Json]) -> Iterator[Json]:
    return (disk for disk in disks if disk["deleted_at"] is None)


def _ids(disks: Sequence[Json]) -> str:
    return ", ".join(str(disk["id"]).rpartition("/")[2] for disk in disks)
