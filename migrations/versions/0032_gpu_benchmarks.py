"""Benchmarks of GPUs, which agents measure.

Revision: 0032
Follows: 0031
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
ID = sa.Text(collation="C")
QUANTITIES = (
    "bf16_tflops",
    "fp16_tflops",
    "fp32_tflops",
    "memory_gbps",
    "host_to_device_gbps",
    "device_to_host_gbps",
)
COUNTED = "offerings count it: the image was the account's default one, which no tenant made"


def upgrade() -> None:
    op.create_table(
        "gpu_benchmark",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False, comment="of the GPU"),
        sa.Column("lease_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False, comment="of the attempt"),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("provider", "account", "region", "zone")),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=False, comment="its version"),
        sa.Column("driver_version", sa.Text(), nullable=True),
        sa.Column("libraries", JSON, nullable=False, comment="versions by name"),
        sa.Column("counted", sa.Boolean(), nullable=False, comment=COUNTED),
        *(sa.Column(name, sa.Double(), nullable=True) for name in QUANTITIES),
        sa.Column("allreduce_gbps", sa.Double(), nullable=True, comment="of all GPUs of the VM together"),
        sa.Column("seconds", sa.Double(), nullable=True, comment="how long it took"),
        sa.Column("measured_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "uuid", name=op.f("pk_gpu_benchmark")),
        comment="One row per GPU and attempt. It stays when its lease is deleted",
    )
    op.create_index(
        "ix_gpu_benchmark_newest",
        "gpu_benchmark",
        ["provider", "instance_type", "measured_at"],
        unique=False,
        postgresql_where=sa.text("counted AND bf16_tflops IS NOT NULL"),
    )
    op.create_index("ix_gpu_benchmark_measured_at", "gpu_benchmark", ["measured_at"], unique=False)
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute("ALTER TABLE gpu_benchmark ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE gpu_benchmark FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON gpu_benchmark TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON gpu_benchmark TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT, INSERT ON gpu_benchmark TO {API}")
    op.execute(f"GRANT ALL ON gpu_benchmark TO {WORKER}")


def downgrade() -> None:
    op.drop_table("gpu_benchmark")
