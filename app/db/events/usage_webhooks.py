"""Records of use become deliveries to the webhooks that select them. They are no events, since there are so many."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ARRAY, Text, Update, and_, bindparam, func, literal, literal_column, select, update

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Json, Time
from app.db.schema.tables import usage_record, webhook
from app.domain.webhooks.formats import MeterMessage, WebhookFormat

_SHOWN = (
    *("tenant_id", "lease_id", "lease_name", "attempt_id", "n", "key_id", "labels", "starts_at", "revision"),
    *("provider", "account", "region", "zone", "instance_type", "instance_id", "market", "gpu_model", "gpu_count"),
    *("seconds", "gpu_hours", "idle_gpu_hours", "disk_gib_hours", "price_per_hour", "price_source"),
    *("compute_cost", "disk_cost", "address_cost", "list_cost"),
)


def _new_records() -> AnySelect:
    tenants, starts = (bindparam(name, type_=ARRAY(kind)) for name, kind in (("tenants", Text), ("starts", Time)))
    touched = func.unnest(tenants, starts).table_valued("tenant_id", "starts_at", name="touched").render_derived()
    record = and_(
        usage_record.c.tenant_id == touched.c.tenant_id,
        usage_record.c.starts_at == touched.c.starts_at,
        usage_record.c.created_at == func.now(),
    )
    subscribed = and_(
        webhook.c.tenant_id == touched.c.tenant_id,
        webhook.c.enabled,
        webhook.c.format == str(WebhookFormat.CLOUDEVENTS),
        webhook.c.event_types.contains(literal([str(MeterMessage.USAGE_HOUR)], Json)),
        touched.c.starts_at + literal_column("interval '1 hour'") > webhook.c.created_at,
    )
    return (
        select(webhook.c.id.label("webhook_id"), *(usage_record.c[name] for name in _SHOWN))
        .select_from(touched.join(webhook, subscribed).join(usage_record, record))
        .order_by(webhook.c.id, usage_record.c.starts_at, usage_record.c.attempt_id)
        .with_for_update(read=True, key_share=True, of=webhook)
    )


_NEW_RECORDS = _new_records()


def new_records(hours: Collection[tuple[str, datetime]]) -> Bound[AnySelect]:
    """(webhook_id, columns of usage_record) of the records that this transaction stores in these hours of tenants.

    A webhook receives hours that end after its creation. The webhooks are locked against deletion.
    """
    ordered = sorted(hours)
    return Bound(
        _NEW_RECORDS, {"tenants": [tenant_id for tenant_id, _ in ordered], "starts": [start for _, start in ordered]}
    )


def hurry(webhook_ids: Collection[str]) -> Update:
    """Makes the lanes of these webhooks due."""
    due = func.least(webhook.c.next_due, func.now())
    return update(webhook).where(webhook.c.id.in_(sorted(webhook_ids))).values(next_due=due)
