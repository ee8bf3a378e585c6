"""Leases, their secrets and console output, and their events."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from app.db.core.sql import Id, Json, Money, Time
from app.db.schema.metadata import metadata, one_of
from app.domain.leases import TERMINAL, Desired, LeaseState

_NOW = text("now()")


_TERMINAL = "state IN ({})".format(", ".join(repr(str(s)) for s in sorted(TERMINAL)))

lease = Table(
    "lease",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("labels", Json, nullable=False, server_default=text("'{}'")),
    Column("request", Json, nullable=False, comment="as received, defaults filled in, without the startup script"),
    Column("on_interruption", Text, nullable=False, server_default="end"),
    Column("minimum_claim", Json, nullable=False, comment="quota held while no offering is chosen"),
    Column(
        "estimated_price_per_hour",
        Money,
        comment="USD, all parts: of the newest attempt, or of the first candidate at creation",
    ),
    Column(
        "minimum_rate",
        Money,
        comment="USD an hour: the least that any candidate costs, all parts; NULL: rebuilt from the tags of its VM",
    ),
    Column("max_rate", Money, comment="USD an hour, all parts: the rate of its quote; NULL: no quote"),
    Column("key_id", Id, comment="the API key that created it; NULL: unknown"),
    Column("max_cost", Money, comment="USD: the lease ends before it costs more; NULL: no cap"),
    Column(
        "cost_reached_at",
        Time,
        comment="when the cost reaches max_cost at the present rate; NULL: no cap, or not billed",
    ),
    Column("cap_told", Boolean, nullable=False, server_default=text("false"), comment="that 80 % of max_cost is spent"),
    Column("quote_id", Id, comment="the quote that it was created from"),
    Column("volume_place", Json, comment="{account, region, zone, kinds} of its volumes; NULL: it has none"),
    Column(
        "expiry_warnings", Json, comment="seconds before the end at which its owner is warned; NULL: the installation's"
    ),
    Column(
        "unique_name",
        Boolean,
        comment="true: no other live lease of the tenant with true has this name; NULL: not checked",
    ),
    # where and why
    Column("state", Text, nullable=False, server_default="queued"),
    Column("desired", Text, nullable=False, server_default="run"),
    Column("reason", Json),
    # current placement, copied from the attempt for reading
    Column("placement", Json),
    Column("provider", Text),
    Column("account", Text),
    Column("region", Text),
    Column("gpu_model", Text),
    Column("gpu_count", Integer),
    Column("connection", Json),
    Column("interruption", Json),
    Column("ssh_host_keys", Json, comment="as the VM of the newest attempt reported them, once"),
    Column("health", Text, comment="unused; see gpu_health"),
    Column("proof", Json, comment="of the newest attempt: its number n, its boot_id and what the API shows"),
    Column("gpu_health", Json, comment="of the newest attempt: its number n and what the API shows"),
    Column("keep_until", Time, comment="idleness does not count before"),
    Column("idle_told", Integer, nullable=False, server_default="0", comment="warnings that it ends for idleness"),
    Column("idle_told_for", Time, comment="when it counts as idle, as idle_told says"),
    Column("idle_evidence", Json, comment="the samples for which idleness was found"),
    Column("attempts_count", Integer, nullable=False, server_default="0"),
    Column("events_count", Integer, nullable=False, server_default="0"),
    Column("version", Integer, nullable=False, server_default="1"),
    # money: cost of closed attempts, and the running one's rate since
    Column("cost_closed", Money, nullable=False, server_default="0"),
    Column("rate_per_hour", Money, comment="USD for all parts; NULL while nothing is billed"),
    Column("disk_rate_per_hour", Money, comment="USD, the part for disks; NULL: not metered, or nothing is billed"),
    Column("address_rate_per_hour", Money, comment="USD, the part for the public address; NULL: as above"),
    Column("rate_since", Time),
    # times
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("first_attempt_at", Time),
    Column("launched_at", Time),
    Column("running_at", Time),
    Column("ready_at", Time),
    Column("billing_started_at", Time),
    Column("billing_ended_at", Time),
    Column("expires_at", Time, nullable=False),
    Column("wait_until", Time, nullable=False),
    Column("pass_started_at", Time, comment="start of the present pass over the candidates"),
    Column("release_requested_at", Time),
    Column("reboot_requested_at", Time, comment="a reboot that is requested and not sent yet"),
    Column("provider_gone_at", Time),
    Column("ended_at", Time),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    Column("deadline_applied", Time, comment="the deadline last written to the provider's tags"),
    Column(
        "term_in_doubt",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="a hold was set, and the deadline tag of its VM was not read since",
    ),
    Column("request_id", Text, comment="of the last request that changed it"),
    Column("group_id", Id, comment="the group that it is a member of"),
    Column("rank", Integer, comment="0 to size - 1 within its group"),
    Column("group_pool", Json, comment="the only pool that it may be placed in; NULL in a group: it waits for one"),
    Column(
        "group_retreat",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="its VM is ended, since its group did not form in this pool",
    ),
    Column("group_check", Json, comment="what the VM of a group's member found when it last checked its group"),
    Column("expiry_told_for", Time, comment="the expires_at of which its owner was warned"),
    Column("expiry_told_seconds", Integer, comment="the latest of the warnings before that time"),
    # scheduling
    Column("next_due", Time, server_default=_NOW, comment="NULL: nothing to do before somebody wakes it"),
    Column("wake_count", BigInteger, nullable=False, server_default="0"),
    Column("claim_id", UUID(as_uuid=True)),
    Column("held_until", Time),
    Column("slot_bucket", Text, comment="the rate bucket in which a launch slot is reserved"),
    Column("slot_at", Time),
    CheckConstraint(one_of("state", LeaseState), name="state"),
    CheckConstraint(one_of("desired", Desired), name="desired"),
    CheckConstraint("on_interruption IN ('end', 'replace')", name="on_interruption"),
    CheckConstraint(
        f"({_TERMINAL}) = (ended_at IS NOT NULL) AND (NOT {_TERMINAL} OR (desired = 'end' AND next_due IS NULL))",
        name="terminal",
    ),
    CheckConstraint(f"NOT {_TERMINAL} OR (rate_per_hour IS NULL AND rate_since IS NULL)", name="terminal_unbilled"),
    CheckConstraint("(rate_per_hour IS NULL) = (rate_since IS NULL)", name="rate"),
    CheckConstraint("state <> 'active' OR (ready_at IS NOT NULL AND desired = 'run')", name="active"),
    CheckConstraint("state <> 'releasing' OR desired = 'end'", name="releasing"),
    CheckConstraint("(group_id IS NULL) = (rank IS NULL)", name="rank"),
    Index("ix_lease_group_id_rank", "group_id", "rank", postgresql_where=text("group_id IS NOT NULL")),
    Index("ix_lease_due", "next_due", postgresql_where=text("next_due IS NOT NULL")),
    Index("ix_lease_created_at", "created_at", "id"),
    Index("ix_lease_live", "created_at", "id", postgresql_where=text(f"NOT {_TERMINAL}")),
    Index("ix_lease_tenant_id_created_at", "tenant_id", "created_at", "id"),
    Index("ix_lease_tenant_id_live", "tenant_id", "created_at", "id", postgresql_where=text(f"NOT {_TERMINAL}")),
    Index("ix_lease_tenant_id_updated_at", "tenant_id", "updated_at", "id"),
    Index(
        "ix_lease_live_name",
        "tenant_id",
        "name",
        "unique_name",
        unique=True,
        postgresql_where=text(f"NOT {_TERMINAL}"),
    ),
    Index("ix_lease_labels", "labels", postgresql_using="gin", postgresql_ops={"labels": "jsonb_path_ops"}),
    Index("ix_lease_expires_at_live", "expires_at", postgresql_where=text(f"NOT {_TERMINAL}")),
    Index("ix_lease_ready_at", "ready_at", postgresql_where=text("ready_at IS NOT NULL")),
    Index("ix_lease_ended_at", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    Index("ix_lease_place_live", "account", "region", postgresql_where=text(f"NOT {_TERMINAL}")),
)

lease_secret = Table(
    "lease_secret",
    metadata,
    Column("lease_id", Id, ForeignKey("lease.id"), primary_key=True),
    Column("tenant_id", Id, nullable=False),
    Column("startup_script", Text, nullable=False),
    comment="Never shown to viewers; deleted when the lease is terminal",
)

lease_console = Table(
    "lease_console",
    metadata,
    Column("lease_id", Id, ForeignKey("lease.id"), primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False, comment="which attempt's VM"),
    Column("tenant_id", Id, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Time, nullable=False, server_default=_NOW),
    Index("ix_lease_console_at", "at"),
    comment="Last lines of VMs that did not boot; never shown to viewers, kept 7 days",
)

event = Table(
    "event",
    metadata,
    Column("row_id", BigInteger, Identity(always=True), primary_key=True),
    Column("id", Id, nullable=False, unique=True),
    Column("tenant_id", Id, nullable=False),
    Column("lease_id", Id),
    Column("lease_sequence", Integer, comment="1, 2, 3, ... without a gap within a lease"),
    Column("sequence", BigInteger, comment="NULL until the sequencer has numbered it"),
    Column("type", Text, nullable=False),
    Column("data", Json, nullable=False),
    Column("request_id", Text),
    Column("at", Time, nullable=False, server_default=_NOW),
    UniqueConstraint("lease_id", "lease_sequence"),
    Index("ix_event_sequence", "sequence", unique=True, postgresql_where=text("sequence IS NOT NULL")),
    Index("ix_event_unnumbered", "row_id", postgresql_where=text("sequence IS NULL")),
    Index("ix_event_tenant_id_sequence", "tenant_id", "sequence"),
    Index("ix_event_lease_id_sequence", "lease_id", "sequence"),
    Index("ix_event_at", "at"),
)

LIVE = lease.c.state.not_in([literal_column(f"'{state}'") for state in sorted(TERMINAL)])
"""Of a lease that has not ended. Its states are literals, so that the partial indexes on live leases apply."""
