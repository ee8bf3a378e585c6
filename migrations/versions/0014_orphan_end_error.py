"""Orphans remember why the provider did not accept to end them.

Revision: 0014
Follows: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "orphan",
        sa.Column(
            "end_error",
            JSONB(none_as_null=True),
            comment="{class, code, message}: why the provider did not accept the last request to end it",
        ),
    )


def downgrade() -> None:
    op.drop_column("orphan", "end_error")
