"""Groups of leases that start together in one place, and batches of attempts that one create call launches."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint, text

from app.db.core.sql import Id, Json, Time
from app.db.schema.metadata import metadata

_NOW = text("now()")

lease_group = Table(
    "lease_group",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("key_id", Id, comment="the key that created it"),
    Column("name", Text, nullable=False),
    Column("size", Integer, nullable=False, comment="members wanted"),
    Column("min_size", Integer, nullable=False, comment="members without which it does not run"),
    Column("lease", Json, nullable=False, comment="the request of each member, as received"),
    Column("placement", Text, nullable=False),
    Column("interconnect", Text, nullable=False),
    Column("form_seconds", Integer, nullable=False, comment="how long its members may take to be ready in one pool"),
    Column("on_member_loss", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="queued"),
    Column("desired", Text, nullable=False, server_default="run"),
    Column("reason", Json),
    Column("pool", Json, comment="{account, region, zone, instance_type, market}; NULL: none is chosen"),
    Column("pools_tried", Json, nullable=False, server_default=text("'[]'"), comment="pools that did not form it"),
    Column("pool_started_at", Time),
    Column("wait_until", Time, nullable=False, comment="no pool is tried later"),
    Column("formed_at", Time, comment="when it became active first"),
    Column("release_requested_at", Time),
    Column("ended_at", Time),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    Column("next_due", Time, server_default=_NOW, comment="when a worker looks at it next; NULL: it has ended"),
    CheckConstraint("state IN ('queued', 'forming', 'active', 'degraded', 'releasing', 'ended')", name="state"),
    CheckConstraint("desired IN ('run', 'end')", name="desired"),
    CheckConstraint("placement IN ('any', 'same_zone', 'cluster')", name="placement"),
    CheckConstraint("interconnect IN ('none', 'preferred', 'required')", name="interconnect"),
    CheckConstraint("on_member_loss IN ('end', 'replace', 'keep')", name="on_member_loss"),
    CheckConstraint("1 <= min_size AND min_size <= size", name="size"),
    CheckConstraint("(state = 'ended') = (ended_at IS NOT NULL)", name="ended"),
    Index("ix_lease_group_tenant_id_id", "tenant_id", "id"),
    Index("ix_lease_group_tenant_id_name", "tenant_id", "name", unique=True, postgresql_where=text("state <> 'ended'")),
    Index("ix_lease_group_next_due", "next_due", postgresql_where=text("next_due IS NOT NULL")),
    comment="Its members are leases with its id and a rank",
)

launch_batch = Table(
    "launch_batch",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("provider", "account", "region", "zone")),
    Column("token", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("params", Json, comment="exactly what is sent; NULL once no slot may be sent again"),
    Column("params_hash", Text, nullable=False),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("last_sent_at", Time),
    Column("answered_at", Time, comment="when a call returned its VMs first"),
    CheckConstraint("slots >= 1", name="slots"),
    UniqueConstraint("token"),
    Index("ix_launch_batch_created_at", "created_at"),
    comment="One create call of several attempts of a tenant. Each attempt has a slot of it",
)
