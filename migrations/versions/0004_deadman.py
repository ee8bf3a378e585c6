"""The API writes down that the dead-man switch has made a pass.

Revision: 0004
Follows: 0003
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

API = "gpulease_api"
RIGHTS = "INSERT (name, kind), UPDATE (seen_at)"


def upgrade() -> None:
    op.execute(f"GRANT {RIGHTS} ON worker_heartbeat TO {API}")


def downgrade() -> None:
    op.execute(f"REVOKE {RIGHTS} ON worker_heartbeat FROM {API}")
