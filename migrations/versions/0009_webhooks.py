"""Webhooks: where tenants are told what happens; and what was told of an expiry and of a quota that is nearly used.

Revision: 0009
Follows: 0008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
ID = sa.Text(collation="C")
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
NOW = sa.text("now()")
FALSE = sa.text("false")

API_GRANTS = {
    "webhook": "SELECT, INSERT, UPDATE, DELETE",
    "webhook_secret": "SELECT (webhook_id, id, tenant_id, valid_until, created_at), INSERT, UPDATE (valid_until)",
    "webhook_delivery": "SELECT, INSERT, UPDATE (state, tries, next_try_at, gives_up_at, ended_at)",
}
"""The API makes secrets and never reads one."""


def upgrade() -> None:
    _told()
    _webhook()
    _secret()
    _delivery()
    for table, rights in API_GRANTS.items():
        _policies(table)
        op.execute(f"GRANT {rights} ON {table} TO {API}")
        op.execute(f"GRANT ALL ON {table} TO {WORKER}")


def downgrade() -> None:
    for table in ("webhook_delivery", "webhook_secret", "webhook"):
        op.drop_table(table)
    op.drop_column("quota", "nearly_told")
    op.drop_index("ix_lease_expires_at_live", table_name="lease")
    op.drop_column("lease", "expiry_told_for")


def _told() -> None:
    op.add_column(
        "lease",
        sa.Column("expiry_told_for", TIME, nullable=True, comment="the expires_at of which its owner was warned"),
    )
    op.create_index(
        "ix_lease_expires_at_live",
        "lease",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("NOT state IN ('failed', 'released')"),
    )
    op.add_column(
        "quota",
        sa.Column(
            "nearly_told",
            sa.Boolean(),
            server_default=FALSE,
            nullable=False,
            comment="that it is nearly used was told, and it has not fallen far enough since to be told again",
        ),
    )


def _webhook() -> None:
    op.create_table(
        "webhook",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("event_types", JSON, nullable=True, comment="NULL: every type"),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True, comment="by_user, or gone: the receiver answered 410"),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="number of the last event that deliveries were made of",
        ),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.Column("updated_at", TIME, server_default=NOW, nullable=False),
        sa.Column("next_due", TIME, nullable=True, comment="NULL: nothing to deliver"),
        sa.Column(
            "waits_until", TIME, nullable=True, comment="the receiver takes nothing at present: everything waits"
        ),
        sa.Column("slow", sa.Boolean(), server_default=FALSE, nullable=False, comment="its last answer took long"),
        sa.Column("claim_id", postgresql.UUID(as_uuid=True), nullable=True),
        sa.Column("held_until", TIME, nullable=True),
        sa.CheckConstraint("enabled = (disabled_reason IS NULL)", name=op.f("ck_webhook_disabled")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_webhook_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook")),
    )
    op.create_index("ix_webhook_tenant_id_id", "webhook", ["tenant_id", "id"], unique=False)
    op.create_index(
        "ix_webhook_next_due",
        "webhook",
        ["next_due"],
        unique=False,
        postgresql_where=sa.text("enabled AND next_due IS NOT NULL"),
    )


def _secret() -> None:
    op.create_table(
        "webhook_secret",
        sa.Column("webhook_id", ID, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("secret", sa.Text(), nullable=False, comment="only workers may read it"),
        sa.Column("valid_until", TIME, nullable=True, comment="NULL: the present one"),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhook.id"], name=op.f("fk_webhook_secret_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("webhook_id", "id", name=op.f("pk_webhook_secret")),
    )
    op.create_index(
        "ix_webhook_secret_present",
        "webhook_secret",
        ["webhook_id"],
        unique=True,
        postgresql_where=sa.text("valid_until IS NULL"),
    )


def _delivery() -> None:
    op.create_table(
        "webhook_delivery",
        sa.Column("id", ID, nullable=False),
        sa.Column("row_id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="the order of delivery"),
        sa.Column("webhook_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("event_id", ID, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=True, comment="of the event; NULL: a test"),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("event_at", TIME, server_default=NOW, nullable=False),
        sa.Column("about", JSON, nullable=False, comment="the message's `data`"),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.Integer(), nullable=True, comment="that the receiver answered last"),
        sa.Column("error", sa.Text(), nullable=True, comment="why the last try failed"),
        sa.Column("next_try_at", TIME, server_default=NOW, nullable=True),
        sa.Column("last_try_at", TIME, nullable=True),
        sa.Column("gives_up_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.CheckConstraint("state IN ('pending', 'delivered', 'given_up')", name=op.f("ck_webhook_delivery_state")),
        sa.CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name=op.f("ck_webhook_delivery_ended")),
        sa.CheckConstraint(
            "(state = 'pending') = (next_try_at IS NOT NULL)", name=op.f("ck_webhook_delivery_next_try")
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhook.id"], name=op.f("fk_webhook_delivery_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_delivery")),
        sa.UniqueConstraint("webhook_id", "event_id", name=op.f("uq_webhook_delivery_webhook_id_event_id")),
    )
    op.create_index("ix_webhook_delivery_webhook_id_id", "webhook_delivery", ["webhook_id", "id"], unique=False)
    op.create_index(
        "ix_webhook_delivery_pending",
        "webhook_delivery",
        ["webhook_id", "row_id"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index("ix_webhook_delivery_created_at", "webhook_delivery", ["created_at"], unique=False)


def _policies(table: str) -> None:
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {table} TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON {table} TO {WORKER} USING (true) WITH CHECK (true)")
