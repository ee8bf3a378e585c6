"""Whether the provider knew a VM when it accepted its end: what does not show after that is gone.

Revision: 0010
Follows: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "attempt",
        sa.Column(
            "end_accepted",
            sa.Boolean(),
            server_default=sa.false(),
            nullable=False,
            comment="of a VM that the provider knew",
        ),
    )


def downgrade() -> None:
    op.drop_column("attempt", "end_accepted")
