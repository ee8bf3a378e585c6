"""Operators' lists over all tenants: live leases in the order of their creation, and a policy whose share the planner can guess.

`a = x OR x = '*'` looks to PostgreSQL as if it held for one row in a hundred, and a list of the newest fifty then reads and sorts
every live lease. Written as CASE it means the same and is taken for half of the rows: the list is read from the index.

Revision: 0011
Follows: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TENANT_COLUMN = {"lease": "tenant_id", "tenant": "id"}
SETTING = "(SELECT current_setting('gpulease.tenant', true))"


def upgrade() -> None:
    op.create_index(
        "ix_lease_live",
        "lease",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("NOT state IN ('failed', 'released')"),
    )
    for table, column in TENANT_COLUMN.items():
        _policy(table, f"(CASE WHEN {SETTING} = '*' THEN true ELSE {column} = {SETTING} END)")


def downgrade() -> None:
    for table, column in TENANT_COLUMN.items():
        _policy(table, f"({column} = {SETTING} OR {SETTING} = '*')")
    op.drop_index("ix_lease_live", table_name="lease")


def _policy(table: str, mine: str) -> None:
    op.execute(f"ALTER POLICY tenant ON {table} USING {mine} WITH CHECK {mine}")
