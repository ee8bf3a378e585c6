"""Which attempts are sent together: a planned attempt waits for company, and one of them gathers the others.

Attempts of one key elect a leader. The leader takes one slot of the provider's launch rate for its batch and gathers what
waits when the slot comes. The others rest until somebody gathers them.
"""

import threading
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from app.db.core.ids import new_id
from app.db.leases import batch_company, batches, claims, launches
from app.domain.ids import BatchId, LeaseId
from app.domain.leases import AttemptState
from app.domain.lifecycle import Rest
from app.domain.offerings import Offering
from workers.lifecycle.steps.batch_plan import batch_params, most_together, slot_hashes, token_of_batch
from workers.lifecycle.steps.context import StepContext, context_from_row, offering_key
from workers.lifecycle.steps.plan import params_alone, planned_spec
from workers.lifecycle.steps.send import SendRecord, call_seconds
from workers.providers.errors import NotOffered, ProviderError
from workers.providers.types import Image, LaunchSpec, Params
from workers.runtime.runtime import Runtime

_WINDOW = timedelta(seconds=0.035)
"""How long a leader waits for leases of the tenant that are being placed now."""
_LONGEST_WINDOW = timedelta(seconds=1)
"""How long after its attempt was planned a leader still waits, while leases of the tenant are due to be placed."""
_LOOK_AGAIN = timedelta(seconds=0.25)
_LEFT_BEHIND = timedelta(seconds=2)
"""How long after its leader's slot an attempt that nobody gathered elects a leader itself."""
_LATE = 5.0
"""A leader whose slot has passed for so many seconds is gone."""


def await_company(ctx: StepContext) -> Rest | None:
    """The rest of an attempt that waits to be sent with others. None: it may be sent now, by this worker."""
    if ctx.attempt.state is not AttemptState.PLANNED or ctx.row.attempt_batch_key is None:
        return None
    most, bucket = most_together(ctx.runtime, offering_key(ctx.attempt)), ctx.bucket("launch")
    if most == 1:
        return None
    key, known = ctx.row.attempt_batch_key, ctx.runtime.batch_keys
    if ctx.row.lease_slot_bucket == bucket and ctx.row.lease_slot_at is not None:
        return _until(ctx, ctx.row.lease_slot_at) or _await_more(ctx, key, bucket, most)
    followed = known.follow(key, ctx.now)
    if followed is None:
        with known.electing(key):
            followed = known.follow(key, ctx.now)
            if followed is None:
                return _elect(ctx, key, bucket, most)
    return Rest(followed + _LEFT_BEHIND)


def _elect(ctx: StepContext, key: str, bucket: str, most: int) -> Rest | None:
    known = ctx.runtime.batch_keys
    with ctx.runtime.database.begin() as connection:
        connection.execute(*batch_company.lock_key(key))
        election = batch_company.elect(
            ctx.lease.id, ctx.claim_id, ctx.lease.tenant_id, key, bucket, most=most, late=_LATE
        )
        row = connection.execute(*election).one()
    room = most * (row.leaders + row.elected) - row.planned
    if not row.elected:
        slot = row.slot_at or ctx.now
        known.lead(key, slot, room)
        return Rest(max(slot, ctx.now) + _LEFT_BEHIND)
    slot = _slot_of_leader(ctx, bucket, has_company=row.company)
    known.lead(key, slot, room)
    return _until(ctx, slot)


def _slot_of_leader(ctx: StepContext, bucket: str, *, has_company: bool) -> datetime:
    slot = ctx.runtime.rate_limiter.slot(ctx.provider, bucket)
    if slot is not None and slot > ctx.now:
        traded = ctx.runtime.database.first(launches.trade_slot(ctx.lease.tenant_id, bucket, slot))
        slot = slot if traded is None else traded.slot_at
    earliest = ctx.now + _WINDOW if has_company else ctx.now
    slot = earliest if slot is None else max(slot, earliest)
    if slot > ctx.now:
        ctx.runtime.database.run(launches.reserve_slot(ctx.lease.id, ctx.claim_id, bucket, slot))
    return slot


def _await_more(ctx: StepContext, key: str, bucket: str, most: int) -> Rest | None:
    """A leader whose slot has come waits for leases that are about to be placed: in a burst, fewer calls launch all."""
    if ctx.now - ctx.row.attempt_created_at >= _LONGEST_WINDOW:
        return None
    row = ctx.runtime.database.first(batch_company.expecting(ctx.lease.tenant_id, key, most=most))
    if row is None or not row.expecting:
        return None
    slot = ctx.now + _LOOK_AGAIN
    ctx.runtime.database.run(launches.reserve_slot(ctx.lease.id, ctx.claim_id, bucket, slot))
    ctx.runtime.batch_keys.move(key, slot)
    return _until(ctx, slot)


