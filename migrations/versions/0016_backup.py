"""A back-up without a superuser: the workers' role, which sees all rows, may read the sequences too.

Revision: 0016
Follows: 0015
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO gpulease_worker")


def downgrade() -> None:
    op.execute("REVOKE SELECT ON ALL SEQUENCES IN SCHEMA public FROM gpulease_worker")
