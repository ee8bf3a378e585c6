"""One listing of the disks of volumes, compared with their rows: lost disks, disks to remove, and disks without a row.

The cloud is listed first, the database is read second. A volume is lost when two complete listings, apart in time, and
a direct read do not show its disk. A disk whose row says deleted or failed is removed once it has listed for the grace
period. A disk without any row is data that a restored database may have lost: it is reported and stays.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

import structlog

from app.db.fleet import volumes
from app.db.operations.brakes import IS_HELD
from app.domain.reasons import Origin, Reason, ReasonCode
from app.domain.tags import VOLUME
from app.domain.volumes import VolumeState
from workers.providers.errors import NotReady, ProviderError
from workers.providers.ports import Provider
from workers.providers.types import CloudVolume, DiskState
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_LOST = 3
"""Volumes of a place that one listing may show as lost, unless they are less than half: more are left to an operator."""
_MOST_REMOVED = 50
_MAY_BE_LOST = frozenset({VolumeState.CREATING, VolumeState.AVAILABLE})
_REMOVED = frozenset({VolumeState.DELETED, VolumeState.FAILED})
_LOST = Reason(ReasonCode.PROVIDER_ERROR, "the provider no longer has the disk of this volume", Origin.PROVIDER)


def observe_volumes(runtime: Runtime, account: str, region: str) -> int:
    """Compares one place. Returns the number of its volumes and of its disks. Raises ProviderError."""
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    (clock,) = runtime.database.all(volumes.CLOCK)
    listing = provider.list_volumes(frozenset({region}), runtime.installation.id)
    if region in listing.failed:
        raise listing.failed[region]
    disks = {disk.id: disk for disk in listing.volumes}
    rows = runtime.database.all(volumes.live_in(account, [region]))
    _note(runtime, rows, disks.keys(), clock.now)
    _end_lost(runtime, provider, region, rows, disks.keys(), clock.now)
    _remove(runtime, provider, account, region, _unknown(listing.volumes, rows))
    return len(rows) + len(disks)


def _unknown(disks: Iterable[CloudVolume], rows: Collection[Any]) -> list[CloudVolume]:
    """The disks that no live volume has, nor may be about to record."""
    recorded = {row.cloud_id for row in rows}
    awaited = {row.id for row in rows if row.cloud_id is None}
    return [disk for disk in disks if disk.id not in recorded and disk.tags.get(VOLUME) not in awaited]


def _note(runtime: Runtime, rows: Collection[Any], listed: Collection[str], at: datetime) -> None:
    with_disk = [row for row in rows if row.cloud_id is not None]
    if with_disk:
        runtime.database.run(volumes.note_seen([row.id for row in with_disk if row.cloud_id in listed], at))
        runtime.database.run(volumes.note_missing([row.id for row in with_disk if row.cloud_id not in listed], at))


def _end_lost(
    runtime: Runtime, provider: Provider, region: str, rows: Collection[Any], listed: Collection[str], at: datetime
) -> None:
    """`rows`: as before this listing, so that `missing_since` is of an earlier one."""
    gap = timedelta(seconds=runtime.timing.settle_gap)
    missing = [
        row
        for row in rows
        if row.cloud_id is not None and row.cloud_id not in listed and VolumeState(row.state) in _MAY_BE_LOST
    ]
    twice = [row for row in missing if row.missing_since is not None and row.missing_since + gap <= at]
    if not twice or runtime.database.first(IS_HELD) is not None:
        return
    if len(missing) > max(_MOST_LOST, len(rows) // 2):
        log.error("too many volumes are missing at once", region=region, missing=len(missing), known=len(rows))
        return
    read = provider.get_volumes(region, [row.cloud_id for row in twice])
    for row in twice:
        if row.cloud_id in read and read[row.cloud_id] is None:
            lost = runtime.database.first(volumes.end(row.id, VolumeState.LOST, _LOST.as_stored()))
            if lost is not None:
                log.error("volume lost", volume_id=row.id, tenant_id=row.tenant_id, disk=row.cloud_id)


def _remove(runtime: Runtime, provider: Provider, account: str, region: str, disks: Collection[CloudVolume]) -> None:
    """Removes disks whose rows say that they are over. Reports the others, also a disk with the tags of another one."""
    named = {disk.tags.get(VOLUME, "") for disk in disks}
    rows = {row.id: row for row in runtime.database.all(volumes.states_of(named))} if named else {}
    over = {disk.id for disk in disks if _is_over(disk, rows.get(disk.tags.get(VOLUME, "")))}
    for disk in disks:
        if disk.id not in over:
            about = {"account": account, "region": region, "disk": disk.id, "volume_id": disk.tags.get(VOLUME)}
            log.error("disk of no live volume", **about)
    due = runtime.rowless_leftovers.overdue(
        (account, f"{region} volumes"), over, now=runtime.monotonic(), grace=runtime.settings.rowless_grace_seconds
    )
    removable = [disk for disk in disks if disk.id in due and disk.state is not DiskState.DELETING]
    if runtime.database.first(IS_HELD) is not None:
        return
    for disk in removable[:_MOST_REMOVED]:
        _try_to_remove(provider, region, disk)


def _is_over(disk: CloudVolume, row: Any) -> bool:
    return row is not None and VolumeState(row.state) in _REMOVED and row.cloud_id in (None, disk.id)


def _try_to_remove(provider: Provider, region: str, disk: CloudVolume) -> None:
    try:
        log.warning("removing the disk of an ended volume", region=region, disk=disk.id)
        provider.delete_volume(region, disk.id)
    except NotReady as error:
        log.warning("disk of an ended volume in use", region=region, disk=disk.id, error=error.message)
    except ProviderError as error:
        log.warning("disk not removed", region=region, disk=disk.id, code=error.code, error=error.message)
