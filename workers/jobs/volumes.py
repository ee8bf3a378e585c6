"""The disks of volumes at their cloud: created, watched until they are ready, and deleted when their tenant requests it.

A call is repeated with the same token or name, so that a volume has one disk. The intent is in the row before each call.
What fails for one volume delays no other one. Tenants take turns, and each place of an account has a job of its own.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.fleet import volumes
from app.db.operations.brakes import IS_HELD
from app.domain.ids import TenantId
from app.domain.provider_messages import provider_words, public_answer
from app.domain.reasons import Origin, Reason, ReasonCode
from app.domain.tags import VOLUME
from app.domain.volumes import VolumeState
from workers.providers.errors import (
    CredentialsRejected,
    InsufficientCapacity,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
    Throttled,
    TokenConflict,
)
from workers.providers.ports import Provider
from workers.providers.types import CloudVolume, DiskSpec, DiskState
from workers.runtime.accounts import error_json
from workers.runtime.database import is_outage
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_AT_ONCE = 50
_LOOK_AGAIN = 2.0
_MOST_SILENT = 2
EVERY_TYPE = "*"
"""The kind of a volume's disk is that of instance types without one of their own."""
_CODES: Mapping[type[ProviderError], ReasonCode] = {
    InsufficientCapacity: ReasonCode.CAPACITY_EXHAUSTED,
    ProviderQuotaExceeded: ReasonCode.PROVIDER_QUOTA,
    CredentialsRejected: ReasonCode.PROVIDER_AUTH,
}


def work_on_volumes(runtime: Runtime, account: str, region: str) -> int:
    """Takes the next step of the due volumes of a place. Returns their number. Raises ProviderError.

    Throttling, and a cloud that does not answer twice in a row, end the run.
    """
    rows = runtime.database.all(volumes.due(account, region, _MOST_AT_ONCE))
    if not rows or runtime.database.first(IS_HELD) is not None:
        return 0
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    bucket = runtime.rate_limiter.bucket(account, region, "write")
    silent = 0
    for row in rows:
        if not runtime.rate_limiter.take(provider, bucket):
            break
        error = _attempt(runtime, provider, row)
        silent = silent + 1 if error is not None and not error.answered else 0
        if isinstance(error, Throttled):
            runtime.rate_limiter.throttled(provider, bucket, error)
        if error is not None and (isinstance(error, Throttled) or silent == _MOST_SILENT):
            break
    return len(rows)


def _attempt(runtime: Runtime, provider: Provider, row: Any) -> ProviderError | None:
    """The outermost handler for one volume: its failure is logged, and the next volume has its turn."""
    about = {"volume_id": row.id, "tenant_id": row.tenant_id}
    try:
        return _work(runtime, provider, row)
    except DBAPIError as error:
        if is_outage(error):
            raise
        log.warning("volume not worked on", **about, error=str(error.orig))
        runtime.metrics.job_failed("volumes", row.account, type(error).__name__)
    except Exception as error:
        log.exception("volume not worked on", **about)
        runtime.metrics.job_failed("volumes", row.account, type(error).__name__)
    return None


def _work(runtime: Runtime, provider: Provider, row: Any) -> ProviderError | None:
    """One step of one volume. Returns the error of a failed call, which the row has as its reason."""
    state = VolumeState(row.state)
    pause = min(_LOOK_AGAIN * 2.0 ** min(row.tries, 16), runtime.settings.max_backoff_seconds)
    if runtime.database.run(volumes.mark_sent(row.id, state, pause)) == 0:
        return None  # somebody has changed its state meanwhile
    try:
        if state is VolumeState.CREATING:
            _create(runtime, provider, row)
        else:
            _delete(runtime, provider, row)
    except ProviderError as error:
        _failed(runtime, row, state, error, pause)
        return error
    return None


