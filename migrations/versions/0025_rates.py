"""Prices of disks and addresses by region, and the parts of a lease's rate.

Revision: 0025
Follows: 0024
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
MONEY = sa.Numeric(precision=14, scale=6)


def upgrade() -> None:
    op.create_table(
        "part_price",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False, comment="disk: USD a GiB and month; address: USD an hour"),
        sa.Column("instance_type", sa.Text(), nullable=False, comment="*: every type without a row of its own"),
        sa.Column("price", MONEY, nullable=False),
        sa.Column("price_as_of", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("price_source", sa.Text(), nullable=False),
        sa.Column("price_live", sa.Boolean(), nullable=False, comment="told by the provider; else from a list"),
        sa.CheckConstraint("part IN ('disk', 'address')", name=op.f("ck_part_price_part")),
        sa.CheckConstraint("price >= 0", name=op.f("ck_part_price_price")),
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_part_price_account")),
        sa.PrimaryKeyConstraint("account", "region", "part", "instance_type", name=op.f("pk_part_price")),
        comment="Prices of what a VM has besides compute: its network disk and its public address",
    )
    op.execute(f"GRANT SELECT ON part_price TO {API}")
    op.execute(f"GRANT ALL ON part_price TO {WORKER}")
    op.alter_column(
        "lease",
        "rate_per_hour",
        existing_type=MONEY,
        comment="USD for all parts; NULL while nothing is billed",
        existing_comment="USD; NULL while nothing is billed",
        existing_nullable=True,
    )
    op.add_column(
        "lease",
        sa.Column(
            "disk_rate_per_hour",
            MONEY,
            nullable=True,
            comment="USD, the part for disks; NULL: not metered, or nothing is billed",
        ),
    )
    op.add_column(
        "lease",
        sa.Column(
            "address_rate_per_hour",
            MONEY,
            nullable=True,
            comment="USD, the part for the public address; NULL: as above",
        ),
    )


def downgrade() -> None:
    op.drop_column("lease", "address_rate_per_hour")
    op.drop_column("lease", "disk_rate_per_hour")
    op.alter_column(
        "lease",
        "rate_per_hour",
        existing_type=MONEY,
        comment="USD; NULL while nothing is billed",
        existing_comment="USD for all parts; NULL while nothing is billed",
        existing_nullable=True,
    )
    op.drop_table("part_price")
