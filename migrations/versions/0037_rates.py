"""What the API needs for the rate of a VM: its disks and its address, the size of its image, and the rate of a quote.

Revision: 0037
Follows: 0034
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0037"
down_revision = "0034"
branch_labels = None
depends_on = None

JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
MONEY = sa.Numeric(precision=14, scale=6)
NEW = (
    ("account", "vm_parts", JSON, "what each VM gets besides compute, from the settings: PartsFacts.settings_json"),
    ("account_region", "image_gib", JSON, "{image_key: GiB}: the least boot disk of the images that were looked up"),
    ("lease", "max_rate", MONEY, "USD an hour, all parts: the rate of its quote; NULL: no quote"),
)
QUOTED = "USD an hour, all parts: a lease from it is launched at no more"
CHANGED = (
    (
        "lease",
        "estimated_price_per_hour",
        "USD, all parts: of the newest attempt, or of the first candidate at creation",
        "USD: of the first candidate at creation; NULL: created by an earlier version",
    ),
    (
        "quote",
        "price_per_hour",
        "USD of compute at the first candidate",
        "USD: the most that a lease created from it costs an hour",
    ),
)


def upgrade() -> None:
    for table, name, kind, comment in NEW:
        op.add_column(table, sa.Column(name, kind, nullable=True, comment=comment))
    rate = sa.Column("rate_per_hour", MONEY, nullable=False, server_default=sa.text("0"), comment=QUOTED)
    op.add_column("quote", rate)
    op.alter_column("quote", "rate_per_hour", server_default=None)  # quotes last for minutes: older ones launch nothing
    for table, name, comment, before in CHANGED:
        _describe(table, name, comment, before)


def downgrade() -> None:
    for table, name, comment, before in CHANGED:
        _describe(table, name, before, comment)
    op.drop_column("quote", "rate_per_hour")
    for table, name, _, _ in NEW:
        op.drop_column(table, name)


def _describe(table: str, name: str, comment: str, before: str) -> None:
    nullable = table == "lease"
    op.alter_column(
        table, name, existing_type=MONEY, existing_nullable=nullable, comment=comment, existing_comment=before
    )
