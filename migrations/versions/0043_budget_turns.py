"""When the job last applied the budgets of a tenant, and where the next look of each lane begins.

Revision: 0043
Follows: 0042
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

API, WORKER = "gpulease_api", "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())


def upgrade() -> None:
    op.create_table(
        "budget_turn",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("taken_at", TIME, nullable=False),
        sa.Column(
            "positions",
            JSON,
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="where the next look of each lane begins",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_budget_turn_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_budget_turn")),
        comment="When the job last applied the budgets of a tenant",
    )
    op.execute("ALTER TABLE budget_turn ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE budget_turn FORCE ROW LEVEL SECURITY")
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute(f"CREATE POLICY tenant ON budget_turn TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON budget_turn TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT ON budget_turn TO {API}")
    op.execute(f"GRANT ALL ON budget_turn TO {WORKER}")


def downgrade() -> None:
    op.drop_table("budget_turn")
