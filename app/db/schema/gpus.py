"""What agents report of GPUs: samples, sums of them, and GPUs that were found broken."""

from sqlalchemy import ARRAY, Boolean, Column, Index, Integer, SmallInteger, Table, Text

from app.db.core.sql import Id, Json, Time
from app.db.schema.metadata import metadata
from app.domain.gpus.samples import LEASE_SERIES

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
    Column("gpu_percents", ARRAY(SmallInteger), comment="utilization of each GPU"),
    Column("sample", Json, comment="the newest one"),
    Column("xids", Json, comment="since the VM booted"),
    Column("metric_labels", Json, comment="the UUIDs of its GPUs and the name that its series have"),
    Column("refused", Integer, nullable=False, server_default="0", comment="samples that were not stored as they came"),
    Column("not_summed", Json, comment="hours whose samples the job could not sum up: {hours, since, error}"),
    postgresql_with={"fillfactor": "70"},
    comment="One row per lease, for its newest attempt. Written once a minute; never locked with the lease",
)

gpu_sample = Table(
    "gpu_sample",
    metadata,
    Column("lease_id", Id, primary_key=True),
    Column("at", Time, primary_key=True, comment="by the VM's clock"),
    Column("tenant_id", Id, nullable=False),
    Column("idle", Boolean, nullable=False, comment="all GPUs of the VM"),
    *(Column(name, SmallInteger) for name in LEASE_SERIES),
    Column("uuids", ARRAY(Text), nullable=False, comment="its GPUs"),
    Column("gpu_values", ARRAY(SmallInteger), nullable=False, comment="[series][GPU]"),
    postgresql_partition_by="RANGE (at)",
    comment="At most a row per lease and half a sample period. A partition per day, in the schema gpu_partitions",
)

gpu_series = Table(
    "gpu_series",
    metadata,
    Column("lease_id", Id, primary_key=True),
    Column("starts_at", Time, primary_key=True, comment="a full hour, UTC"),
    Column("tenant_id", Id, nullable=False),
    *(Column(name, ARRAY(SmallInteger), nullable=False) for name in LEASE_SERIES),
    Column("uuids", ARRAY(Text), nullable=False, comment="its GPUs"),
    Column("gpu_values", ARRAY(SmallInteger), nullable=False, comment="[series of the first GPU, of the next …][step]"),
    postgresql_partition_by="RANGE (starts_at)",
    comment="Means of twelve steps of five minutes each. A partition per day, as long as samples are kept",
)

gpu_rollup = Table(
    "gpu_rollup",
    metadata,
    Column("lease_id", Id, primary_key=True),
    Column("starts_at", Time, primary_key=True, comment="a full hour, UTC"),
    Column("tenant_id", Id, nullable=False),
    Column("samples", SmallInteger, nullable=False),
    Column("idle_samples", SmallInteger, nullable=False),
    *(Column(name, SmallInteger) for name in LEASE_SERIES),
    Column("uuids", ARRAY(Text), nullable=False, comment="its GPUs"),
    Column("gpu_values", ARRAY(SmallInteger), nullable=False, comment="[GPU][series]"),
    Index("ix_gpu_rollup_starts_at", "starts_at", postgresql_using="brin"),
    comment="Means of an hour",
)

bad_gpu = Table(
    "bad_gpu",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("uuid", Text, primary_key=True),
    Column("tenant_id", Id, primary_key=True, comment="whose VM reported it"),
    Column("account", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("finding", Text, nullable=False, comment="code of the newest one"),
    Column("first_seen_at", Time, nullable=False),
    Column("last_seen_at", Time, nullable=False),
    Column("times", Integer, nullable=False, server_default="1"),
    comment="GPUs with fatal findings: the word of one tenant each. A VM of this tenant that gets one of them again does not become active, and after the words of two tenants no VM",
)
