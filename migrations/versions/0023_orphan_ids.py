"""Orphans have an id. The database makes it, so that rows of the previous version have one too.

Revision: 0023
Follows: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

ID = sa.Text(collation="C")

# The 128 bits of a random UUID, two zero bits before them, as 26 characters of five bits each.
TYPEID = """
CREATE FUNCTION new_typeid(prefix text) RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT prefix || '_' || string_agg(
        substr('0123456789abcdefghjkmnpqrstvwxyz', substring(v.bits FROM 5 * i + 1 FOR 5)::bit(5)::int + 1, 1), '' ORDER BY i)
    FROM (SELECT B'00' || ('x' || replace(gen_random_uuid()::text, '-', ''))::bit(128) AS bits) v, generate_series(0, 25) i
$$
"""


def upgrade() -> None:
    """The table is small: it holds what is open, and what ended in the last 30 days."""
    op.execute(TYPEID)
    op.add_column(
        "orphan",
        sa.Column(
            "id",
            ID,
            server_default=sa.text("new_typeid('orphan')"),
            nullable=False,
            comment="the API's name of the row",
        ),
    )
    op.create_unique_constraint(op.f("uq_orphan_id"), "orphan", ["id"])


def downgrade() -> None:
    op.drop_constraint(op.f("uq_orphan_id"), "orphan", type_="unique")
    op.drop_column("orphan", "id")
    op.execute("DROP FUNCTION new_typeid(text)")
