"""Leases that have not ended, in the order of their creation: what an operator's list over all tenants reads.

Revision: 0011
Follows: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_lease_live",
        "lease",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("NOT state IN ('failed', 'released')"),
    )


def downgrade() -> None:
    op.drop_index("ix_lease_live", table_name="lease")
