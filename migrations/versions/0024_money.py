"""Money: prices of parts and their changes, caps, budgets, quotes, usage records, and what providers charged.

Revision: 0024
Follows: 0023
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
MONEY = sa.Numeric(precision=14, scale=6)
ID = sa.Text(collation="C")

API_GRANTS = {
    "attempt_price": "SELECT",
    "budget": "SELECT, INSERT, UPDATE, DELETE",
    "quote": "SELECT, INSERT",
    "usage_record": "SELECT",
    "cost_rollup": "SELECT",
}
"""Tables with rows of tenants."""

RESOURCES = "resource IN ('gpus', 'leases', 'spend_per_hour') OR resource ~ '^{}:.+'"
VISIBLE = "price_source, price_as_of, list_price_per_hour, disk_gib, disk_price_per_hour, address_price_per_hour, cost_of_past_prices"


def upgrade() -> None:
    _tables()
    _columns()
    op.drop_constraint(op.f("ck_quota_resource"), "quota", type_="check")
    op.create_check_constraint(op.f("ck_quota_resource"), "quota", RESOURCES.format("(gpus|budget)"))
    op.create_check_constraint(op.f("ck_webhook_format"), "webhook", "format IN ('standard', 'slack', 'cloudevents')")
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    for table, rights in API_GRANTS.items():
        _policies(table, f"(tenant_id = {tenant} OR {tenant} = '*')")
        op.execute(f"GRANT {rights} ON {table} TO {API}")
    for table in ("invoice_import", "invoice_line"):
        _policies(table, f"{tenant} = '*'")
        op.execute(f"GRANT SELECT ON {table} TO {API}")
    op.execute(f"GRANT USAGE, SELECT ON SEQUENCE invoice_line_row_id_seq TO {WORKER}")
    op.execute(f"GRANT SELECT ({VISIBLE}) ON attempt TO {API}")


def downgrade() -> None:
    op.drop_column("webhook", "format")
    op.drop_column("usage_progress", "recorded_corrections_until")
    op.drop_column("usage_progress", "recorded_until")
    op.alter_column(
        "quota",
        "used",
        existing_type=MONEY,
        comment=None,
        existing_comment="the sum of the claims",
        existing_nullable=False,
        existing_server_default=sa.text("'0'::numeric"),
    )
    op.execute(f"SET LOCAL ROLE {WORKER}")  # the owner of the tables sees no rows of tenants
    op.execute("DELETE FROM quota_claim WHERE resource LIKE 'budget:%'")
    op.execute("DELETE FROM quota WHERE resource LIKE 'budget:%'")
    op.execute("RESET ROLE")
    op.drop_constraint(op.f("ck_quota_resource"), "quota", type_="check")
    op.create_check_constraint(op.f("ck_quota_resource"), "quota", RESOURCES.format("gpus"))
    op.drop_column("quota", "spent")
    op.drop_column("lease", "expiry_told_seconds")
    op.drop_column("lease", "expiry_warnings")
    op.drop_column("lease", "quote_id")
    op.drop_column("lease", "cap_told")
    op.drop_column("lease", "cost_reached_at")
    op.drop_column("lease", "max_cost")
    op.drop_column("lease", "key_id")
    op.drop_column("attempt_archive", "address_price_per_hour")
    op.drop_column("attempt_archive", "disk_price_per_hour")
    op.alter_column(
        "attempt",
        "price_per_hour",
        existing_type=MONEY,
        comment=None,
        existing_comment="USD for compute, as planned; changes are rows of attempt_price",
        existing_nullable=False,
    )
    op.drop_column("attempt", "cost_of_past_prices")
    op.drop_column("attempt", "address_price_per_hour")
    op.drop_column("attempt", "disk_price_per_hour")
    op.drop_column("attempt", "disk_gib")
    op.drop_column("attempt", "list_price_per_hour")
    op.drop_column("attempt", "price_as_of")
    op.drop_column("attempt", "price_source")
    op.drop_index("ix_budget_tenant_id_id", table_name="budget")
    op.drop_index(
        "ix_budget_period_ends_at", table_name="budget", postgresql_where=sa.text("period_ends_at IS NOT NULL")
    )
    op.drop_table("budget")
    op.drop_index("ix_quote_valid_until", table_name="quote")
    op.drop_index("ix_quote_tenant_id_id", table_name="quote")
    op.drop_table("quote")
    op.drop_index("ix_invoice_line_import_id", table_name="invoice_line")
    op.drop_index("ix_invoice_line_day", table_name="invoice_line")
    op.drop_table("invoice_line")
    op.drop_index("ix_usage_record_tenant_id_starts_at", table_name="usage_record")
    op.drop_index("ix_usage_record_starts_at", table_name="usage_record")
    op.drop_table("usage_record")
    op.drop_index("ix_invoice_import_month", table_name="invoice_import")
    op.drop_table("invoice_import")
    op.drop_index("ix_cost_rollup_step_starts_at", table_name="cost_rollup")
    op.drop_table("cost_rollup")
    op.drop_table("attempt_price")


def _policies(table: str, mine: str) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {table} TO {API} USING ({mine}) WITH CHECK ({mine})")
    op.execute(f"CREATE POLICY worker ON {table} TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT ALL ON {table} TO {WORKER}")


def _tables() -> None:
    op.create_table(
        "attempt_price",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("price_per_hour", MONEY, nullable=False, comment="USD for compute from this time on"),
        sa.Column("price_source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "starts_at", name=op.f("pk_attempt_price")),
        comment="Changes of the price of a running attempt. Before the first one, the price as planned applies",
    )
    op.create_table(
        "cost_rollup",
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("compute_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("disk_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("address_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("list_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("gpu_hours", sa.Numeric(), nullable=False),
        sa.Column("idle_gpu_hours", sa.Numeric(), nullable=True, comment="NULL: unknown"),
        sa.Column("leases", sa.Integer(), nullable=False),
        sa.CheckConstraint("step IN ('hour', 'day')", name=op.f("ck_cost_rollup_step")),
        sa.PrimaryKeyConstraint(
            "tenant_id",
            "step",
            "starts_at",
            "provider",
            "region",
            "gpu_model",
            "market",
            "instance_type",
            name=op.f("pk_cost_rollup"),
        ),
        comment="Sums of usage_record over one step",
    )
    op.create_index("ix_cost_rollup_step_starts_at", "cost_rollup", ["step", "starts_at"], unique=False)
    op.create_table(
        "invoice_import",
        sa.Column("id", ID, nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("file_hash", sa.LargeBinary(), nullable=False, comment="SHA-256: a file is imported once"),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("month", sa.Date(), nullable=False, comment="its first day"),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.Column("imported_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invoice_import")),
        sa.UniqueConstraint("file_hash", name=op.f("uq_invoice_import_file_hash")),
    )
    op.create_index("ix_invoice_import_month", "invoice_import", ["month"], unique=False)
    op.create_table(
        "usage_record",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("starts_at", TIME, nullable=False, comment="a full hour, UTC"),
        sa.Column("revision", sa.Integer(), nullable=False, comment="0: as the hour was closed; others add to it"),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("lease_id", ID, nullable=False),
        sa.Column("lease_name", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("key_id", ID, nullable=True),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Text(), nullable=True),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=True),
        sa.Column("seconds", sa.Numeric(), nullable=False),
        sa.Column("price_per_hour", MONEY, nullable=False, comment="USD for compute, the last one of the hour"),
        sa.Column("price_source", sa.Text(), nullable=True),
        sa.Column("price_as_of", TIME, nullable=True),
        sa.Column("compute_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("disk_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("address_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("list_cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("disk_gib_hours", sa.Numeric(), nullable=False),
        sa.Column("gpu_hours", sa.Numeric(), nullable=False),
        sa.Column("idle_gpu_hours", sa.Numeric(), nullable=True, comment="NULL: unknown"),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "starts_at", "revision", name=op.f("pk_usage_record")),
        comment="What an attempt used in an hour. Rows never change: a correction is a row of its own",
    )
    op.create_index("ix_usage_record_starts_at", "usage_record", ["starts_at"], unique=False)
    op.create_index("ix_usage_record_tenant_id_starts_at", "usage_record", ["tenant_id", "starts_at"], unique=False)
    op.create_table(
        "invoice_line",
        sa.Column("row_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("import_id", ID, nullable=False),
        sa.Column("day", sa.Date(), nullable=False, comment="UTC"),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("billing_account", sa.Text(), nullable=True),
        sa.Column(
            "resource_id", sa.Text(), nullable=False, comment="in the form of attempt.instance_id where it is a VM"
        ),
        sa.Column("charge_category", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=True),
        sa.Column("cost", sa.Numeric(), nullable=False, comment="USD: EffectiveCost"),
        sa.Column("lease_id", ID, nullable=True, comment="from the tags"),
        sa.Column("installation", sa.Text(), nullable=True, comment="from the tags"),
        sa.Column("is_vm", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["import_id"], ["invoice_import.id"], name=op.f("fk_invoice_line_import_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_invoice_line")),
    )
    op.create_index("ix_invoice_line_day", "invoice_line", ["day", "resource_id"], unique=False)
    op.create_index("ix_invoice_line_import_id", "invoice_line", ["import_id"], unique=False)
    op.create_table(
        "quote",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("key_id", ID, nullable=False, comment="the key that asked for it"),
        sa.Column("request", JSON, nullable=False, comment="as stored on a lease"),
        sa.Column("plan", JSON, nullable=False),
        sa.Column(
            "price_per_hour", MONEY, nullable=False, comment="USD: the most that a lease created from it costs an hour"
        ),
        sa.Column("total", MONEY, nullable=False, comment="USD for the term"),
        sa.Column("valid_until", TIME, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_quote_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quote")),
    )
    op.create_index("ix_quote_tenant_id_id", "quote", ["tenant_id", "id"], unique=False)
    op.create_index("ix_quote_valid_until", "quote", ["valid_until"], unique=False)
    op.create_table(
        "budget",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="whose leases it counts"),
        sa.Column("key_id", ID, nullable=True, comment="kind key: leases that this key created"),
        sa.Column("label_key", sa.Text(), nullable=True, comment="kind label: leases with this label"),
        sa.Column("label_value", sa.Text(), nullable=True),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("period_started_at", TIME, nullable=False, comment="UTC; of a lifetime: the creation"),
        sa.Column("period_ends_at", TIME, nullable=True, comment="NULL: never"),
        sa.Column("amount", MONEY, nullable=False, comment="USD"),
        sa.Column("thresholds", JSON, nullable=False, comment="percent of the amount, ascending"),
        sa.Column(
            "threshold_told",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="the highest one with an event in this period",
        ),
        sa.Column("when_exceeded", sa.Text(), nullable=False),
        sa.Column(
            "set_by",
            sa.Text(),
            nullable=False,
            comment="the role that owns it: admins do not change what operators set",
        ),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "(kind = 'key') = (key_id IS NOT NULL) AND (kind = 'label') = (label_key IS NOT NULL) AND (label_key IS NULL) = (label_value IS NULL)",
            name=op.f("ck_budget_scope"),
        ),
        sa.CheckConstraint("(period = 'lifetime') = (period_ends_at IS NULL)", name=op.f("ck_budget_period_ends_at")),
        sa.CheckConstraint("kind IN ('tenant', 'key', 'label')", name=op.f("ck_budget_kind")),
        sa.CheckConstraint("period IN ('day', 'month', 'lifetime')", name=op.f("ck_budget_period")),
        sa.CheckConstraint("set_by IN ('operator', 'admin')", name=op.f("ck_budget_set_by")),
        sa.CheckConstraint("when_exceeded IN ('notify', 'refuse', 'end')", name=op.f("ck_budget_when_exceeded")),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_budget_amount")),
        sa.ForeignKeyConstraint(["key_id"], ["api_key.id"], name=op.f("fk_budget_key_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_budget_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budget")),
        comment="What it has spent and committed is its row of quota, with the resource budget:ID",
    )
    op.create_index(
        "ix_budget_period_ends_at",
        "budget",
        ["period_ends_at"],
        unique=False,
        postgresql_where=sa.text("period_ends_at IS NOT NULL"),
    )
    op.create_index("ix_budget_tenant_id_id", "budget", ["tenant_id", "id"], unique=False)


def _columns() -> None:
    op.add_column("attempt", sa.Column("price_source", sa.Text(), nullable=True, comment="where the price is from"))
    op.add_column(
        "attempt", sa.Column("price_as_of", TIME, nullable=True, comment="when the provider stated the price")
    )
    op.add_column(
        "attempt",
        sa.Column(
            "list_price_per_hour", MONEY, nullable=True, comment="USD: the same machine on demand; NULL: unknown"
        ),
    )
    op.add_column(
        "attempt",
        sa.Column(
            "disk_gib",
            sa.Integer(),
            nullable=True,
            comment="of its network disks; NULL: launched by an earlier version",
        ),
    )
    op.add_column(
        "attempt",
        sa.Column("disk_price_per_hour", MONEY, nullable=True, comment="USD for all disks; NULL: not metered"),
    )
    op.add_column(
        "attempt",
        sa.Column(
            "address_price_per_hour", MONEY, nullable=True, comment="USD for its public address; NULL: not metered"
        ),
    )
    op.add_column(
        "attempt",
        sa.Column(
            "cost_of_past_prices",
            MONEY,
            server_default="0",
            nullable=False,
            comment="USD, a part of lease.cost_closed already",
        ),
    )
    op.alter_column(
        "attempt",
        "price_per_hour",
        existing_type=MONEY,
        comment="USD for compute, as planned; changes are rows of attempt_price",
        existing_nullable=False,
    )
    op.add_column("attempt_archive", sa.Column("disk_price_per_hour", MONEY, nullable=True))
    op.add_column("attempt_archive", sa.Column("address_price_per_hour", MONEY, nullable=True))
    op.add_column("lease", sa.Column("key_id", ID, nullable=True, comment="the API key that created it; NULL: unknown"))
    op.add_column(
        "lease",
        sa.Column("max_cost", MONEY, nullable=True, comment="USD: the lease ends before it costs more; NULL: no cap"),
    )
    op.add_column(
        "lease",
        sa.Column(
            "cost_reached_at",
            TIME,
            nullable=True,
            comment="when the cost reaches max_cost at the present rate; NULL: no cap, or not billed",
        ),
    )
    op.add_column(
        "lease",
        sa.Column(
            "cap_told",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="that 80 % of max_cost is spent",
        ),
    )
    op.add_column("lease", sa.Column("quote_id", ID, nullable=True, comment="the quote that it was created from"))
    op.add_column(
        "lease",
        sa.Column(
            "expiry_warnings",
            JSON,
            nullable=True,
            comment="seconds before the end at which its owner is warned; NULL: the installation's",
        ),
    )
    op.add_column(
        "lease",
        sa.Column(
            "expiry_told_seconds", sa.Integer(), nullable=True, comment="the latest of the warnings before that time"
        ),
    )
    op.add_column(
        "quota",
        sa.Column(
            "spent",
            MONEY,
            server_default="0",
            nullable=False,
            comment="of a budget: USD of leases that ended in its period",
        ),
    )
    op.alter_column(
        "quota",
        "used",
        existing_type=MONEY,
        comment="the sum of the claims",
        existing_nullable=False,
        existing_server_default=sa.text("'0'::numeric"),
    )
    op.add_column(
        "usage_progress",
        sa.Column(
            "recorded_until",
            TIME,
            nullable=True,
            comment="the end of the last hour whose usage records are closed; NULL: none",
        ),
    )
    op.add_column(
        "usage_progress",
        sa.Column(
            "recorded_corrections_until",
            TIME,
            nullable=True,
            comment="corrections that were written before have usage records",
        ),
    )
    op.add_column(
        "webhook", sa.Column("format", sa.Text(), server_default="standard", nullable=False, comment="of the bodies")
    )
