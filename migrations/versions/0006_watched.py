"""When the VMs in change were last looked at, so that no time-out is judged by what nobody saw.

Revision: 0006
Follows: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "account_region",
        sa.Column(
            "last_watched_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="start of the last look at the VMs in change, when there were any",
        ),
    )


def downgrade() -> None:
    op.drop_column("account_region", "last_watched_at")
