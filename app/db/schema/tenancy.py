"""Who may do what: tenants, API keys, quotas, idempotency records, audit."""

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, text

from app.db.core.sql import Amount, Id, Json, Time
from app.db.schema.metadata import metadata

_NOW = text("now()")

tenant = Table(
    "tenant",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("status", Text, nullable=False, server_default="active"),
    Column("max_ttl_seconds", Integer, nullable=False),
    Column("max_total_seconds", Integer, nullable=False),
    Column(
        "budgets_version",
        Integer,
        nullable=False,
        server_default="0",
        comment="changes with the set of its budgets and with their periods",
    ),
    Column("idle_floor", Json, comment="{after_seconds, action, max_keep_seconds}: of every lease"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    CheckConstraint("status IN ('active', 'suspended')", name="status"),
    CheckConstraint("max_ttl_seconds >= 60 AND max_total_seconds >= max_ttl_seconds", name="terms"),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), comment="NULL for the roles operator and deadman"),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, comment="SHA-256 of the 256-bit random secret"),
    Column("previous_secret_hash", LargeBinary),
    Column("previous_valid_until", Time),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("expires_at", Time),
    Column("revoked_at", Time),
    Column("last_used_at", Time),
    CheckConstraint("role IN ('operator', 'admin', 'member', 'viewer', 'deadman')", name="role"),
    CheckConstraint("(role IN ('operator', 'deadman')) = (tenant_id IS NULL)", name="scope"),
    Index("ix_api_key_tenant_id_id", "tenant_id", "id"),
)

quota = Table(
    "quota",
    metadata,
    Column("tenant_id", Id, ForeignKey("tenant.id"), primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("limit", Amount, comment="NULL: no limit row. Not allowed for gpus, unlimited for the rest"),
    Column("used", Amount, nullable=False, server_default="0", comment="the sum of the claims"),
    Column(
        "spent",
        Amount,
        nullable=False,
        server_default="0",
        comment="of a budget: USD of leases that ended in its period",
    ),
    Column(
        "nearly_told",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="its warning was sent, and its use has not fallen far enough since to send another",
    ),
    CheckConstraint('used >= 0 AND ("limit" IS NULL OR "limit" >= 0)', name="amounts"),
    CheckConstraint(
        "resource IN ('gpus', 'leases', 'spend_per_hour', 'volume_gib') OR resource ~ '^(gpus|budget):.+'",
        name="resource",
    ),
)

quota_claim = Table(
    "quota_claim",
    metadata,
    Column("lease_id", Id, ForeignKey("lease.id"), primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("tenant_id", Id, nullable=False),
    Column("amount", Amount, nullable=False),
    Column(
        "base",
        Amount,
        nullable=False,
        server_default="0",
        comment="of a budget: USD of the lease's cost that its present period does not count",
    ),
    CheckConstraint("amount > 0 OR (amount = 0 AND resource LIKE 'budget:%')", name="amount"),
    CheckConstraint("base >= 0", name="base"),
    Index("ix_quota_claim_tenant_id_resource", "tenant_id", "resource"),
    comment="What a lease holds of each quota. Releasing deletes the rows, so it happens once",
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("scope", Id, primary_key=True, comment="tenant id, or the key id of an operator"),
    Column("key", Text, primary_key=True),
    Column("route", Text, primary_key=True),
    Column("body_hash", LargeBinary, nullable=False),
    Column("status", Integer, nullable=False),
    Column("response", Json, nullable=False, comment="never holds a secret"),
    Column("location", Text),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Index("ix_idempotency_created_at", "created_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Time, nullable=False, server_default=_NOW),
    Column("tenant_id", Id),
    Column("principal", Id, nullable=False, comment="key id, or system"),
    Column("role", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text),
    Column("before", Json),
    Column("after", Json),
    Column("address", Text),
    Column("request_id", Text),
    Index("ix_audit_tenant_id_id", "tenant_id", "id"),
)
