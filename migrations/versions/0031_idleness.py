"""Idleness: an operator's floor for a tenant, of which run of idle samples an owner was warned, and what idle hours cost.

Revision: 0031
Follows: 0030
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())


def upgrade() -> None:
    floor = sa.Column(
        "idle_floor", JSON, nullable=True, comment="{after_seconds, action, max_keep_seconds}: of every lease"
    )
    op.add_column("tenant", floor)
    told_for = sa.Column("idle_told_for", TIME, nullable=True, comment="when it counts as idle, as idle_told says")
    op.add_column("lease", told_for)
    for table in ("usage_record", "cost_rollup"):
        op.add_column(table, sa.Column("idle_cost", sa.Numeric(), nullable=True, comment="USD; NULL: unknown"))


def downgrade() -> None:
    for table in ("cost_rollup", "usage_record"):
        op.drop_column(table, "idle_cost")
    op.drop_column("lease", "idle_told_for")
    op.drop_column("tenant", "idle_floor")
