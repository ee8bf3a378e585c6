"""Statements of the workers on webhooks: events become deliveries, and one worker at a time holds a webhook's lane."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    Executable,
    Integer,
    Interval,
    Text,
    Update,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.schema.tables import event, lease, webhook, webhook_delivery, webhook_secret
from app.domain.webhooks.signature import TEST

_PENDING = webhook_delivery.c.state == "pending"
_OVER = webhook_delivery.c.gives_up_at <= func.now()


def behind(limit: int) -> Bound[Executable]:
    """(id) of webhooks whose tenant has events without deliveries."""
    return Bound(_BEHIND, {"most": limit})


_BEHIND = (
    select(webhook.c.id)
    .where(
        webhook.c.enabled,
        exists().where(event.c.tenant_id == webhook.c.tenant_id, event.c.sequence > webhook.c.position),
    )
    .order_by(webhook.c.id)
    .limit(bindparam("most", type_=Integer))
)


def lock_position(webhook_id: str) -> AnySelect:
    """(tenant_id, position, event_types, created_at), locked.

    Returns no row while another process holds the lock, or when the webhook is disabled.
    """
    return (
        select(webhook.c.tenant_id, webhook.c.position, webhook.c.event_types, webhook.c.created_at)
        .where(webhook.c.id == webhook_id, webhook.c.enabled)
        .with_for_update(skip_locked=True, key_share=True)
    )


def add(rows: Sequence[dict[str, Any]]) -> Insert:
    """Adds deliveries in the order of the events. A delivery that already exists stays unchanged."""
    return insert(webhook_delivery).values(list(rows)).on_conflict_do_nothing()


def move_position(webhook_id: str, position: int, *, more: bool) -> Update:
    """Runs in the transaction of `lock_position`. `more`: there is something to deliver."""
    values: dict[str, Any] = {"position": position}
    if more:
        values["next_due"] = func.least(webhook.c.next_due, func.now())
    return update(webhook).where(webhook.c.id == webhook_id).values(values)


def claim(claim_id: UUID, hold: timedelta, *, slow_too: bool, not_of: Collection[str]) -> Bound[Executable]:
    """Claims the lane that has been due longest. Returns (id, tenant_id, slow), or no row."""
    return Bound(_CLAIM, {"claim": claim_id, "hold": hold, "slow_too": slow_too, "not_of": [*not_of]})


_DUE = (
    select(webhook.c.id)
    .where(
        webhook.c.enabled,
        webhook.c.next_due <= func.now(),
        or_(webhook.c.waits_until.is_(None), webhook.c.waits_until <= func.now()),
        or_(webhook.c.held_until.is_(None), webhook.c.held_until < func.now()),
        webhook.c.tenant_id != func.all(bindparam("not_of", type_=ARRAY(Text))),
        or_(webhook.c.slow.is_(False), bindparam("slow_too", type_=Boolean)),
    )
    .order_by(webhook.c.next_due)
    .limit(1)
    .with_for_update(skip_locked=True, key_share=True)
    .scalar_subquery()
)
_CLAIM = (
    update(webhook)
    .where(webhook.c.id == _DUE)
    .values(
        claim_id=bindparam("claim", type_=webhook.c.claim_id.type),
        held_until=func.now() + bindparam("hold", type_=Interval),
        waits_until=None,
    )
    .returning(webhook.c.id, webhook.c.tenant_id, webhook.c.slow)
)


def keep(webhook_id: str, claim_id: UUID, hold: timedelta) -> Update:
    """Renews the claim before each delivery. Returns (url, format).

    Returns no row when another process has the lane, the webhook is disabled, or the lane must wait.
    """
    return (
        update(webhook)
        .where(_ours(webhook_id, claim_id), webhook.c.enabled, webhook.c.waits_until.is_(None))
        .values(held_until=func.now() + hold)
        .returning(webhook.c.url, webhook.c.format)
    )


def next_delivery(webhook_id: str) -> AnySelect:
    """The next delivery, with `now` in seconds since 1970, and with the name of its lease (NULL: none, or deleted).

    Tests come first, then the order of the events.
    """
    lease_name = select(lease.c.name).where(lease.c.id == webhook_delivery.c.about["lease_id"].astext).scalar_subquery()
    columns = (webhook_delivery.c[name] for name in ("id", "event_id", "event_type", "event_at", "about", "tries"))
    return (
        select(*columns, func.extract("epoch", func.now()).label("now"), lease_name.label("lease_name"))
        .where(webhook_delivery.c.webhook_id == webhook_id, _PENDING, webhook_delivery.c.next_try_at <= func.now())
        .order_by(webhook_delivery.c.event_type != TEST, webhook_delivery.c.row_id)
        .limit(1)
    )


def secrets(webhook_id: str) -> AnySelect:
    """(secret) of the secrets that sign now, the current one first."""
    valid = or_(webhook_secret.c.valid_until.is_(None), webhook_secret.c.valid_until > func.now())
    query = select(webhook_secret.c.secret).where(webhook_secret.c.webhook_id == webhook_id, valid)
    return query.order_by(webhook_secret.c.valid_until.desc().nulls_first())


def delivered(delivery_id: str, status: int) -> Update:
    """Records that the receiver has accepted the delivery."""
    return _tried(delivery_id, status, None).values(state="delivered", next_try_at=None, ended_at=func.now())


def failed(delivery_id: str, status: int | None, error: str, pause: timedelta) -> Update:
    """Schedules the next try after `pause`, or at `gives_up_at` if that is earlier. Returns (next_try_at).

    When `gives_up_at` has passed, the failed try is the last one, and the delivery is given up.
    """
    again = func.least(func.now() + pause, webhook_delivery.c.gives_up_at)
    return (
        _tried(delivery_id, status, error)
        .values(
            state=case((_OVER, "given_up"), else_="pending"),
            next_try_at=case((_OVER, None), else_=again),
            ended_at=case((_OVER, func.now()), else_=None),
        )
        .returning(webhook_delivery.c.next_try_at)
    )


def give_up_old(webhook_id: str, error: str) -> Update:
    """Gives up deliveries that waited behind others until their `gives_up_at`."""
    return (
        update(webhook_delivery)
        .where(webhook_delivery.c.webhook_id == webhook_id, _PENDING, _OVER, webhook_delivery.c.sequence.is_not(None))
        .values(
            state="given_up",
            next_try_at=None,
            ended_at=func.now(),
            error=func.coalesce(webhook_delivery.c.error, error),
        )
    )


def note_speed(webhook_id: str, claim_id: UUID, *, slow: bool) -> Update:
    """Records whether the last answer of the receiver was slow, when that has changed."""
    return update(webhook).where(_ours(webhook_id, claim_id), webhook.c.slow.is_not(slow)).values(slow=slow)


def wait(webhook_id: str, claim_id: UUID, pause: timedelta) -> Update:
    """Pauses the lane: the receiver accepts nothing at present."""
    return update(webhook).where(_ours(webhook_id, claim_id)).values(waits_until=func.now() + pause)


def disable(webhook_id: str, reason: str) -> Update:
    """Disables a webhook. Returns (id, tenant_id, url), or no row when it was disabled before."""
    return (
        update(webhook)
        .where(webhook.c.id == webhook_id, webhook.c.enabled)
        .values(enabled=False, disabled_reason=reason, version=webhook.c.version + 1, updated_at=func.now())
        .returning(webhook.c.id, webhook.c.tenant_id, webhook.c.url)
    )


def lock_lane(webhook_id: str, claim_id: UUID) -> AnySelect:
    """First statement to release the lane. The second statement sees deliveries that others have added meanwhile."""
    return select(webhook.c.id).where(_ours(webhook_id, claim_id)).with_for_update(key_share=True)


def give_back(webhook_id: str, claim_id: UUID) -> Update:
    """Second statement, in the same transaction: releases the lane.

    The lane is due again at the earliest `next_try_at` of its pending deliveries.
    """
    first = select(func.min(webhook_delivery.c.next_try_at)).where(
        webhook_delivery.c.webhook_id == webhook_id, _PENDING
    )
    return (
        update(webhook)
        .where(_ours(webhook_id, claim_id))
        .values(claim_id=None, held_until=None, next_due=first.scalar_subquery())
    )


def lock_webhook(webhook_id: str) -> AnySelect:
    """First statement of what writes a try and the webhook: the API locks the webhook before its deliveries too."""
    return select(webhook.c.id).where(webhook.c.id == webhook_id).with_for_update(key_share=True)


def _ours(webhook_id: str, claim_id: UUID) -> ColumnElement[bool]:
    return and_(webhook.c.id == webhook_id, webhook.c.claim_id == claim_id)


def _tried(delivery_id: str, status: int | None, error: str | None) -> Update:
    """Records a try. A try is a fact, so the statement requires no claim on the lane."""
    return (
        update(webhook_delivery)
        .where(webhook_delivery.c.id == delivery_id, _PENDING)
        .values(tries=webhook_delivery.c.tries + 1, status=status, error=error, last_try_at=func.now())
    )
