"""Whether a lease may be launched at an offering now, and with which image."""

from datetime import datetime

from app.db.leases import launches
from app.domain.cool_off import CoolOffReason
from app.domain.lifecycle import Rest
from app.domain.offerings import Offering
from workers.lifecycle.steps.batch_plan import most_together
from workers.lifecycle.steps.context import StepContext
from workers.lifecycle.steps.readiness import RETRY_PAUSE, out_of_reach, require_trust, set_aside
from workers.providers.errors import (
    CredentialsRejected,
    ImageMissing,
    InvalidSpec,
    OutcomeUnknown,
    ProviderError,
    Throttled,
    Unreachable,
)
from workers.providers.types import Image

NEXT = Rest(None)
"""Outcome of an offering that could not be planned: continue with the next one."""


def usable_image(ctx: StepContext, offering: Offering) -> Image | Rest | None:
    """The image, once the lease may be launched at the offering. A rest or None: as `place` returns it.

    Raises NotReadyError, CrowdedError, and ProviderError when the offering cannot be used.
    """
    with ctx.runtime.bulkheads.inside(offering.key.account):
        require_trust(ctx, offering)
        wait = _launch_slot(ctx, offering)
        if wait is not None:
            return wait
        ctx.runtime.accounts.check_image(offering.key.account, offering.key.region, ctx.lease.request.image)
        return _image(ctx, offering)


def _launch_slot(ctx: StepContext, offering: Offering) -> Rest | None:
    """Reserves a slot of the provider's launch rate before an attempt is planned. None: the launch may start now.

    Attempts that are launched together take one slot, when they are sent.
    """
    runtime = ctx.runtime
    if most_together(runtime, offering.key) > 1:
        return None
    bucket = runtime.rate_limiter.bucket(offering.key.account, offering.key.region, "launch")
    slot: datetime | None = ctx.row.lease_slot_at
    if ctx.row.lease_slot_bucket != bucket:
        slot = runtime.rate_limiter.slot(runtime.accounts.provider(offering.key.account), bucket)
        if slot is not None and slot > ctx.now:
            traded = runtime.database.first(launches.trade_slot(ctx.lease.tenant_id, bucket, slot))
            slot = slot if traded is None else traded.slot_at
            runtime.database.run(launches.reserve_slot(ctx.lease.id, ctx.claim_id, bucket, slot))
    return Rest(slot) if slot is not None and slot > ctx.now else None


def _image(ctx: StepContext, offering: Offering) -> Image | Rest | None:
    """The image for the launch. A faulty named image sets no offering aside: leases with another image still use it."""
    runtime, key, image_name = ctx.runtime, offering.key, ctx.lease.request.image
    try:
        return runtime.accounts.image(key.account, key.region, image_name, offering.type.gpu.driver)
    except (OutcomeUnknown, Unreachable) as error:
        out_of_reach(ctx, offering, error)
    except Throttled:
        return Rest(ctx.now + RETRY_PAUSE)
    except CredentialsRejected as error:
        if isinstance(runtime.accounts.verdict(key.account, error), CredentialsRejected):
            runtime.catalogue.forget()
            return None
        set_aside(ctx, key, CoolOffReason.REFUSED, error)
    except InvalidSpec as error:
        if image_name is None:
            set_aside(ctx, key, CoolOffReason.IMAGE_MISSING, error)
        raise ImageMissing(error.message, code=error.code) from error
    except ProviderError as error:
        set_aside(ctx, key, CoolOffReason.PROVIDER_ERROR, error)
    return NEXT
