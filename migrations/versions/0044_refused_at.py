"""When an offering last refused: a VM that was requested earlier does not end the cool-off.

Revision: 0044
Follows: 0043
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

COMMENT = "when it last refused; NULL: never"


def upgrade() -> None:
    for table in ("offering", "reservation"):
        op.add_column(table, sa.Column("refused_at", sa.TIMESTAMP(timezone=True), nullable=True, comment=COMMENT))


def downgrade() -> None:
    for table in ("offering", "reservation"):
        op.drop_column(table, "refused_at")
