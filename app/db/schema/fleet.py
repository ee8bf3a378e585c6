"""The installation, its cloud accounts, the catalogue, what observation found, and the workers' own rows."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from app.db.core.sql import Id, Json, Money, Time
from app.db.schema.metadata import metadata

_NOW = text("now()")
_FALSE = text("false")

installation = Table(
    "installation",
    metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("id", Text, nullable=False, comment="stands in every tag at the clouds"),
    Column("token_key", LargeBinary, nullable=False, comment="key of the launch tokens; only workers may read it"),
    Column("system_identifier", Text, comment="of the Postgres cluster, to notice a restore"),
    Column("timeline", Integer),
    Column("database_identity", Text, comment="of the database and its table, to notice a restored dump"),
    Column("hold", Json, comment="{reason, since}: no launch, expiry, kill or close until an operator resumes"),
    Column("launches_stopped", Json, comment="{by, since, note}: the operators' emergency stop"),
    Column("event_sequence", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column(
        "operators_told_until",
        BigInteger,
        comment="number of the last event that messages to operators were made of; NULL: none yet",
    ),
    CheckConstraint("one", name="one"),
)

account = Table(
    "account",
    metadata,
    Column("name", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("config", Json, nullable=False, comment="settings of gpulease.toml, no secret"),
    Column("vm_parts", Json, comment="what each VM gets besides compute, from the settings: PartsFacts.settings_json"),
    Column("identity", Text, comment="pinned at first use"),
    Column("state", Text, nullable=False, server_default="unchecked"),
    Column("cordoned", Json, comment="{by, since, note}"),
    Column("last_error", Json, comment="{class, code, message, at}"),
    Column("checked_at", Time),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    CheckConstraint("state IN ('unchecked', 'ok', 'failing', 'disabled', 'draining')", name="state"),
)

account_check = Table(
    "account_check",
    metadata,
    Column("account", Text, ForeignKey("account.name"), primary_key=True),
    Column("checked_at", Time, comment="end of the last run; NULL: none yet"),
    Column("requested_at", Time, comment="an operator wants another run"),
    Column("failed", Integer, comment="failed checks of the last run"),
    Column("checks", Json, comment="[{subject, name, result, detail, fix, region}]"),
)

account_region = Table(
    "account_region",
    metadata,
    Column("account", Text, ForeignKey("account.name"), primary_key=True),
    Column("region", Text, primary_key=True),
    Column("last_listing_started_at", Time, comment="start of the last listing that did not break off"),
    Column("last_complete_listing_at", Time, comment="start of the last one that was believed and covered every VM"),
    Column("listed", Integer, comment="VMs in it"),
    Column("last_watched_at", Time, comment="start of the last look at the VMs in change that showed one"),
    Column("listing_calls", Integer),
    Column("listing_seconds", Numeric(10, 3)),
    Column("cycles", Integer, nullable=False, server_default="0"),
    Column("rowless_cycles", Integer, nullable=False, server_default="0"),
    Column("last_error", Json),
    Column("service_quotas", Json),
    Column("image_gib", Json, comment="{image_key: GiB}: the least boot disk of the images that were looked up"),
    Column("blocked_until", Time, comment="no launch before, since the provider refuses every one"),
    Column("blocked_since", Time, comment="of the first such refusal in a row"),
    Column("blocked_by", Json, comment="{class, code, message} of the newest such refusal"),
    Column(
        "vanishing",
        Json,
        nullable=False,
        server_default=text("'{}'"),
        comment="{tenant_id: cycles in a row with a mass loss of its VMs}",
    ),
    Column(
        "cordons",
        Json,
        nullable=False,
        server_default=text("'[]'"),
        comment="of offerings: [{zone, instance_type, market, by, since, note}]; null: each zone, type or market",
    ),
)

offering = Table(
    "offering",
    metadata,
    Column("account", Text, ForeignKey("account.name"), primary_key=True),
    Column("region", Text, primary_key=True),
    Column("zone", Text, primary_key=True),
    Column("instance_type", Text, primary_key=True),
    Column("market", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("gpu_model", Text, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("gpu_memory_gib", Integer, nullable=False),
    Column("gpu_interconnect", Text, nullable=False),
    Column("gpu_nvlink", Integer, comment="NVLink generation"),
    Column("gpu_driver", Text, nullable=False, server_default="nvidia", comment="the driver that an image needs"),
    Column("gpu_parts", Integer, nullable=False, server_default="1", comment="parts that each GPU is divided into"),
    Column("vcpus", Integer, nullable=False),
    Column("memory_gib", Numeric(10, 2), nullable=False),
    Column("local_disk_gib", Integer, nullable=False, server_default="0"),
    Column("network_gbps", Numeric(10, 2), comment="NULL: unknown"),
    Column("network_fabric", Text),
    Column("obstacle", Text, comment="why the account cannot buy it; NULL: it can"),
    Column("price_per_hour", Money),
    Column("price_as_of", Time),
    Column("price_source", Text),
    Column(
        "price_live",
        Boolean,
        nullable=False,
        server_default=_FALSE,
        comment="the provider returned it; else from the adapter's own list",
    ),
    Column("cool_until", Time),
    Column("cool_reason", Text),
    Column("cool_code", Text),
    Column("cool_count", Integer, nullable=False, server_default="0"),
    Column("refused_at", Time, comment="when it last refused; NULL: never"),
    Column("suspicion", Json, comment="{tenant_id, reason, code, until}: what VMs of one tenant alone show"),
    Column("launches", Integer, nullable=False, server_default="0"),
    Column("refusals", Integer, nullable=False, server_default="0"),
    Column("ready_seconds", Numeric(10, 3), comment="moving average of launch to ready"),
    Column("refreshed_at", Time, nullable=False, server_default=_NOW),
    CheckConstraint("market IN ('on_demand', 'spot')", name="market"),
)

part_price = Table(
    "part_price",
    metadata,
    Column("account", Text, ForeignKey("account.name"), primary_key=True),
    Column("region", Text, primary_key=True),
    Column("part", Text, primary_key=True, comment="disk: USD a GiB and month; address: USD an hour"),
    Column("instance_type", Text, primary_key=True, comment="*: every type without a row of its own"),
    Column("price", Money, nullable=False),
    Column("price_as_of", Time, nullable=False),
    Column("price_source", Text, nullable=False),
    Column("price_live", Boolean, nullable=False, comment="the provider returned it; else from a list"),
    CheckConstraint("part IN ('disk', 'address')", name="part"),
    CheckConstraint("price >= 0", name="price"),
    comment="Prices of what a VM has besides compute: its network disk and its public address",
)

orphan = Table(
    "orphan",
    metadata,
    Column("id", Id, nullable=False, server_default=text("new_typeid('orphan')"), comment="the API's name of the row"),
    Column("account", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("instance_id", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("market", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("lease_id", Id),
    Column("attempt_n", Integer),
    Column("tags", Json, nullable=False),
    Column("state", Text, nullable=False, server_default="seen"),
    Column("price_per_hour", Money),
    Column("launched_at", Time),
    Column("deadline_at", Time),
    Column("first_seen_at", Time, nullable=False, server_default=_NOW),
    Column("last_seen_at", Time, nullable=False, server_default=_NOW),
    Column("sightings", Integer, nullable=False, server_default="1"),
    Column("end_after", Time, comment="NULL: ended only by an operator"),
    Column("end_requested_at", Time),
    Column(
        "end_error", Json, comment="{class, code, message}: why the provider did not accept the last request to end it"
    ),
    Column("gone_at", Time),
    Column("adopt_requested_at", Time, comment="an operator wants its lease rebuilt from its tags"),
    Column("adopt_error", Text, comment="why that could not be done"),
    CheckConstraint("cause IN ('ended_lease', 'other_attempt', 'lost_row', 'copied_tags', 'leftover')", name="cause"),
    CheckConstraint("state IN ('seen', 'ending', 'gone', 'adopted')", name="state"),
    UniqueConstraint("id"),
    Index("ix_orphan_open", "account", "region", postgresql_where=text("state IN ('seen', 'ending')")),
)

provider_bucket = Table(
    "provider_bucket",
    metadata,
    Column("name", Text, primary_key=True, comment="account/region/operation"),
    Column(
        "next_free", Time, nullable=False, comment="when the bucket is full again (GCRA's theoretical arrival time)"
    ),
    Column("slow_factor", Numeric(6, 2), nullable=False, server_default="1"),
    Column("throttled_at", Time),
)

periodic_job = Table(
    "periodic_job",
    metadata,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("account", Text),
    Column("region", Text),
    Column("next_due", Time, nullable=False, server_default=_NOW),
    Column("claim_id", UUID(as_uuid=True)),
    Column("held_until", Time),
    Column("runs", Integer, nullable=False, server_default="0"),
    Column("last_started_at", Time),
    Column("last_ok_at", Time),
    Column("last_error", Text),
    Column("interval_seconds", Double, nullable=False, comment="from the start of a run to the next one"),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Index("ix_periodic_job_kind_next_due", "kind", "next_due"),
)

invariant = Table(
    "invariant",
    metadata,
    Column("name", Text, primary_key=True),
    Column("violations", Integer, nullable=False, comment="that the last check found"),
    Column("examples", Json, nullable=False, comment="rows of a few of them"),
    Column("since", Time, comment="NULL: it holds"),
    Column("checked_at", Time, nullable=False, server_default=_NOW),
)

worker_heartbeat = Table(
    "worker_heartbeat",
    metadata,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("host", Text),  # NULL: the dead-man switch
    Column("started_at", Time, nullable=False, server_default=_NOW),
    Column("seen_at", Time, nullable=False, server_default=_NOW),
)
