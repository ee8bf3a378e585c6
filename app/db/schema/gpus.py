"""What agents report of GPUs: the newest sample of each lease, and GPUs that were found broken."""

from sqlalchemy import Column, Integer, SmallInteger, Table, Text

from app.db.core.column_types import Id, Json, Time
from app.db.schema.metadata import metadata

gpu_latest = Table(
    "gpu_latest",
    metadata,
    Column("lease_id", Id, primary_key=True),
    Column("tenant_id", Id, nullable=False),
    Column("attempt_id", Id, nullable=False, comment="the newest one"),
    Column("sampled_at", Time, nullable=False, comment="by the VM's clock"),
    Column("received_at", Time, nullable=False),
    Column("gpu_percent", SmallInteger, comment="utilization, mean of its GPUs"),
    Column("busiest_percent", SmallInteger, comment="utilization of the busiest GPU"),
    Column("memory_percent", SmallInteger),
    Column("gpus", Integer, comment="in the sample"),
    Column("idle_since", Time, comment="the first of the idle samples in a row; NULL: the newest is not idle"),
    Column("idle_samples", Integer, nullable=False, server_default="0", comment="idle samples in a row"),
    Column("sample", Json, comment="the newest one"),
    Column("xids", Json, comment="since the VM booted"),
    Column("refused", Integer, nullable=False, server_default="0", comment="samples that were not stored"),
    postgresql_with={"fillfactor": "70"},
    comment="One row per lease, for its newest attempt. Written once a minute; never locked with the lease",
)

bad_gpu = Table(
    "bad_gpu",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("uuid", Text, primary_key=True),
    Column("account", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("finding", Text, nullable=False, comment="code of the newest one"),
    Column("first_seen_at", Time, nullable=False),
    Column("last_seen_at", Time, nullable=False),
    Column("times", Integer, nullable=False, server_default="1"),
    comment="GPUs with fatal findings. A VM that gets one of them again does not become active",
)
