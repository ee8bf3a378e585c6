"""Usage records: found by lease, and leases that begin in a step.

Revision: 0027
Follows: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "cost_rollup",
        sa.Column(
            "leases_started",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="those of them without earlier use of the same kind of machine",
        ),
    )
    _describe_sequence("of the event; NULL: a test, or a record of use", "of the event; NULL: a test")
    op.create_index("ix_usage_record_lease_id", "usage_record", ["lease_id", "starts_at"], unique=False)


def downgrade() -> None:
    _describe_sequence("of the event; NULL: a test", "of the event; NULL: a test, or a record of use")
    op.drop_index("ix_usage_record_lease_id", table_name="usage_record")
    op.drop_column("cost_rollup", "leases_started")


def _describe_sequence(now: str, before: str) -> None:
    op.alter_column(
        "webhook_delivery",
        "sequence",
        existing_type=sa.BigInteger(),
        existing_nullable=True,
        comment=now,
        existing_comment=before,
    )
