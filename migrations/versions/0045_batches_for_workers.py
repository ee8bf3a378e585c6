"""The API reads no launch batches: their parameters contain user data, scripts and tokens of VMs.

Revision: 0045
Follows: 0044
"""

from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("REVOKE ALL ON launch_batch FROM gpulease_api")


def downgrade() -> None:
    op.execute("GRANT SELECT ON launch_batch TO gpulease_api")
