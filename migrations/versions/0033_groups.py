"""Groups of leases, and batches of attempts that one create call launches.

Revision: 0033
Follows: 0032
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
ID = sa.Text(collation="C")
NOW = sa.text("now()")

GROUP_CHECKS = {
    "state": "state IN ('queued', 'forming', 'active', 'degraded', 'releasing', 'ended')",
    "desired": "desired IN ('run', 'end')",
    "placement": "placement IN ('any', 'same_zone', 'cluster')",
    "interconnect": "interconnect IN ('none', 'preferred', 'required')",
    "on_member_loss": "on_member_loss IN ('end', 'replace', 'keep')",
    "size": "1 <= min_size AND min_size <= size",
    "ended": "(state = 'ended') = (ended_at IS NOT NULL)",
}
ATTEMPT_CHECK = "(batch_id IS NULL) = (batch_index IS NULL)"
LEASE_CHECK = "(group_id IS NULL) = (rank IS NULL)"


def upgrade() -> None:
    _create_groups()
    _create_batches()
    op.add_column("lease", sa.Column("group_id", ID, nullable=True, comment="the group that it is a member of"))
    op.add_column("lease", sa.Column("rank", sa.Integer(), nullable=True, comment="0 to size - 1 within its group"))
    pool = "the only pool that it may be placed in; NULL in a group: it waits for one"
    op.add_column("lease", sa.Column("group_pool", JSON, nullable=True, comment=pool))
    retreat = "its VM is ended, since its group did not form in this pool"
    false = sa.text("false")
    op.add_column(
        "lease", sa.Column("group_retreat", sa.Boolean(), server_default=false, nullable=False, comment=retreat)
    )
    op.create_check_constraint(op.f("ck_lease_rank"), "lease", LEASE_CHECK)
    op.create_index(
        "ix_lease_group_id_rank",
        "lease",
        ["group_id", "rank"],
        unique=False,
        postgresql_where=sa.text("group_id IS NOT NULL"),
    )
    key = "equal where one create call can launch several; NULL: launched alone"
    op.add_column("attempt", sa.Column("batch_key", sa.Text(), nullable=True, comment=key))
    op.add_column("attempt", sa.Column("batch_id", ID, nullable=True, comment="the launch batch that it was sent with"))
    op.add_column("attempt", sa.Column("batch_index", sa.Integer(), nullable=True, comment="its slot there"))
    op.create_check_constraint(op.f("ck_attempt_batch"), "attempt", ATTEMPT_CHECK)
    op.create_index(
        "ix_attempt_batch_key",
        "attempt",
        ["tenant_id", "batch_key"],
        unique=False,
        postgresql_where=sa.text("batch_key IS NOT NULL AND state = 'planned'"),
    )
    op.create_index(
        "ix_attempt_batch",
        "attempt",
        ["batch_id", "batch_index"],
        unique=True,
        postgresql_where=sa.text("batch_id IS NOT NULL"),
    )


def _create_groups() -> None:
    op.create_table(
        "lease_group",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("key_id", ID, nullable=True, comment="the key that created it"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False, comment="members wanted"),
        sa.Column("min_size", sa.Integer(), nullable=False, comment="members without which it does not run"),
        sa.Column("lease", JSON, nullable=False, comment="the request of each member, as asked for"),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("interconnect", sa.Text(), nullable=False),
        sa.Column(
            "form_seconds",
            sa.Integer(),
            nullable=False,
            comment="how long its members may take to be ready in one pool",
        ),
        sa.Column("on_member_loss", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("desired", sa.Text(), server_default="run", nullable=False),
        sa.Column("reason", JSON, nullable=True),
        sa.Column(
            "pool", JSON, nullable=True, comment="{account, region, zone, instance_type, market}; NULL: none is chosen"
        ),
        sa.Column(
            "pools_tried", JSON, server_default=sa.text("'[]'"), nullable=False, comment="pools that did not form it"
        ),
        sa.Column("pool_started_at", TIME, nullable=True),
        sa.Column("wait_until", TIME, nullable=False, comment="no pool is tried later"),
        sa.Column("formed_at", TIME, nullable=True, comment="when it became active first"),
        sa.Column("release_requested_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.Column("updated_at", TIME, server_default=NOW, nullable=False),
        sa.Column(
            "next_due",
            TIME,
            server_default=NOW,
            nullable=True,
            comment="when a worker looks at it next; NULL: it has ended",
        ),
        *(sa.CheckConstraint(sql, name=op.f(f"ck_lease_group_{name}")) for name, sql in GROUP_CHECKS.items()),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_lease_group_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease_group")),
        comment="Its members are leases with its id and a rank",
    )
    op.create_index("ix_lease_group_tenant_id_id", "lease_group", ["tenant_id", "id"], unique=False)
    op.create_index(
        "ix_lease_group_tenant_id_name",
        "lease_group",
        ["tenant_id", "name"],
        unique=True,
        postgresql_where=sa.text("state <> 'ended'"),
    )
    op.create_index(
        "ix_lease_group_next_due",
        "lease_group",
        ["next_due"],
        unique=False,
        postgresql_where=sa.text("next_due IS NOT NULL"),
    )
    _protect("lease_group", api="SELECT, INSERT, UPDATE")


def _create_batches() -> None:
    op.create_table(
        "launch_batch",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("provider", "account", "region", "zone")),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("params", JSON, nullable=True, comment="exactly what is sent; NULL once no slot may be sent again"),
        sa.Column("params_hash", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.Column("last_sent_at", TIME, nullable=True),
        sa.Column("answered_at", TIME, nullable=True, comment="when a call returned its VMs first"),
        sa.CheckConstraint("slots >= 1", name=op.f("ck_launch_batch_slots")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_launch_batch")),
        sa.UniqueConstraint("token", name=op.f("uq_launch_batch_token")),
        comment="One create call of several attempts of a tenant. Each attempt has a slot of it",
    )
    op.create_index("ix_launch_batch_created_at", "launch_batch", ["created_at"], unique=False)
    _protect("launch_batch", api="SELECT")


def _protect(table: str, *, api: str) -> None:
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {table} TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON {table} TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT {api} ON {table} TO {API}")
    op.execute(f"GRANT ALL ON {table} TO {WORKER}")


def downgrade() -> None:
    op.drop_index("ix_attempt_batch", table_name="attempt")
    op.drop_index("ix_attempt_batch_key", table_name="attempt")
    for name in ("batch_index", "batch_id", "batch_key"):
        op.drop_column("attempt", name)
    op.drop_index("ix_lease_group_id_rank", table_name="lease")
    for name in ("group_retreat", "group_pool", "rank", "group_id"):
        op.drop_column("lease", name)
    op.drop_table("launch_batch")
    op.drop_table("lease_group")
