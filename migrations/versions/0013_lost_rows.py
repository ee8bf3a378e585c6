"""Causes of orphans that tell lost rows from copied tags, and what shows that a dump was restored.

The version before writes neither of the new causes, and goes on with the old one. It lifts a hold without the new column, and
whoever notices the missing identity next stores all of it.

Revision: 0013
Follows: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

OLD_CAUSES = ("ended_lease", "other_attempt", "no_row", "leftover")
CAUSES = (*OLD_CAUSES[:2], "lost_row", "copied_tags", *OLD_CAUSES[2:])


def upgrade() -> None:
    op.add_column(
        "installation",
        sa.Column(
            "database_identity",
            sa.Text(),
            nullable=True,
            comment="of the database and its table, to notice a restored dump",
        ),
    )
    op.add_column(
        "lease",
        sa.Column(
            "term_in_doubt",
            sa.Boolean(),
            server_default=sa.false(),
            nullable=False,
            comment="a hold was set, and the deadline tag of its VM was not read since",
        ),
    )
    op.execute("GRANT UPDATE (database_identity) ON installation TO gpulease_api")
    _causes(CAUSES)


def downgrade() -> None:
    op.execute("UPDATE orphan SET cause = 'no_row' WHERE cause IN ('lost_row', 'copied_tags')")
    _causes(OLD_CAUSES)
    op.drop_column("lease", "term_in_doubt")
    op.drop_column("installation", "database_identity")


def _causes(causes: tuple[str, ...]) -> None:
    name = op.f("ck_orphan_cause")
    listed = ", ".join(f"'{cause}'" for cause in causes)
    op.drop_constraint(name, "orphan", type_="check")
    op.create_check_constraint(name, "orphan", f"cause IN ({listed})")
