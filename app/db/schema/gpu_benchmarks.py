"""What agents measured of GPUs."""

from sqlalchemy import Boolean, Column, Double, Index, Integer, Table, Text, text

from app.db.core.sql import Id, Json, Time
from app.db.schema.metadata import metadata

gpu_benchmark = Table(
    "gpu_benchmark",
    metadata,
    Column("attempt_id", Id, primary_key=True),
    Column("uuid", Text, primary_key=True, comment="of the GPU"),
    Column("lease_id", Id, nullable=False),
    Column("tenant_id", Id, nullable=False),
    Column("n", Integer, nullable=False, comment="of the attempt"),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("gpu_model", Text),
    Column("agent", Text, nullable=False, comment="its version"),
    Column("driver_version", Text),
    Column("libraries", Json, nullable=False, comment="versions by name"),
    Column(
        "counted",
        Boolean,
        nullable=False,
        comment="offerings count it: the image was the account's default one, which no tenant made",
    ),
    Column("bf16_tflops", Double),
    Column("fp16_tflops", Double),
    Column("fp32_tflops", Double),
    Column("memory_gbps", Double),
    Column("host_to_device_gbps", Double),
    Column("device_to_host_gbps", Double),
    Column("allreduce_gbps", Double, comment="of all GPUs of the VM together"),
    Column("seconds", Double, comment="how long it took"),
    Column("measured_at", Time, nullable=False, server_default=text("now()")),
    Index(
        "ix_gpu_benchmark_newest",
        "provider",
        "instance_type",
        "measured_at",
        postgresql_where=text("counted AND bf16_tflops IS NOT NULL"),
    ),
    Index("ix_gpu_benchmark_measured_at", "measured_at"),
    comment="One row per GPU and attempt. It stays when its lease is deleted",
)
