"""Reservations: the offerings of the market `reserved`, each bought ahead by the operator."""

from sqlalchemy import Column, ForeignKey, Integer, Numeric, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY

from app.db.core.sql import Json, Money, Time
from app.db.schema.metadata import metadata

reservation = Table(
    "reservation",
    metadata,
    Column("account", Text, ForeignKey("account.name"), primary_key=True),
    Column("name", Text, primary_key=True, comment="in the account's settings"),
    Column("kind", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("gpu_model", Text, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("gpu_memory_gib", Integer, nullable=False),
    Column("gpu_interconnect", Text, nullable=False),
    Column("gpu_nvlink", Integer, comment="NVLink generation"),
    Column("gpu_driver", Text, nullable=False, comment="the driver that an image needs"),
    Column("gpu_parts", Integer, nullable=False, comment="parts that each GPU is divided into"),
    Column("vcpus", Integer, nullable=False),
    Column("memory_gib", Numeric(10, 2), nullable=False),
    Column("local_disk_gib", Integer, nullable=False),
    Column("network_gbps", Numeric(10, 2), comment="NULL: unknown"),
    Column("network_fabric", Text),
    Column("price_per_hour", Money, nullable=False, comment="USD that a lease is billed"),
    Column("tenants", ARRAY(Text), nullable=False, comment="ids of those that may use it; empty: all"),
    Column("slots", Integer, comment="VMs at a time; NULL: no fixed number"),
    Column("free", Integer, comment="as the provider reported it at observed_at; NULL: no fixed number"),
    Column("starts_at", Time),
    Column("ends_at", Time, comment="when the provider begins to end VMs"),
    Column("shortest_wait", Integer, comment="seconds in the provider's queue; NULL: no queue"),
    Column("longest_run", Integer, comment="seconds of one VM"),
    Column("problem", Text, comment="why the provider accepts no VM"),
    Column("observed_at", Time, nullable=False, comment="before the provider was asked"),
    Column("cool_until", Time),
    Column("cool_reason", Text),
    Column("cool_code", Text),
    Column("cool_count", Integer, nullable=False, server_default="0"),
    Column("refused_at", Time, comment="when it last refused; NULL: never"),
    Column("suspicion", Json, comment="{tenant_id, reason, code, until}: what VMs of one tenant alone show"),
    Column("launches", Integer, nullable=False, server_default="0"),
    Column("refusals", Integer, nullable=False, server_default="0"),
    Column("ready_seconds", Numeric(10, 3), comment="moving average of launch to ready"),
    comment="Its policy shows a tenant the reservations that it may use",
)
