"""Use and cost by hour and by day, summed up from attempts and leases."""

from sqlalchemy import Boolean, CheckConstraint, Column, Float, Index, Integer, Numeric, Table, Text, text

from app.db.core.column_types import Id, Time
from app.db.schema.metadata import metadata

usage_rollup = Table(
    "usage_rollup",
    metadata,
    Column("tenant_id", Id, primary_key=True, comment="*: all tenants"),
    Column("step", Text, primary_key=True),
    Column("starts_at", Time, primary_key=True),
    Column("provider", Text, primary_key=True, comment="*: all providers"),
    Column("gpu_model", Text, primary_key=True, comment="*: all GPU models"),
    Column("gpu_seconds", Numeric, nullable=False),
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
    CheckConstraint("singleton", name="singleton"),
    comment="One row: how far usage_rollup is",
)
