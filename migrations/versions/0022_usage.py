"""Use and cost by hour and by day.

Revision: 0022
Follows: 0021
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
ID = sa.Text(collation="C")
INDEXES = {
    "ix_lease_ready_at": ("lease", "ready_at", "ready_at IS NOT NULL"),
    "ix_lease_ended_at": ("lease", "ended_at", "ended_at IS NOT NULL"),
    "ix_attempt_billing_ended_at": ("attempt", "billing_ended_at", "billing_started_at IS NOT NULL"),
    "ix_attempt_ended_at": ("attempt", "ended_at", "ended_at IS NOT NULL"),
}
"""What happened in an hour is read by its time."""


def upgrade() -> None:
    _rollup()
    _progress()
    for name, (table, column, where) in INDEXES.items():
        op.create_index(name, table, [column], postgresql_where=sa.text(where))


def downgrade() -> None:
    for name, (table, _, _) in INDEXES.items():
        op.drop_index(name, table_name=table)
    op.drop_table("usage_progress")
    op.drop_table("usage_rollup")


def _rollup() -> None:
    op.create_table(
        "usage_rollup",
        sa.Column("tenant_id", ID, nullable=False, comment="*: all tenants"),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("starts_at", TIME, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False, comment="*: all providers"),
        sa.Column("gpu_model", sa.Text(), nullable=False, comment="*: all GPU models"),
        sa.Column("gpu_seconds", sa.Numeric(), nullable=False),
        sa.Column("cost", sa.Numeric(), nullable=False, comment="USD, not rounded"),
        sa.Column("leases_created", sa.Integer(), nullable=False),
        sa.Column("leases_ready", sa.Integer(), nullable=False),
        sa.Column("leases_failed", sa.Integer(), nullable=False),
        sa.Column("capacity_failures", sa.Integer(), nullable=False),
        sa.Column("interruptions", sa.Integer(), nullable=False),
        sa.Column("ready_seconds_p50", sa.Float(), nullable=True),
        sa.Column("ready_seconds_p95", sa.Float(), nullable=True),
        sa.CheckConstraint("step IN ('hour', 'day')", name=op.f("ck_usage_rollup_step")),
        sa.PrimaryKeyConstraint(
            "tenant_id", "step", "starts_at", "provider", "gpu_model", name=op.f("pk_usage_rollup")
        ),
        comment="A row is a sum over one step; * in a column stands for all. No row: nothing was used",
    )
    op.create_index("ix_usage_rollup_step_starts_at", "usage_rollup", ["step", "starts_at"])
    op.create_index(
        "ix_usage_rollup_by_tenant",
        "usage_rollup",
        ["step", "starts_at"],
        postgresql_where=sa.text("provider = '*' AND gpu_model = '*' AND tenant_id <> '*'"),
    )
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute("ALTER TABLE usage_rollup ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE usage_rollup FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON usage_rollup TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON usage_rollup TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT ON usage_rollup TO {API}")
    op.execute(f"GRANT ALL ON usage_rollup TO {WORKER}")


def _progress() -> None:
    op.create_table(
        "usage_progress",
        sa.Column("singleton", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column(
            "rolled_until", TIME, nullable=True, comment="the end of the last hour that is summed up; NULL: none"
        ),
        sa.Column("checked_until", TIME, nullable=True, comment="corrections that were written before are summed up"),
        sa.CheckConstraint("singleton", name=op.f("ck_usage_progress_singleton")),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_usage_progress")),
        comment="One row: how far usage_rollup is",
    )
    op.execute("INSERT INTO usage_progress DEFAULT VALUES")
    op.execute(f"GRANT SELECT ON usage_progress TO {API}")
    op.execute(f"GRANT SELECT, UPDATE ON usage_progress TO {WORKER}")
