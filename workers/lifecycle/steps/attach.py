"""Attaches the volumes of a lease to its VM, one idempotent call each, until the cloud shows all of them attached.

A call may be repeated, and a worker that has lost its claim may send it late. The VM then has the volume already, or it
has ended, and an ended VM gets no disk.
"""

from datetime import timedelta

import structlog

from app.db.fleet import volumes
from app.db.leases import attempts
from app.db.leases.transitions import NOW
from app.domain.lifecycle import Rest
from workers.lifecycle.steps.context import StepContext
from workers.lifecycle.steps.launch_spec import volume_specs
from workers.providers.errors import NotReady, ProviderError, Throttled
from workers.providers.types import VolumeSpec
from workers.runtime.accounts import error_json

log = structlog.get_logger(__name__)

_LOOK_AGAIN = timedelta(seconds=1)
_FAILED_PAUSE = 5.0


def attach(ctx: StepContext) -> Rest | None:
    """Records that all volumes are attached, once the cloud shows that. A volume that fails delays no other one."""
    attempt, runtime = ctx.attempt, ctx.runtime
    held = {row.name: row.cloud_id for row in runtime.database.all(volumes.of_lease(ctx.lease.id))}
    outcomes = [_attach(ctx, volume) for volume in volume_specs(ctx.lease.request.volumes, held)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, ProviderError)]
    if errors:
        _failed(ctx, errors[0])
        return None
    if not all(outcomes):
        return Rest(ctx.now + _LOOK_AGAIN)
    runtime.database.run(attempts.fact(attempt.id, attempt.token, {"volumes_attached_at": NOW, "error": None}))
    return None


def _attach(ctx: StepContext, volume: VolumeSpec) -> bool | ProviderError:
    attempt, runtime = ctx.attempt, ctx.runtime
    if not runtime.rate_limiter.take(ctx.provider, ctx.bucket("write")):
        return False
    try:
        return ctx.provider.attach_volume(attempt.region, str(attempt.instance_id), volume)
    except ProviderError as error:
        log.warning("volume not attached", volume=volume.cloud_id, code=error.code, error=error.message)
        return error


def _failed(ctx: StepContext, error: ProviderError) -> None:
    attempt, runtime = ctx.attempt, ctx.runtime
    error = runtime.accounts.verdict(attempt.account, error)
    pause = _FAILED_PAUSE
    if isinstance(error, Throttled):
        pause = runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("write"), error)
    elif isinstance(error, NotReady) and error.retry_after is not None:
        pause = error.retry_after
    later = attempts.retry_later(attempt.id, attempt.token, pause, error_json(error), claim_id=ctx.claim_id)
    runtime.database.run(later)
