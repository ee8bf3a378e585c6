"""The last checks of each account. The API asks for another run and reads the result.

Revision: 0017
Follows: 0016
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_TIME = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "account_check",
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("checked_at", _TIME, comment="end of the last run; NULL: none yet"),
        sa.Column("requested_at", _TIME, comment="an operator wants another run"),
        sa.Column("failed", sa.Integer, comment="failed checks of the last run"),
        sa.Column("checks", JSONB(none_as_null=True), comment="[{subject, name, result, detail, fix, region}]"),
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_account_check_account")),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_account_check")),
    )
    op.execute("GRANT SELECT, INSERT (account, requested_at), UPDATE (requested_at) ON account_check TO gpulease_api")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON account_check TO gpulease_worker")


def downgrade() -> None:
    op.drop_table("account_check")
