"""What the samples of a VM may show: the GPUs and the name of its series. Hours that the job could not sum up.

Revision: 0046
Follows: 0045
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
COLUMNS = {
    "metric_labels": "the UUIDs of its GPUs and the name that its series have",
    "not_summed": "hours whose samples the job could not sum up: {hours, since, error}",
}
REFUSED = ("samples that were not stored", "samples that were not stored as they came")
SAMPLES = (
    "A row per lease and minute, as the agent sent it. A partition per day, in the schema gpu_partitions",
    "At most a row per lease and half a sample period. A partition per day, in the schema gpu_partitions",
)


def upgrade() -> None:
    for name, comment in COLUMNS.items():
        op.add_column("gpu_latest", sa.Column(name, JSON, nullable=True, comment=comment))
    _comment(1)


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("gpu_latest", name)
    _comment(0)


def _comment(place: int) -> None:
    op.execute(f"COMMENT ON COLUMN gpu_latest.refused IS '{REFUSED[place]}'")
    op.execute(f"COMMENT ON TABLE gpu_sample IS '{SAMPLES[place]}'")
