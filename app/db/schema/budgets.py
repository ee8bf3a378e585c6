"""Budgets and quotes: what may be spent, and what was promised."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, text

from app.db.core.sql import Id, Json, Money, Time
from app.db.schema.metadata import metadata

_NOW = text("now()")

budget = Table(
    "budget",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("kind", Text, nullable=False, comment="whose leases it counts"),
    Column("key_id", Id, ForeignKey("api_key.id"), comment="kind key: leases that this key created"),
    Column("label_key", Text, comment="kind label: leases with this label"),
    Column("label_value", Text),
    Column("period", Text, nullable=False),
    Column("period_started_at", Time, nullable=False, comment="UTC; of a lifetime: the creation"),
    Column("period_ends_at", Time, comment="NULL: never"),
    Column("amount", Money, nullable=False, comment="USD"),
    Column("thresholds", Json, nullable=False, comment="percent of the amount, ascending"),
    Column(
        "threshold_told",
        Integer,
        nullable=False,
        server_default="0",
        comment="the highest one with an event in this period",
    ),
    Column("when_exceeded", Text, nullable=False),
    Column("set_by", Text, nullable=False, comment="the role that owns it: admins do not change what operators set"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    CheckConstraint("kind IN ('tenant', 'key', 'label')", name="kind"),
    CheckConstraint(
        "(kind = 'key') = (key_id IS NOT NULL) AND (kind = 'label') = (label_key IS NOT NULL)"
        " AND (label_key IS NULL) = (label_value IS NULL)",
        name="scope",
    ),
    CheckConstraint("period IN ('day', 'month', 'lifetime')", name="period"),
    CheckConstraint("(period = 'lifetime') = (period_ends_at IS NULL)", name="period_ends_at"),
    CheckConstraint("when_exceeded IN ('notify', 'refuse', 'end')", name="when_exceeded"),
    CheckConstraint("set_by IN ('operator', 'admin')", name="set_by"),
    CheckConstraint("amount >= 0", name="amount"),
    Index("ix_budget_tenant_id_id", "tenant_id", "id"),
    Index("ix_budget_tenant_id_key_id", "tenant_id", "key_id"),
    Index("ix_budget_period_ends_at", "period_ends_at", postgresql_where=text("period_ends_at IS NOT NULL")),
    comment="What it has spent and committed is its row of quota, with the resource budget:ID",
)

budget_turn = Table(
    "budget_turn",
    metadata,
    Column("tenant_id", Id, ForeignKey("tenant.id"), primary_key=True),
    Column("taken_at", Time, nullable=False),
    Column(
        "positions",
        Json,
        nullable=False,
        server_default=text("'{}'"),
        comment="where the next look of each lane begins",
    ),
    comment="When the job last applied the budgets of a tenant",
)

quote = Table(
    "quote",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("key_id", Id, nullable=False, comment="the key of the request"),
    Column("request", Json, nullable=False, comment="as stored on a lease"),
    Column("plan", Json, nullable=False),
    Column(
        "price_per_hour",
        Money,
        nullable=False,
        comment="USD an hour, all parts: a lease from it is launched at no more",
    ),
    Column("total", Money, nullable=False, comment="USD for the term"),
    Column("valid_until", Time, nullable=False),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Index("ix_quote_tenant_id_id", "tenant_id", "id"),
    Index("ix_quote_valid_until", "valid_until"),
)
