"""Use and cost by hour and by day, summed up from attempts and leases."""

from sqlalchemy import Boolean, CheckConstraint, Column, Float, Index, Integer, Numeric, Table, Text, text

from app.db.core.sql import Id, Json, Money, Time
from app.db.schema.metadata import metadata

usage_rollup = Table(
    "usage_rollup",
    metadata,
    Column("tenant_id", Id, primary_key=True, comment="*: all tenants"),
    Column("step", Text, primary_key=True),
    Column("starts_at", Time, primary_key=True),
    Column("provider", Text, primary_key=True, comment="*: all providers"),
    Column("gpu_model", Text, primary_key=True, comment="*: all GPU models; volume: volumes"),
    Column("gpu_seconds", Numeric, nullable=False),
    Column("volume_gib_seconds", Numeric, nullable=False, server_default="0"),
    Column("cost", Numeric, nullable=False, comment="USD, not rounded"),
    Column("leases_created", Integer, nullable=False),
    Column("leases_ready", Integer, nullable=False),
    Column("leases_failed", Integer, nullable=False),
    Column("capacity_failures", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("ready_seconds_p50", Float),
    Column("ready_seconds_p95", Float),
    CheckConstraint("step IN ('hour', 'day')", name="step"),
    Index("ix_usage_rollup_step_starts_at", "step", "starts_at"),
    Index(
        "ix_usage_rollup_by_tenant",
        "step",
        "starts_at",
        postgresql_where=text("provider = '*' AND gpu_model = '*' AND tenant_id <> '*'"),
    ),
    comment="A row is a sum over one step; * in a column stands for all. No row: nothing was used",
)

usage_progress = Table(
    "usage_progress",
    metadata,
    Column("singleton", Boolean, primary_key=True, server_default=text("true")),
    Column("rolled_until", Time, comment="the end of the last hour that is summed up; NULL: none"),
    Column("checked_until", Time, comment="corrections that were written before are summed up"),
    Column("recorded_until", Time, comment="the end of the last hour whose usage records are closed; NULL: none"),
    Column("recorded_corrections_until", Time, comment="corrections that were written before have usage records"),
    Column(
        "samples_rolled_until", Time, comment="the end of the last hour whose GPU samples are summed up; NULL: none"
    ),
    CheckConstraint("singleton", name="singleton"),
    comment="One row: how far usage_rollup is",
)

_COST_COLUMNS = ("compute_cost", "disk_cost", "address_cost", "list_cost")

usage_record = Table(
    "usage_record",
    metadata,
    Column("attempt_id", Id, primary_key=True),
    Column("starts_at", Time, primary_key=True, comment="a full hour, UTC"),
    Column("revision", Integer, primary_key=True, comment="0: as the hour was closed; others add to it"),
    Column("tenant_id", Id, nullable=False),
    Column("lease_id", Id, nullable=False),
    Column("lease_name", Text, nullable=False),
    Column("n", Integer, nullable=False),
    Column("key_id", Id),
    Column("labels", Json, nullable=False),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("instance_id", Text),
    Column("market", Text, nullable=False),
    Column("gpu_model", Text),
    Column("gpu_count", Integer),
    Column("seconds", Numeric, nullable=False),
    Column("price_per_hour", Money, nullable=False, comment="USD for all parts, the last one of the hour"),
    Column("price_source", Text),
    Column("price_as_of", Time),
    *(Column(name, Numeric, nullable=False, comment="USD, not rounded") for name in _COST_COLUMNS),
    Column("disk_gib_hours", Numeric, nullable=False),
    Column("gpu_hours", Numeric, nullable=False),
    Column("idle_gpu_hours", Numeric, comment="NULL: unknown"),
    Column("idle_cost", Numeric, comment="USD; NULL: unknown"),
    Column("created_at", Time, nullable=False, server_default=text("now()")),
    Index("ix_usage_record_tenant_id_starts_at", "tenant_id", "starts_at"),
    Index("ix_usage_record_lease_id", "lease_id", "starts_at"),
    Index("ix_usage_record_starts_at", "starts_at"),
    comment="What an attempt used in an hour. Rows never change: a correction is a row of its own",
)

cost_rollup = Table(
    "cost_rollup",
    metadata,
    Column("tenant_id", Id, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("starts_at", Time, primary_key=True),
    *(Column(name, Text, primary_key=True) for name in ("provider", "region", "gpu_model", "market", "instance_type")),
    *(Column(name, Numeric, nullable=False, comment="USD, not rounded") for name in _COST_COLUMNS),
    Column("gpu_hours", Numeric, nullable=False),
    Column("idle_gpu_hours", Numeric, comment="NULL: unknown"),
    Column("idle_cost", Numeric, comment="USD; NULL: unknown"),
    Column("leases", Integer, nullable=False),
    Column(
        "leases_started",
        Integer,
        nullable=False,
        server_default="0",
        comment="those of them without earlier use of the same kind of machine",
    ),
    CheckConstraint("step IN ('hour', 'day')", name="step"),
    Index("ix_cost_rollup_step_starts_at", "step", "starts_at"),
    comment="Sums of usage_record over one step",
)
