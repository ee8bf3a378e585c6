"""What the times of an account and region say, told anew: a listing that left a zone out has not seen what is there.

Revision: 0007
Follows: 0006
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STARTED, COMPLETE = "last_listing_started_at", "last_complete_listing_at"
BEFORE = {STARTED: "start of the last complete listing", COMPLETE: "its end"}
AFTER = {
    STARTED: "start of the last listing that did not break off",
    COMPLETE: "start of the last one that was believed and told of every VM",
}


def upgrade() -> None:
    for column, comment in AFTER.items():
        op.alter_column("account_region", column, comment=comment, existing_comment=BEFORE[column])


def downgrade() -> None:
    for column, comment in BEFORE.items():
        op.alter_column("account_region", column, comment=comment, existing_comment=AFTER[column])
