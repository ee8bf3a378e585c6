"""How often each periodic job runs, and since when it exists: a job that is late shows by its row alone.

Revision: 0048
Follows: 0047
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "periodic_job",
        sa.Column(
            "interval_seconds",
            sa.Double(),
            nullable=True,
            comment="from the start of a run to the next one; NULL: made by an earlier version",
        ),
    )
    op.add_column(
        "periodic_job",
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
    )


def downgrade() -> None:
    op.drop_column("periodic_job", "created_at")
    op.drop_column("periodic_job", "interval_seconds")
