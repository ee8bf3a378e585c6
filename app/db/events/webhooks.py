"""Statements of the API on webhooks. Those of the workers are in `app.db.events.webhook_lanes`."""

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Delete, Update, delete, func, select, update
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.sql import AnyInsert, AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import installation, webhook, webhook_delivery, webhook_secret

_PREVIOUS = (
    select(func.max(webhook_secret.c.valid_until))
    .where(webhook_secret.c.webhook_id == webhook.c.id)
    .scalar_subquery()
    .label("previous_valid_until")
)
_PUBLIC = (
    *(webhook.c[name] for name in ("id", "tenant_id", "url", "description", "event_types", "format", "enabled")),
    *(webhook.c[name] for name in ("disabled_reason", "version", "created_at", "updated_at")),
)
_NEXT_TRY = func.greatest(webhook_delivery.c.next_try_at, webhook.c.waits_until)
"""Of a pending delivery. A receiver that accepts nothing delays all its deliveries."""
_LOGGED = tuple(
    webhook_delivery.c[name]
    for name in (
        *("id", "webhook_id", "tenant_id", "event_id", "sequence", "event_type", "state", "tries", "status", "error"),
        *("last_try_at", "gives_up_at", "ended_at", "created_at"),
    )
)
NOW = func.now()
_NEWEST_EVENT = select(installation.c.event_sequence).scalar_subquery()


def count(tenant_id: str) -> AnySelect:
    """The number of webhooks of a tenant. Lock the tenant first."""
    return select(func.count()).select_from(webhook).where(webhook.c.tenant_id == tenant_id)


def add(values: dict[str, Any]) -> AnyInsert:
    """Inserts a webhook that starts after the newest event. Returns its public columns."""
    return insert(webhook).values(**values, position=_NEWEST_EVENT).returning(*_PUBLIC)


def get(webhook_id: str, *, within: str | None, lock: bool = False) -> AnySelect:
    """Public columns of a webhook, if it belongs to the tenant `within`.

    `lock`: lock its row until the transaction ends.
    """
    query = select(*_PUBLIC, _PREVIOUS).where(webhook.c.id == webhook_id, owned(webhook.c.tenant_id, within))
    return query.with_for_update(of=webhook) if lock else query


def page(*, tenant_id: str | None, after: str | None, limit: int) -> AnySelect:
    """Public columns of webhooks, the newest first. `tenant_id` None: webhooks of every tenant."""
    query = select(*_PUBLIC, _PREVIOUS).where(owned(webhook.c.tenant_id, tenant_id))
    if after is not None:
        query = query.where(webhook.c.id < after)
    return query.order_by(webhook.c.id.desc()).limit(limit)


def change(webhook_id: str, values: dict[str, Any], *, within: str | None) -> Update:
    """Writes `values` and increments the version."""
    stamp = {"version": webhook.c.version + 1, "updated_at": func.now()}
    return _update_webhook(webhook_id, within).values({**values, **stamp})


def begin_anew() -> dict[str, Any]:
    """Values for a webhook that is enabled again: it receives new events from now on, and what was pending before."""
    return {"position": _NEWEST_EVENT, **at_once()}


def hurry(webhook_id: str, *, within: str | None) -> Update:
    """Makes pending deliveries due at once, however long the receiver has been unreachable."""
    return _update_webhook(webhook_id, within).values(**at_once())


def remove(webhook_id: str, *, within: str | None) -> Delete:
    """Deletes a webhook with its secrets and its delivery log."""
    return delete(webhook).where(webhook.c.id == webhook_id, owned(webhook.c.tenant_id, within))


def add_secret(values: dict[str, Any]) -> Insert:
    """`values`: id, webhook_id, tenant_id, secret."""
    return insert(webhook_secret).values(values)


def end_older_secrets(webhook_id: str, *, within: str | None) -> Update:
    """Ends the validity of the secrets before the current one."""
    return _secrets(webhook_id, within).where(webhook_secret.c.valid_until > func.now()).values(valid_until=func.now())


def end_present_secret(webhook_id: str, overlap: timedelta, *, within: str | None) -> Update:
    """Limits the current secret to `overlap`, beside its successor. The caller adds the successor next."""
    current = _secrets(webhook_id, within).where(webhook_secret.c.valid_until.is_(None))
    return current.values(valid_until=func.now() + overlap)


def deliveries(webhook_id: str, *, within: str | None, after: str | None, limit: int) -> AnySelect:
    """The delivery log of a webhook, the newest entry first."""
    query = _log().where(webhook_delivery.c.webhook_id == webhook_id, owned(webhook_delivery.c.tenant_id, within))
    if after is not None:
        query = query.where(webhook_delivery.c.id < after)
    return query.order_by(webhook_delivery.c.id.desc()).limit(limit)


def delivery(webhook_id: str, delivery_id: str, *, within: str | None) -> AnySelect:
    """One entry of the delivery log."""
    return _log().where(_is_delivery(webhook_id, delivery_id, within))


def add_delivery(values: dict[str, Any]) -> Insert:
    """Inserts a delivery that is due at once."""
    return insert(webhook_delivery).values(**values)


def again(webhook_id: str, delivery_id: str, lasts: timedelta, *, within: str | None) -> Update:
    """Restarts a delivery as if it were new. It is given up after `lasts`."""
    return (
        update(webhook_delivery)
        .where(_is_delivery(webhook_id, delivery_id, within))
        .values(state="pending", tries=0, next_try_at=func.now(), gives_up_at=func.now() + lasts, ended_at=None)
    )


def test_pending(webhook_id: str, event_type: str, *, within: str | None) -> AnySelect:
    """Returns a row while a test delivery is pending."""
    return (
        select(webhook_delivery.c.id)
        .where(
            webhook_delivery.c.webhook_id == webhook_id,
            webhook_delivery.c.event_type == event_type,
            webhook_delivery.c.state == "pending",
            owned(webhook_delivery.c.tenant_id, within),
        )
        .limit(1)
    )


def _update_webhook(webhook_id: str, within: str | None) -> Update:
    return update(webhook).where(webhook.c.id == webhook_id, owned(webhook.c.tenant_id, within))


def _secrets(webhook_id: str, within: str | None) -> Update:
    mine = owned(webhook_secret.c.tenant_id, within)
    return update(webhook_secret).where(webhook_secret.c.webhook_id == webhook_id, mine)


def _log() -> AnySelect:
    return select(*_LOGGED, _NEXT_TRY.label("next_try_at")).join_from(webhook_delivery, webhook)


def _is_delivery(webhook_id: str, delivery_id: str, within: str | None) -> ColumnElement[bool]:
    named = (webhook_delivery.c.webhook_id == webhook_id) & (webhook_delivery.c.id == delivery_id)
    return named & owned(webhook_delivery.c.tenant_id, within)


def at_once() -> dict[str, Any]:
    """Values that make pending deliveries due at once."""
    return {"waits_until": None, "next_due": func.now()}
