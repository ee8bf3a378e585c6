"""What the VM of a group's member finds when it checks the network and the GPUs of its group.

Revision: 0034
Follows: 0033
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
COMMENT = "what the VM of a group's member found when it last checked its group"


def upgrade() -> None:
    op.add_column("lease", sa.Column("group_check", JSON, nullable=True, comment=COMMENT))


def downgrade() -> None:
    op.drop_column("lease", "group_check")
