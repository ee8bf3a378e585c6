"""Tables of webhooks: the endpoints of tenants, the secrets of these endpoints, and every delivery to them."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from app.db.core.sql import Id, Json, Time
from app.db.schema.metadata import metadata

_NOW = text("now()")
_FALSE = text("false")

webhook = Table(
    "webhook",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("description", Text),
    Column("event_types", Json, comment="NULL: every type"),
    Column("format", Text, nullable=False, server_default="standard", comment="of the bodies"),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    Column("disabled_reason", Text, comment="by_user, or gone: the receiver answered 410"),
    Column("position", BigInteger, nullable=False, comment="number of the last event that deliveries were made of"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    # the lane: only one worker at a time delivers to a webhook
    Column("next_due", Time, comment="NULL: nothing to deliver"),
    Column("waits_until", Time, comment="the receiver takes nothing at present: everything waits"),
    Column("slow", Boolean, nullable=False, server_default=_FALSE, comment="its last answer took long"),
    Column("claim_id", UUID(as_uuid=True)),
    Column("held_until", Time),
    CheckConstraint("enabled = (disabled_reason IS NULL)", name="disabled"),
    CheckConstraint("format IN ('standard', 'slack', 'cloudevents')", name="format"),
    Index("ix_webhook_tenant_id_id", "tenant_id", "id"),
    Index("ix_webhook_next_due", "next_due", postgresql_where=text("enabled AND next_due IS NOT NULL")),
)

webhook_secret = Table(
    "webhook_secret",
    metadata,
    Column("webhook_id", Id, ForeignKey("webhook.id", ondelete="CASCADE"), primary_key=True),
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, nullable=False),
    Column("secret", Text, nullable=False, comment="only workers may read it"),
    Column("valid_until", Time, comment="NULL: the present one"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Index("ix_webhook_secret_present", "webhook_id", unique=True, postgresql_where=text("valid_until IS NULL")),
)

webhook_delivery = Table(
    "webhook_delivery",
    metadata,
    Column("id", Id, primary_key=True),
    Column("row_id", BigInteger, Identity(always=True), nullable=False, comment="the order of delivery"),
    Column("webhook_id", Id, ForeignKey("webhook.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Id, nullable=False),
    Column("event_id", Id, nullable=False),
    Column("sequence", BigInteger, comment="of the event; NULL: a test, or a record of use"),
    Column("event_type", Text, nullable=False),
    Column("event_at", Time, nullable=False, server_default=_NOW),
    Column("about", Json, nullable=False, comment="the message's `data`"),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("status", Integer, comment="that the receiver answered last"),
    Column("error", Text, comment="why the last try failed"),
    Column("next_try_at", Time, server_default=_NOW),
    Column("last_try_at", Time),
    Column("gives_up_at", Time, nullable=False),
    Column("ended_at", Time),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    UniqueConstraint("webhook_id", "event_id"),
    CheckConstraint("state IN ('pending', 'delivered', 'given_up')", name="state"),
    CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name="ended"),
    CheckConstraint("(state = 'pending') = (next_try_at IS NOT NULL)", name="next_try"),
    Index("ix_webhook_delivery_webhook_id_id", "webhook_id", "id"),
    Index("ix_webhook_delivery_pending", "webhook_id", "row_id", postgresql_where=text("state = 'pending'")),
    Index("ix_webhook_delivery_created_at", "created_at"),
)
