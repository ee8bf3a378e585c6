"""Unique names of live leases within a tenant, and the price that a lease was estimated with at its creation.

The unique index also contains `unique_name`, and NULLs are distinct. Rows that the previous version writes have NULL there,
so it may still give a name twice while hosts are upgraded. Of live leases that share a name today, the oldest gets `true`;
the others keep NULL and their name. A new lease cannot take a name that any live lease has.

Revision: 0020
Follows: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

WORKER = "gpulease_worker"
LIVE = "NOT state IN ('failed', 'released')"
FIRST_OF_EACH_NAME = """
    UPDATE lease SET unique_name = true
    WHERE id IN (
        SELECT DISTINCT ON (tenant_id, name) id FROM lease WHERE NOT state IN ('failed', 'released')
        ORDER BY tenant_id, name, created_at, id)
"""


def upgrade() -> None:
    op.add_column(
        "lease",
        sa.Column(
            "estimated_price_per_hour",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD: of the first candidate at creation; NULL: created by an earlier version",
        ),
    )
    op.add_column(
        "lease",
        sa.Column(
            "unique_name",
            sa.Boolean(),
            nullable=True,
            comment="true: no other live lease of the tenant with true has this name; NULL: not checked",
        ),
    )
    # the owner of the tables sees no rows of tenants
    op.execute(f"SET LOCAL ROLE {WORKER}")
    op.execute(FIRST_OF_EACH_NAME)
    op.execute("RESET ROLE")
    op.create_index(
        "ix_lease_live_name",
        "lease",
        ["tenant_id", "name", "unique_name"],
        unique=True,
        postgresql_where=sa.text(LIVE),
    )


def downgrade() -> None:
    op.drop_index("ix_lease_live_name", table_name="lease")
    op.drop_column("lease", "unique_name")
    op.drop_column("lease", "estimated_price_per_hour")
