"""Leases, their attempts and their events."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from app.db.metadata import metadata
from app.db.types import Id, Json, Money, Time
from app.domain.leases import LIVE_ATTEMPT, TERMINAL, AttemptState, Desired, LeaseState, VmState

_NOW = text("now()")


def _one_of(column: str, values: type) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"  # type: ignore[attr-defined]


_TERMINAL = "state IN ({})".format(", ".join(repr(str(s)) for s in sorted(TERMINAL)))
_LIVE = "state IN ({})".format(", ".join(repr(str(s)) for s in sorted(LIVE_ATTEMPT)))

lease = Table(
    "lease",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("labels", Json, nullable=False, server_default=text("'{}'")),
    Column("request", Json, nullable=False, comment="as asked for, defaults filled in, without the startup script"),
    Column("on_interruption", Text, nullable=False, server_default="end"),
    Column("minimum_claim", Json, nullable=False, comment="quota held while no offering is chosen"),
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
    Column("ssh_host_keys", Json, comment="as the VM of the newest attempt told them, once"),
    Column("health", Text),
    Column("attempts_count", Integer, nullable=False, server_default="0"),
    Column("events_count", Integer, nullable=False, server_default="0"),
    Column("version", Integer, nullable=False, server_default="1"),
    # money: cost of closed attempts, and the running one's rate since
    Column("cost_closed", Money, nullable=False, server_default="0"),
    Column("rate_per_hour", Money, comment="USD; NULL while nothing is billed"),
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
    Column("reboot_requested_at", Time, comment="a reboot that is asked for and not sent yet"),
    Column("provider_gone_at", Time),
    Column("ended_at", Time),
    Column("updated_at", Time, nullable=False, server_default=_NOW),
    Column("deadline_applied", Time, comment="the deadline last written to the provider's tags"),
    Column("request_id", Text, comment="of the last request that changed it"),
    Column("expiry_told_for", Time, comment="the expires_at of which its owner was warned"),
    # scheduling
    Column("next_due", Time, server_default=_NOW, comment="NULL: nothing to do before somebody wakes it"),
    Column("wake_count", BigInteger, nullable=False, server_default="0"),
    Column("claim_id", UUID(as_uuid=True)),
    Column("held_until", Time),
    Column("slot_bucket", Text, comment="the rate bucket in which a launch slot is reserved"),
    Column("slot_at", Time),
    CheckConstraint(_one_of("state", LeaseState), name="state"),
    CheckConstraint(_one_of("desired", Desired), name="desired"),
    CheckConstraint("on_interruption IN ('end', 'replace')", name="on_interruption"),
    CheckConstraint(
        f"({_TERMINAL}) = (ended_at IS NOT NULL) AND (NOT {_TERMINAL} OR (desired = 'end' AND next_due IS NULL))",
        name="terminal",
    ),
    CheckConstraint(f"NOT {_TERMINAL} OR (rate_per_hour IS NULL AND rate_since IS NULL)", name="terminal_unbilled"),
    CheckConstraint("(rate_per_hour IS NULL) = (rate_since IS NULL)", name="rate"),
    CheckConstraint("state <> 'active' OR (ready_at IS NOT NULL AND desired = 'run')", name="active"),
    CheckConstraint("state <> 'releasing' OR desired = 'end'", name="releasing"),
    Index("ix_lease_due", "next_due", postgresql_where=text("next_due IS NOT NULL")),
    Index("ix_lease_created_at", "created_at", "id"),
    Index("ix_lease_live", "created_at", "id", postgresql_where=text(f"NOT {_TERMINAL}")),
    Index("ix_lease_tenant_id_created_at", "tenant_id", "created_at", "id"),
    Index("ix_lease_tenant_id_live", "tenant_id", "created_at", "id", postgresql_where=text(f"NOT {_TERMINAL}")),
    Index("ix_lease_tenant_id_updated_at", "tenant_id", "updated_at", "id"),
    Index("ix_lease_labels", "labels", postgresql_using="gin", postgresql_ops={"labels": "jsonb_path_ops"}),
    Index("ix_lease_expires_at_live", "expires_at", postgresql_where=text(f"NOT {_TERMINAL}")),
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

attempt = Table(
    "attempt",
    metadata,
    Column("id", Id, primary_key=True),
    Column("lease_id", Id, ForeignKey("lease.id"), nullable=False),
    Column("tenant_id", Id, nullable=False),
    Column("n", Integer, nullable=False),
    Column("provider", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("market", Text, nullable=False),
    Column("offering", Json, nullable=False, comment="gpu, vcpus, memory, image as chosen"),
    Column("price_per_hour", Money, nullable=False),
    Column("token", Text, nullable=False, unique=True),
    Column("params", Json, comment="exactly what is sent; NULL once the lease is terminal"),
    Column("params_hash", Text, nullable=False),
    Column("host_key_hash", LargeBinary, comment="SHA-256 of the token that the VM tells its keys with"),
    Column("state", Text, nullable=False, server_default="planned"),
    Column("clean", Boolean, nullable=False, server_default=text("false"), comment="nothing is left that costs money"),
    Column("error", Json, comment="{class, code, message} of the last failure"),
    # what the provider told
    Column("instance_id", Text),
    Column("operation", Text),
    Column("vm_state", Text),
    Column("vm_state_at", Time),
    Column("vm_reason", Json, comment="{code, message, interrupted} in the provider's words"),
    Column("ready", Boolean, nullable=False, server_default=text("false")),
    Column("public_ip", Text),
    Column("private_ip", Text),
    # sending and looking
    Column("first_sent_at", Time),
    Column("last_sent_at", Time),
    Column("unknown_since", Time),
    Column("unreachable_since", Time, comment="no connection for a send since then"),
    Column("settling_since", Time),
    Column("empty_listings", Integer, nullable=False, server_default="0"),
    Column("last_empty_listing_at", Time),
    Column("retry_at", Time, comment="do not call the provider for this attempt before"),
    Column("known_at", Time),
    Column("terminate_sent_at", Time),
    Column("terminate_tries", Integer, nullable=False, server_default="0"),
    Column(
        "end_accepted", Boolean, nullable=False, server_default=text("false"), comment="of a VM that the provider knew"
    ),
    Column("console_asked_at", Time, comment="its console output is asked for once"),
    # money
    Column("billing_started_at", Time),
    Column("billing_ended_at", Time),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    Column("ended_at", Time),
    UniqueConstraint("lease_id", "n"),
    CheckConstraint(_one_of("state", AttemptState), name="state"),
    CheckConstraint(f"vm_state IS NULL OR {_one_of('vm_state', VmState)}", name="vm_state"),
    CheckConstraint("state <> 'known' OR instance_id IS NOT NULL", name="known"),
    CheckConstraint(f"({_LIVE}) = (ended_at IS NULL)", name="ended"),
    CheckConstraint(f"{_LIVE} OR billing_started_at IS NULL OR billing_ended_at IS NOT NULL", name="billing"),
    Index("ix_attempt_live_lease", "lease_id", unique=True, postgresql_where=text(_LIVE)),
    Index("ix_attempt_live_place", "account", "region", "state", postgresql_where=text(_LIVE)),
    Index("ix_attempt_unclean", "lease_id", postgresql_where=text("NOT clean")),
    Index("ix_attempt_instance", "account", "region", "instance_id"),
    Index("ix_attempt_host_key_hash", "host_key_hash", unique=True, postgresql_where=text("host_key_hash IS NOT NULL")),
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
