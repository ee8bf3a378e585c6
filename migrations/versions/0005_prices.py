"""Which prices a provider told, and which are of a list that came with the program.

Revision: 0005
Follows: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "offering",
        sa.Column(
            "price_live",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="told by the provider; else from the adapter's own list",
        ),
    )


def downgrade() -> None:
    op.drop_column("offering", "price_live")
