"""What the last check of each invariant found, and which request last changed a lease, for the workers' log lines.

Revision: 0008
Follows: 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.add_column(
        "lease",
        sa.Column("request_id", sa.Text(), nullable=True, comment="of the last request that changed it"),
    )
    op.create_table(
        "invariant",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("violations", sa.Integer(), nullable=False, comment="that the last check found"),
        sa.Column(
            "examples",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="rows of a few of them",
        ),
        sa.Column("since", TIME, nullable=True, comment="NULL: it holds"),
        sa.Column("checked_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_invariant")),
    )
    op.execute(f"GRANT SELECT ON invariant TO {API}")
    op.execute(f"GRANT ALL ON invariant TO {WORKER}")


def downgrade() -> None:
    op.drop_table("invariant")
    op.drop_column("lease", "request_id")
