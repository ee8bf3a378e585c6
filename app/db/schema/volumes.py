"""The table of volumes: disks of tenants that outlive VMs."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, text

from app.db.core.sql import Id, Json, Money, Time
from app.db.schema.metadata import metadata, one_of
from app.domain.volumes import ENDED, LARGEST_GIB, VolumeState

_NOW = text("now()")
_ENDED = "state IN ({})".format(", ".join(repr(str(state)) for state in sorted(ENDED)))

volume = Table(
    "volume",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("key_id", Id, nullable=False, comment="the API key that created it"),
    Column("name", Text, nullable=False),
    Column("labels", Json, nullable=False, server_default=text("'{}'")),
    Column("size_gib", Integer, nullable=False),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("kind", Text, comment="the provider's name of the kind of disk; NULL: not created yet"),
    Column("state", Text, nullable=False, server_default="creating"),
    Column("reason", Json, comment="{code, message, origin, retryable}: why it failed, was lost, or is late"),
    # use
    Column("lease_id", Id, ForeignKey("lease.id"), comment="the lease that holds it; NULL: it is free"),
    Column("last_lease_id", Id, comment="the newest lease that held it"),
    Column("last_used_at", Time, comment="when that lease ended"),
    # the disk
    Column("cloud_id", Text, comment="the provider's id of the disk"),
    Column("sent_at", Time, comment="when the create or delete call was last sent"),
    Column("retry_at", Time, server_default=_NOW, comment="when the job looks at it next; NULL: nothing to do"),
    Column("tries", Integer, nullable=False, server_default="0", comment="calls in the present state"),
    Column("seen_at", Time, comment="start of the last listing or read that showed the disk"),
    Column("missing_since", Time, comment="start of the first complete listing in a row without the disk"),
    # money
    Column("price_per_hour", Money, comment="USD for the whole volume; NULL: not metered"),
    Column("billing_started_at", Time, comment="when the cloud had the disk"),
    Column("billing_ended_at", Time),
    Column("charged_until", Time, comment="its cost before is in `spent` of its budgets"),
    Column("request_id", Text, comment="of the last request that changed it"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    Column("ended_at", Time, comment="when it was deleted, failed or was lost"),
    CheckConstraint(one_of("state", VolumeState), name="state"),
    CheckConstraint(f"size_gib BETWEEN 1 AND {LARGEST_GIB}", name="size_gib"),
    CheckConstraint(f"({_ENDED}) = (ended_at IS NOT NULL)", name="ended"),
    CheckConstraint(f"NOT {_ENDED} OR billing_started_at IS NULL OR billing_ended_at IS NOT NULL", name="billing"),
    CheckConstraint("lease_id IS NULL OR state IN ('available', 'lost')", name="lease_id"),
    CheckConstraint("state <> 'available' OR cloud_id IS NOT NULL", name="available"),
    Index("ix_volume_live_name", "tenant_id", "name", unique=True, postgresql_where=text(f"NOT ({_ENDED})")),
    Index("ix_volume_tenant_id_id", "tenant_id", "id"),
    Index("ix_volume_lease_id", "lease_id", postgresql_where=text("lease_id IS NOT NULL")),
    Index("ix_volume_retry_at", "retry_at", postgresql_where=text("retry_at IS NOT NULL")),
    Index("ix_volume_place_live", "account", "region", postgresql_where=text(f"NOT ({_ENDED})")),
    Index("ix_volume_cloud_id", "account", "region", "cloud_id", postgresql_where=text("cloud_id IS NOT NULL")),
    Index(
        "ix_volume_billing", "tenant_id", "billing_ended_at", postgresql_where=text("billing_started_at IS NOT NULL")
    ),
    comment="`size_gib` of a live volume is what the tenant uses of the quota volume_gib",
)
