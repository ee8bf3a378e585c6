"""All tables.

Revision: 0001
Follows:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column(
            "config",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="settings of gpulease.toml, no secret",
        ),
        sa.Column("identity", sa.Text(), nullable=True, comment="pinned at first use"),
        sa.Column("state", sa.Text(), server_default="unchecked", nullable=False),
        sa.Column(
            "cordoned",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="{by, since, note}",
        ),
        sa.Column(
            "last_error",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="{class, code, message, at}",
        ),
        sa.Column("checked_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "state IN ('unchecked', 'ok', 'failing', 'disabled', 'draining')", name=op.f("ck_account_state")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_account")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=True),
        sa.Column("principal", sa.Text(collation="C"), nullable=False, comment="key id, or system"),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("before", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("after", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_tenant_id_id", "audit", ["tenant_id", "id"], unique=False)
    op.create_table(
        "event",
        sa.Column("row_id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("lease_id", sa.Text(collation="C"), nullable=True),
        sa.Column("lease_sequence", sa.Integer(), nullable=True, comment="1, 2, 3, ... without a gap within a lease"),
        sa.Column("sequence", sa.BigInteger(), nullable=True, comment="NULL until the sequencer has numbered it"),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_event")),
        sa.UniqueConstraint("id", name=op.f("uq_event_id")),
        sa.UniqueConstraint("lease_id", "lease_sequence", name=op.f("uq_event_lease_id_lease_sequence")),
    )
    op.create_index("ix_event_at", "event", ["at"], unique=False)
    op.create_index("ix_event_lease_id_sequence", "event", ["lease_id", "sequence"], unique=False)
    op.create_index(
        "ix_event_sequence", "event", ["sequence"], unique=True, postgresql_where=sa.text("sequence IS NOT NULL")
    )
    op.create_index("ix_event_tenant_id_sequence", "event", ["tenant_id", "sequence"], unique=False)
    op.create_index(
        "ix_event_unnumbered", "event", ["row_id"], unique=False, postgresql_where=sa.text("sequence IS NULL")
    )
    op.create_table(
        "idempotency",
        sa.Column("scope", sa.Text(collation="C"), nullable=False, comment="tenant id, or the key id of an operator"),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column(
            "response",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="never holds a secret",
        ),
        sa.Column("location", sa.Text(), nullable=True),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", "route", name=op.f("pk_idempotency")),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"], unique=False)
    op.create_table(
        "installation",
        sa.Column("one", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False, comment="stands in every tag at the clouds"),
        sa.Column(
            "token_key", sa.LargeBinary(), nullable=False, comment="key of the launch tokens; only workers may read it"
        ),
        sa.Column(
            "system_identifier", sa.Text(), nullable=True, comment="of the Postgres cluster, to notice a restore"
        ),
        sa.Column("timeline", sa.Integer(), nullable=True),
        sa.Column(
            "hold",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="{reason, since}: no launch, expiry, kill or close until an operator resumes",
        ),
        sa.Column(
            "launches_stopped",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="{by, since, note}: the operators' emergency stop",
        ),
        sa.Column("event_sequence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("one", name=op.f("ck_installation_one")),
        sa.PrimaryKeyConstraint("one", name=op.f("pk_installation")),
    )
    op.create_table(
        "orphan",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(collation="C"), nullable=True),
        sa.Column("attempt_n", sa.Integer(), nullable=True),
        sa.Column("tags", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("state", sa.Text(), server_default="seen", nullable=False),
        sa.Column("price_per_hour", sa.Numeric(precision=14, scale=6), nullable=True),
        sa.Column("launched_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("deadline_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "first_seen_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("last_seen_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("sightings", sa.Integer(), server_default="1", nullable=False),
        sa.Column(
            "end_after", postgresql.TIMESTAMP(timezone=True), nullable=True, comment="NULL: ended only by an operator"
        ),
        sa.Column("end_requested_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("gone_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "adopt_requested_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="an operator wants its lease rebuilt from its tags",
        ),
        sa.Column("adopt_error", sa.Text(), nullable=True, comment="why that could not be done"),
        sa.CheckConstraint(
            "cause IN ('ended_lease', 'other_attempt', 'no_row', 'leftover')", name=op.f("ck_orphan_cause")
        ),
        sa.CheckConstraint("state IN ('seen', 'ending', 'gone', 'adopted')", name=op.f("ck_orphan_state")),
        sa.PrimaryKeyConstraint("account", "region", "instance_id", name=op.f("pk_orphan")),
    )
    op.create_index(
        "ix_orphan_open",
        "orphan",
        ["account", "region"],
        unique=False,
        postgresql_where=sa.text("state IN ('seen', 'ending')"),
    )
    op.create_table(
        "periodic_job",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=True),
        sa.Column("region", sa.Text(), nullable=True),
        sa.Column("next_due", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("claim_id", sa.UUID(), nullable=True),
        sa.Column("held_until", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("runs", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_started_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_ok_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_periodic_job")),
    )
    op.create_index("ix_periodic_job_kind_next_due", "periodic_job", ["kind", "next_due"], unique=False)
    op.create_table(
        "provider_bucket",
        sa.Column("name", sa.Text(), nullable=False, comment="account/region/operation"),
        sa.Column(
            "next_free",
            postgresql.TIMESTAMP(timezone=True),
            nullable=False,
            comment="when the bucket is full again (GCRA's theoretical arrival time)",
        ),
        sa.Column("slow_factor", sa.Numeric(precision=6, scale=2), server_default="1", nullable=False),
        sa.Column("throttled_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_provider_bucket")),
    )
    op.create_table(
        "tenant",
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("max_ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("max_total_seconds", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('active', 'suspended')", name=op.f("ck_tenant_status")),
        sa.CheckConstraint(
            "max_ttl_seconds >= 60 AND max_total_seconds >= max_ttl_seconds", name=op.f("ck_tenant_terms")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenant")),
        sa.UniqueConstraint("name", name=op.f("uq_tenant_name")),
    )
    op.create_table(
        "worker_heartbeat",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("started_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("seen_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_worker_heartbeat")),
    )
    op.create_table(
        "account_region",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column(
            "last_listing_started_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="start of the last complete listing",
        ),
        sa.Column("last_complete_listing_at", postgresql.TIMESTAMP(timezone=True), nullable=True, comment="its end"),
        sa.Column("listed", sa.Integer(), nullable=True, comment="VMs in it"),
        sa.Column("listing_calls", sa.Integer(), nullable=True),
        sa.Column("listing_seconds", sa.Numeric(precision=10, scale=3), nullable=True),
        sa.Column("cycles", sa.Integer(), server_default="0", nullable=False),
        sa.Column("vanish_cycles", sa.Integer(), server_default="0", nullable=False),
        sa.Column("rowless_cycles", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_error", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("service_quotas", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_account_region_account")),
        sa.PrimaryKeyConstraint("account", "region", name=op.f("pk_account_region")),
    )
    op.create_table(
        "api_key",
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=True, comment="NULL for the role operator"),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the 256-bit random secret"),
        sa.Column("previous_secret_hash", sa.LargeBinary(), nullable=True),
        sa.Column("previous_valid_until", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_used_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("(role = 'operator') = (tenant_id IS NULL)", name=op.f("ck_api_key_scope")),
        sa.CheckConstraint("role IN ('operator', 'admin', 'member', 'viewer')", name=op.f("ck_api_key_role")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_api_key_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
    )
    op.create_index("ix_api_key_tenant_id_id", "api_key", ["tenant_id", "id"], unique=False)
    op.create_table(
        "lease",
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "labels",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "request",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="as asked for, defaults filled in, without the startup script",
        ),
        sa.Column("on_interruption", sa.Text(), server_default="end", nullable=False),
        sa.Column(
            "minimum_claim",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="quota held while no offering is chosen",
        ),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("desired", sa.Text(), server_default="run", nullable=False),
        sa.Column("reason", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("placement", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("account", sa.Text(), nullable=True),
        sa.Column("region", sa.Text(), nullable=True),
        sa.Column("gpu_model", sa.Text(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=True),
        sa.Column("connection", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("interruption", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("health", sa.Text(), nullable=True),
        sa.Column("attempts_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("events_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("cost_closed", sa.Numeric(precision=14, scale=6), server_default="0", nullable=False),
        sa.Column(
            "rate_per_hour",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD; NULL while nothing is billed",
        ),
        sa.Column("rate_since", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("first_attempt_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("launched_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("running_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("ready_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("billing_started_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("billing_ended_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("expires_at", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("wait_until", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column(
            "pass_started_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="start of the present pass over the candidates",
        ),
        sa.Column("release_requested_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("provider_gone_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("ended_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("updated_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "deadline_applied",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="the deadline last written to the provider's tags",
        ),
        sa.Column(
            "next_due",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
            comment="NULL: nothing to do before somebody wakes it",
        ),
        sa.Column("wake_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claim_id", sa.UUID(), nullable=True),
        sa.Column("held_until", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "slot_bucket", sa.Text(), nullable=True, comment="the rate bucket in which a launch slot is reserved"
        ),
        sa.Column("slot_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state IN ('failed', 'released')) = (ended_at IS NOT NULL) AND (NOT state IN ('failed', 'released') OR (desired = 'end' AND next_due IS NULL))",
            name=op.f("ck_lease_terminal"),
        ),
        sa.CheckConstraint(
            "NOT state IN ('failed', 'released') OR (rate_per_hour IS NULL AND rate_since IS NULL)",
            name=op.f("ck_lease_terminal_unbilled"),
        ),
        sa.CheckConstraint("desired IN ('run', 'end')", name=op.f("ck_lease_desired")),
        sa.CheckConstraint("on_interruption IN ('end', 'replace')", name=op.f("ck_lease_on_interruption")),
        sa.CheckConstraint(
            "state <> 'active' OR (ready_at IS NOT NULL AND desired = 'run')", name=op.f("ck_lease_active")
        ),
        sa.CheckConstraint("state <> 'releasing' OR desired = 'end'", name=op.f("ck_lease_releasing")),
        sa.CheckConstraint(
            "state IN ('queued', 'provisioning', 'booting', 'active', 'releasing', 'released', 'failed')",
            name=op.f("ck_lease_state"),
        ),
        sa.CheckConstraint("(rate_per_hour IS NULL) = (rate_since IS NULL)", name=op.f("ck_lease_rate")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_lease_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease")),
    )
    op.create_index(
        "ix_lease_due", "lease", ["next_due"], unique=False, postgresql_where=sa.text("next_due IS NOT NULL")
    )
    op.create_index("ix_lease_created_at", "lease", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_lease_labels",
        "lease",
        ["labels"],
        unique=False,
        postgresql_using="gin",
        postgresql_ops={"labels": "jsonb_path_ops"},
    )
    op.create_index(
        "ix_lease_place_live",
        "lease",
        ["account", "region"],
        unique=False,
        postgresql_where=sa.text("NOT state IN ('failed', 'released')"),
    )
    op.create_index("ix_lease_tenant_id_created_at", "lease", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_lease_tenant_id_live",
        "lease",
        ["tenant_id", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("NOT state IN ('failed', 'released')"),
    )
    op.create_index("ix_lease_tenant_id_updated_at", "lease", ["tenant_id", "updated_at", "id"], unique=False)
    op.create_table(
        "offering",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("gpu_memory_gib", sa.Integer(), nullable=False),
        sa.Column("gpu_interconnect", sa.Text(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_gib", sa.Numeric(precision=10, scale=2), nullable=False),
        sa.Column("price_per_hour", sa.Numeric(precision=14, scale=6), nullable=True),
        sa.Column("price_as_of", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("price_source", sa.Text(), nullable=True),
        sa.Column("cool_until", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("cool_reason", sa.Text(), nullable=True),
        sa.Column("cool_code", sa.Text(), nullable=True),
        sa.Column("cool_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("launches", sa.Integer(), server_default="0", nullable=False),
        sa.Column("refusals", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "ready_seconds",
            sa.Numeric(precision=10, scale=3),
            nullable=True,
            comment="moving average of launch to ready",
        ),
        sa.Column("cordoned", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("refreshed_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("market IN ('on_demand', 'spot')", name=op.f("ck_offering_market")),
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_offering_account")),
        sa.PrimaryKeyConstraint("account", "region", "zone", "instance_type", "market", name=op.f("pk_offering")),
    )
    op.create_table(
        "quota",
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column(
            "limit",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="NULL: no limit row. Not allowed for gpus, unlimited for the rest",
        ),
        sa.Column("used", sa.Numeric(precision=14, scale=6), server_default="0", nullable=False),
        sa.CheckConstraint(
            "resource IN ('gpus', 'leases', 'spend_per_hour') OR resource ~ '^gpus:.+'", name=op.f("ck_quota_resource")
        ),
        sa.CheckConstraint('used >= 0 AND ("limit" IS NULL OR "limit" >= 0)', name=op.f("ck_quota_amounts")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_quota_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "resource", name=op.f("pk_quota")),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Text(collation="C"), nullable=False),
        sa.Column("lease_id", sa.Text(collation="C"), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column(
            "offering",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="gpu, vcpus, memory, image as chosen",
        ),
        sa.Column("price_per_hour", sa.Numeric(precision=14, scale=6), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column(
            "params",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="exactly what is sent; NULL once the lease is terminal",
        ),
        sa.Column("params_hash", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="planned", nullable=False),
        sa.Column(
            "clean",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="nothing is left that costs money",
        ),
        sa.Column(
            "error",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="{class, code, message} of the last failure",
        ),
        sa.Column("instance_id", sa.Text(), nullable=True),
        sa.Column("operation", sa.Text(), nullable=True),
        sa.Column("vm_state", sa.Text(), nullable=True),
        sa.Column("vm_state_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "vm_reason",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="{code, message, interrupted} in the provider's words",
        ),
        sa.Column("ready", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("public_ip", sa.Text(), nullable=True),
        sa.Column("private_ip", sa.Text(), nullable=True),
        sa.Column("first_sent_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_sent_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("unknown_since", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("settling_since", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("empty_listings", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_empty_listing_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "retry_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="do not call the provider for this attempt before",
        ),
        sa.Column("known_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("terminate_sent_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("terminate_tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("billing_started_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("billing_ended_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state IN ('known', 'planned', 'sent', 'settling')) = (ended_at IS NULL)", name=op.f("ck_attempt_ended")
        ),
        sa.CheckConstraint("state <> 'known' OR instance_id IS NOT NULL", name=op.f("ck_attempt_known")),
        sa.CheckConstraint(
            "state IN ('known', 'planned', 'sent', 'settling') OR billing_started_at IS NULL OR billing_ended_at IS NOT NULL",
            name=op.f("ck_attempt_billing"),
        ),
        sa.CheckConstraint(
            "state IN ('planned', 'sent', 'known', 'settling', 'refused', 'dead')", name=op.f("ck_attempt_state")
        ),
        sa.CheckConstraint(
            "vm_state IS NULL OR vm_state IN ('pending', 'running', 'ending', 'stopped', 'gone', 'absent')",
            name=op.f("ck_attempt_vm_state"),
        ),
        sa.ForeignKeyConstraint(["lease_id"], ["lease.id"], name=op.f("fk_attempt_lease_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("lease_id", "n", name=op.f("uq_attempt_lease_id_n")),
        sa.UniqueConstraint("token", name=op.f("uq_attempt_token")),
    )
    op.create_index("ix_attempt_instance", "attempt", ["account", "region", "instance_id"], unique=False)
    op.create_index(
        "ix_attempt_live_lease",
        "attempt",
        ["lease_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('known', 'planned', 'sent', 'settling')"),
    )
    op.create_index(
        "ix_attempt_live_place",
        "attempt",
        ["account", "region", "state"],
        unique=False,
        postgresql_where=sa.text("state IN ('known', 'planned', 'sent', 'settling')"),
    )
    op.create_index("ix_attempt_unclean", "attempt", ["lease_id"], unique=False, postgresql_where=sa.text("NOT clean"))
    op.create_table(
        "lease_secret",
        sa.Column("lease_id", sa.Text(collation="C"), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("startup_script", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["lease_id"], ["lease.id"], name=op.f("fk_lease_secret_lease_id")),
        sa.PrimaryKeyConstraint("lease_id", name=op.f("pk_lease_secret")),
        comment="Never shown to viewers; deleted when the lease is terminal",
    )
    op.create_table(
        "quota_claim",
        sa.Column("lease_id", sa.Text(collation="C"), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("amount", sa.Numeric(precision=14, scale=6), nullable=False),
        sa.CheckConstraint("amount > 0", name=op.f("ck_quota_claim_amount")),
        sa.ForeignKeyConstraint(["lease_id"], ["lease.id"], name=op.f("fk_quota_claim_lease_id")),
        sa.PrimaryKeyConstraint("lease_id", "resource", name=op.f("pk_quota_claim")),
        comment="What a lease holds of each quota. Releasing deletes the rows, so it happens once",
    )
    op.create_index("ix_quota_claim_tenant_id_resource", "quota_claim", ["tenant_id", "resource"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_quota_claim_tenant_id_resource", table_name="quota_claim")
    op.drop_table("quota_claim")
    op.drop_table("lease_secret")
    op.drop_index("ix_attempt_unclean", table_name="attempt", postgresql_where=sa.text("NOT clean"))
    op.drop_index(
        "ix_attempt_live_place",
        table_name="attempt",
        postgresql_where=sa.text("state IN ('known', 'planned', 'sent', 'settling')"),
    )
    op.drop_index(
        "ix_attempt_live_lease",
        table_name="attempt",
        postgresql_where=sa.text("state IN ('known', 'planned', 'sent', 'settling')"),
    )
    op.drop_index("ix_attempt_instance", table_name="attempt")
    op.drop_table("attempt")
    op.drop_table("quota")
    op.drop_table("offering")
    op.drop_index("ix_lease_tenant_id_updated_at", table_name="lease")
    op.drop_index(
        "ix_lease_tenant_id_live", table_name="lease", postgresql_where=sa.text("NOT state IN ('failed', 'released')")
    )
    op.drop_index("ix_lease_tenant_id_created_at", table_name="lease")
    op.drop_index(
        "ix_lease_place_live", table_name="lease", postgresql_where=sa.text("NOT state IN ('failed', 'released')")
    )
    op.drop_index("ix_lease_created_at", table_name="lease")
    op.drop_index(
        "ix_lease_labels", table_name="lease", postgresql_using="gin", postgresql_ops={"labels": "jsonb_path_ops"}
    )
    op.drop_index("ix_lease_due", table_name="lease", postgresql_where=sa.text("next_due IS NOT NULL"))
    op.drop_table("lease")
    op.drop_index("ix_api_key_tenant_id_id", table_name="api_key")
    op.drop_table("api_key")
    op.drop_table("account_region")
    op.drop_table("worker_heartbeat")
    op.drop_table("tenant")
    op.drop_table("provider_bucket")
    op.drop_index("ix_periodic_job_kind_next_due", table_name="periodic_job")
    op.drop_table("periodic_job")
    op.drop_index("ix_orphan_open", table_name="orphan", postgresql_where=sa.text("state IN ('seen', 'ending')"))
    op.drop_table("orphan")
    op.drop_table("installation")
    op.drop_index("ix_idempotency_created_at", table_name="idempotency")
    op.drop_table("idempotency")
    op.drop_index("ix_event_unnumbered", table_name="event", postgresql_where=sa.text("sequence IS NULL"))
    op.drop_index("ix_event_tenant_id_sequence", table_name="event")
    op.drop_index("ix_event_sequence", table_name="event", postgresql_where=sa.text("sequence IS NOT NULL"))
    op.drop_index("ix_event_lease_id_sequence", table_name="event")
    op.drop_index("ix_event_at", table_name="event")
    op.drop_table("event")
    op.drop_index("ix_audit_tenant_id_id", table_name="audit")
    op.drop_table("audit")
    op.drop_table("account")