def _create(runtime: Runtime, provider: Provider, row: Any) -> None:
    if row.cloud_id is None:
        disk = _ensure_disk(runtime, provider, row)
    else:
        known = provider.get_volumes(row.region, [row.cloud_id]).get(row.cloud_id)
        if known is None:
            return  # fresh, or lost: the inventory decides
        disk = known
    if disk.state is DiskState.READY:
        runtime.database.run(volumes.make_available(row.id))
    elif disk.state is DiskState.FAILED:
        _end(runtime, row, VolumeState.FAILED, Reason(ReasonCode.PROVIDER_ERROR, _MADE_BADLY, Origin.PROVIDER))
    else:
        runtime.database.run(volumes.postpone(row.id, VolumeState.CREATING, _LOOK_AGAIN, None))


_MADE_BADLY = "the provider could not create the disk"


def _ensure_disk(runtime: Runtime, provider: Provider, row: Any) -> CloudVolume:
    """Creates the disk, or gets the one that an earlier call has created."""
    kind = provider.disk_kinds()[EVERY_TYPE]
    new = DiskSpec(
        volume_id=row.id,
        tenant_id=TenantId(row.tenant_id),
        installation=runtime.installation.id,
        name=row.name,
        zone=row.zone,
        size_gib=row.size_gib,
        kind=kind,
    )
    try:
        disk = provider.create_volume(row.region, new)
    except TokenConflict:
        # an earlier call had other parameters: the account's settings have changed
        listing = provider.list_volumes(frozenset({row.region}), runtime.installation.id)
        earlier = next((known for known in listing.volumes if known.tags.get(VOLUME) == row.id), None)
        if earlier is None:
            raise
        disk = earlier
    runtime.database.run(volumes.record_disk(row.id, cloud_id=disk.id, kind=kind))
    return disk


def _delete(runtime: Runtime, provider: Provider, row: Any) -> None:
    """A disk whose id is not known may exist if a create call was sent. The same call again names it."""
    if row.cloud_id is None and row.sent_at is None:
        _end(runtime, row, VolumeState.DELETED, None)
        return
    disk_id = row.cloud_id or _ensure_disk(runtime, provider, row).id
    provider.delete_volume(row.region, disk_id)
    known = provider.get_volumes(row.region, [disk_id])
    if disk_id in known and known[disk_id] is None:
        _end(runtime, row, VolumeState.DELETED, None)
    else:
        runtime.database.run(volumes.postpone(row.id, VolumeState.DELETING, _LOOK_AGAIN, None))


def _end(runtime: Runtime, row: Any, to: VolumeState, reason: Reason | None) -> None:
    ended = runtime.database.first(volumes.end(row.id, to, reason.as_stored() if reason is not None else None))
    if ended is not None:
        log.info("volume ended", volume_id=row.id, tenant_id=row.tenant_id, state=str(to))


def _failed(runtime: Runtime, row: Any, state: VolumeState, error: ProviderError, pause: float) -> None:
    """A refusal ends a volume that has no disk. Credentials that are rejected say nothing about the volume.

    A disk that an earlier call of unknown outcome made all the same is found by its tags, and removed.
    """
    error = runtime.accounts.verdict(row.account, error)
    about = {"volume_id": row.id, "tenant_id": row.tenant_id, "account": row.account}
    log.warning("volume call failed", **about, state=str(state), code=error.code, error=error.message)
    stored = error_json(error)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), ReasonCode.PROVIDER_ERROR)
    message = f"the provider's answer was {public_answer(stored)}"
    reason = Reason(code, message, Origin.PROVIDER, provider_words(stored))
    is_final = isinstance(error, Refused) and not isinstance(error, CredentialsRejected)
    if is_final and row.cloud_id is None:
        _end(runtime, row, VolumeState.FAILED if state is VolumeState.CREATING else VolumeState.DELETED, reason)
    else:
        runtime.database.run(volumes.postpone(row.id, state, pause, reason.as_stored()))