def _until(ctx: StepContext, slot: datetime) -> Rest | None:
    if slot <= ctx.now:
        return None
    _sweep_at(ctx.runtime, (slot - ctx.now).total_seconds())
    return Rest(slot)


def _sweep_at(runtime: Runtime, seconds: float) -> None:
    """Wakes this process's sweeper when the slot comes, if that is before its next sweep."""
    if seconds < runtime.settings.sweep_interval:
        timer = threading.Timer(seconds, runtime.nudge.set)
        timer.daemon = True
        timer.start()


class UnsentBatch:
    """A stored batch that nobody has sent before. `slots`: its attempts, in the order of their slots; all are held."""

    def __init__(self, batch_id: BatchId, spec: LaunchSpec, sent: SendRecord, slots: tuple[StepContext, ...]) -> None:
        self.batch_id = batch_id
        self.spec = spec
        self.sent = sent
        self.slots = slots


class _NotStoredError(Exception):
    """Nothing is stored, and the company's claims are as before."""


def gather(ctx: StepContext) -> UnsentBatch | None:
    """Stores a batch of the attempt and its company, and marks all of them as sent, in one transaction.

    None: the attempt has no company, or may not be sent. The caller sends it alone, with the same check.
    """
    ctx.runtime.batch_keys.gather(ctx.row.attempt_batch_key)
    known = _offering_and_image(ctx)
    if known is None:
        return None
    try:
        with ctx.runtime.database.begin() as connection:
            return _store_batch(connection, ctx, *known)
    except _NotStoredError:
        return None


def plan_alone(ctx: StepContext) -> Params:
    """The parameters of the own create call of an attempt that has no company. Raises ProviderError when there are none."""
    known = _offering_and_image(ctx)
    if known is None:
        raise NotOffered("the offering, or its image, is not available any more", code="NoOffering")
    return params_alone(ctx, *known)


def _offering_and_image(ctx: StepContext) -> tuple[Offering, Image] | None:
    key = offering_key(ctx.attempt)
    offering = next((known for known in ctx.runtime.catalogue.offerings() if known.key == key), None)
    if offering is None:
        return None
    try:
        driver = offering.type.gpu.driver
        image = ctx.runtime.accounts.image(key.account, key.region, ctx.lease.request.image, driver)
    except ProviderError:
        return None
    return offering, image


def _store_batch(connection: Connection, ctx: StepContext, offering: Offering, image: Image) -> UnsentBatch | None:
    """None: nothing but the attempt's own claim has changed. It is committed: psycopg forgets prepared statements at a rollback."""
    runtime, settings = ctx.runtime, ctx.runtime.settings
    timing = {"call_seconds": call_seconds(settings), "hold_seconds": settings.claim_seconds}
    if connection.execute(*batch_company.lead(ctx.lease.id, ctx.claim_id, **timing)).first() is None:
        return None
    key, limit = ctx.row.attempt_batch_key, most_together(runtime, offering.key) - 1
    company = batch_company.claim_company(
        ctx.lease.tenant_id, key, ctx.lease.id, limit=limit, number=runtime.liveness.number, **timing
    )
    claimed = {LeaseId(row.id): row.claim_id for row in connection.execute(*company)}
    if not claimed:
        return None
    spec = planned_spec(connection, ctx, offering, image)
    if spec is None:
        raise _NotStoredError
    slots = (ctx, *loaded(connection, runtime, claimed))
    batch_id, rows = BatchId(new_id("batch")), batches.SlotRows()
    for index, slot in enumerate(slots):
        rows.add(slot.attempt.id, *slot_hashes(slot, spec, batch_id, index))
    params = batch_params(ctx, spec, batch_id, slots)
    connection.execute(*batches.store(_row_of_batch(ctx, batch_id, len(slots), params)))
    sent = connection.execute(*batches.sent(batch_id, rows)).all()
    if len(sent) != len(slots):
        raise _NotStoredError
    return UnsentBatch(batch_id, spec, SendRecord(params, sent[0].last_sent_at), slots)


def _row_of_batch(ctx: StepContext, batch_id: BatchId, slots: int, params: Params) -> dict[str, Any]:
    attempt = ctx.attempt
    return {
        "id": batch_id,
        "tenant_id": ctx.lease.tenant_id,
        "provider": attempt.provider,
        "account": attempt.account,
        "region": attempt.region,
        "zone": attempt.zone,
        "token": token_of_batch(ctx, batch_id),
        "slots": slots,
        "params": params,
        "params_hash": ctx.row.attempt_batch_key[:16],
    }


def loaded(connection: Connection, runtime: Runtime, claimed: dict[LeaseId, UUID]) -> list[StepContext]:
    """The contexts of leases by their claims, in the order of the leases' ids."""
    rows = sorted(connection.execute(*claims.load_each(claimed)), key=lambda row: str(row.lease_id))
    return [context_from_row(runtime, row, row.claim_id) for row in rows]
