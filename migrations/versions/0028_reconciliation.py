"""Imports know their billing accounts and days, and are replaced; messages to operators.

Revision: 0028
Follows: 0027
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
ID = sa.Text(collation="C")


def upgrade() -> None:
    op.add_column(
        "invoice_import",
        sa.Column(
            "billing_accounts",
            JSON,
            server_default=sa.text("'[]'"),
            nullable=False,
            comment="whose lines for the month this import holds",
        ),
    )
    op.add_column("invoice_import", sa.Column("first_day", sa.Date(), nullable=True, comment="of its charges, UTC"))
    op.add_column(
        "invoice_import",
        sa.Column(
            "last_day",
            sa.Date(),
            nullable=True,
            comment="of its charges, UTC; estimates of later days are not compared",
        ),
    )
    op.add_column(
        "invoice_import",
        sa.Column(
            "unlisted_resources",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="with the installation's tag and without a lease, when it was imported",
        ),
    )
    op.add_column(
        "invoice_import",
        sa.Column("unlisted_cost", sa.Numeric(), server_default="0", nullable=False, comment="USD: what they cost"),
    )
    op.add_column(
        "invoice_import",
        sa.Column("replaced_at", TIME, nullable=True, comment="when a newer file took over its last billing account"),
    )
    op.alter_column(
        "invoice_import",
        "lines",
        existing_type=sa.Integer(),
        existing_nullable=False,
        comment="of the file; only those that matter are stored",
    )
    op.create_table(
        "operator_message",
        sa.Column("id", ID, nullable=False),
        sa.Column("cause", sa.Text(), nullable=False, comment="what it reports, once: kind and id"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column(
            "sent_to", JSON, server_default=sa.text("'[]'"), nullable=False, comment="receivers that accepted it"
        ),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "next_try_at", TIME, server_default=sa.text("now()"), nullable=True, comment="NULL: sent, or given up"
        ),
        sa.Column("sent_at", TIME, nullable=True),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operator_message")),
        sa.UniqueConstraint("cause", name=op.f("uq_operator_message_cause")),
        comment="Messages to the operators, sent through Apprise",
    )
    op.create_index(
        "ix_operator_message_next_try_at",
        "operator_message",
        ["next_try_at"],
        unique=False,
        postgresql_where=sa.text("next_try_at IS NOT NULL"),
    )
    op.add_column(
        "installation",
        sa.Column(
            "operators_told_until",
            sa.BigInteger(),
            nullable=True,
            comment="number of the last event that messages to operators were made of; NULL: none yet",
        ),
    )
    op.execute(f"GRANT ALL ON operator_message TO {WORKER}")


def downgrade() -> None:
    op.drop_column("installation", "operators_told_until")
    op.drop_table("operator_message")
    op.alter_column("invoice_import", "lines", existing_type=sa.Integer(), existing_nullable=False, comment=None)
    for name in ("replaced_at", "unlisted_cost", "unlisted_resources", "last_day", "first_day", "billing_accounts"):
        op.drop_column("invoice_import", name)
