"""Budgets: what a claim does not count, the rate that admission counts, and what the API may change for budgets alone.

Revision: 0026
Follows: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
MONEY = sa.Numeric(precision=14, scale=6)
OF_BUDGETS = "resource LIKE 'budget:%'"


def upgrade() -> None:
    op.add_column(
        "tenant",
        sa.Column(
            "budgets_version",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="changes with the set of its budgets and with their periods",
        ),
    )
    op.add_column(
        "quota_claim",
        sa.Column(
            "base",
            MONEY,
            server_default="0",
            nullable=False,
            comment="of a budget: USD of the lease's cost that its present period does not count",
        ),
    )
    op.add_column(
        "lease",
        sa.Column(
            "minimum_rate",
            MONEY,
            nullable=True,
            comment="USD an hour: the least that any candidate costs, all parts; NULL: created by an earlier version",
        ),
    )
    op.create_index("ix_budget_tenant_id_key_id", "budget", ["tenant_id", "key_id"], unique=False)
    _claim_amount(f"amount > 0 OR (amount = 0 AND {OF_BUDGETS})")
    op.create_check_constraint(op.f("ck_quota_claim_base"), "quota_claim", "base >= 0")
    for table, command in (("quota_claim", "UPDATE"), ("quota_claim", "DELETE"), ("quota", "DELETE")):
        op.execute(
            f"CREATE POLICY budgets_{command.lower()} ON {table} AS RESTRICTIVE FOR {command} TO {API} USING ({OF_BUDGETS})"
        )
    op.execute(f"GRANT UPDATE (amount, base), DELETE ON quota_claim TO {API}")
    op.execute(f"GRANT DELETE ON quota TO {API}")


def downgrade() -> None:
    op.execute(f"REVOKE DELETE ON quota FROM {API}")
    op.execute(f"REVOKE UPDATE (amount, base), DELETE ON quota_claim FROM {API}")
    for table, command in (("quota_claim", "UPDATE"), ("quota_claim", "DELETE"), ("quota", "DELETE")):
        op.execute(f"DROP POLICY budgets_{command.lower()} ON {table}")
    op.execute(f"SET LOCAL ROLE {WORKER}")  # the owner of the tables sees no rows of tenants
    op.execute("DELETE FROM quota_claim WHERE amount = 0")
    op.execute("RESET ROLE")
    _claim_amount("amount > 0")
    op.drop_index("ix_budget_tenant_id_key_id", table_name="budget")
    op.drop_column("lease", "minimum_rate")
    op.drop_column("quota_claim", "base")
    op.drop_column("tenant", "budgets_version")


def _claim_amount(rule: str) -> None:
    op.drop_constraint(op.f("ck_quota_claim_amount"), "quota_claim", type_="check")
    op.create_check_constraint(op.f("ck_quota_claim_amount"), "quota_claim", rule)
