"""Facts of instance types: driver and parts of GPUs, NVLink generation, local disk, network; and what cannot be bought.

Lease requests of earlier versions get the new members, because the API returns the stored form. Members of `gpu` are
only stored if they were requested: the previous version does not read a `gpu` with other members.

Revision: 0018
Follows: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

WORKER = "gpulease_worker"
ADD_MEMBERS = """
    UPDATE lease SET request = '{"min_vcpus": null, "min_memory_gib": null, "min_local_disk_gib": null}'::jsonb || request
"""
REMOVE_MEMBERS = """
    UPDATE lease SET request = (request - '{min_vcpus,min_memory_gib,min_local_disk_gib}'::text[])
    || CASE WHEN jsonb_typeof(request -> 'gpu') = 'object'
       THEN jsonb_build_object('gpu', (request -> 'gpu') - '{interconnect,vendor}'::text[])
       ELSE '{}'::jsonb END
"""


def upgrade() -> None:
    for column in _columns():
        op.add_column("offering", column)
    op.execute("UPDATE offering SET gpu_driver = 'amd_rocm' WHERE gpu_model LIKE 'MI%'")
    _as_worker(ADD_MEMBERS)


def downgrade() -> None:
    _as_worker(REMOVE_MEMBERS)
    for column in _columns():
        op.drop_column("offering", column.name)


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("gpu_nvlink", sa.Integer(), nullable=True, comment="NVLink generation"),
        sa.Column(
            "gpu_driver",
            sa.Text(),
            server_default="nvidia",
            nullable=False,
            comment="the driver that an image needs",
        ),
        sa.Column(
            "gpu_parts",
            sa.Integer(),
            server_default="1",
            nullable=False,
            comment="parts that each GPU is divided into",
        ),
        sa.Column("local_disk_gib", sa.Integer(), server_default="0", nullable=False),
        sa.Column("network_gbps", sa.Numeric(precision=10, scale=2), nullable=True, comment="NULL: unknown"),
        sa.Column("network_fabric", sa.Text(), nullable=True),
        sa.Column("obstacle", sa.Text(), nullable=True, comment="why the account cannot buy it; NULL: it can"),
    ]


def _as_worker(statement: str) -> None:
    """The owner of the tables sees no rows of tenants."""
    op.execute(f"SET LOCAL ROLE {WORKER}")
    op.execute(statement)
    op.execute("RESET ROLE")
