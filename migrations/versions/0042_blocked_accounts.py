"""Regions of accounts in which the provider refuses every launch at present.

Revision: 0042
Follows: 0037
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0042"
down_revision = "0037"
branch_labels = None
depends_on = None

JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
TIME = sa.DateTime(timezone=True)
COLUMNS = (
    ("blocked_until", TIME, "no launch before, since the provider refuses every one"),
    ("blocked_since", TIME, "of the first such refusal in a row"),
    ("blocked_by", JSON, "{class, code, message} of the newest such refusal"),
)


def upgrade() -> None:
    for name, kind, comment in COLUMNS:
        op.add_column("account_region", sa.Column(name, kind, nullable=True, comment=comment))


def downgrade() -> None:
    for name, _, _ in COLUMNS:
        op.drop_column("account_region", name)
