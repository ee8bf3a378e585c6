"""Reboots, host keys, console output of failed boots, and how long a cloud has been out of reach.

Revision: 0003
Follows: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    _lease_columns()
    _attempt_columns()
    _console()


def downgrade() -> None:
    op.drop_table("lease_console")
    op.drop_index("ix_attempt_host_key_hash", table_name="attempt")
    for column in ("console_asked_at", "unreachable_since", "host_key_hash"):
        op.drop_column("attempt", column)
    for column in ("ssh_host_keys", "reboot_requested_at"):
        op.drop_column("lease", column)


def _lease_columns() -> None:
    op.add_column(
        "lease",
        sa.Column("reboot_requested_at", TIME, nullable=True, comment="a reboot that is asked for and not sent yet"),
    )
    op.add_column(
        "lease",
        sa.Column(
            "ssh_host_keys",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="as the VM of the newest attempt told them, once",
        ),
    )


def _attempt_columns() -> None:
    """The API may read the hash: it checks with it what a VM presents."""
    op.add_column(
        "attempt",
        sa.Column(
            "host_key_hash",
            sa.LargeBinary(),
            nullable=True,
            comment="SHA-256 of the token that the VM tells its keys with",
        ),
    )
    op.add_column(
        "attempt", sa.Column("unreachable_since", TIME, nullable=True, comment="no connection for a send since then")
    )
    op.add_column(
        "attempt", sa.Column("console_asked_at", TIME, nullable=True, comment="its console output is asked for once")
    )
    op.create_index(
        "ix_attempt_host_key_hash",
        "attempt",
        ["host_key_hash"],
        unique=True,
        postgresql_where=sa.text("host_key_hash IS NOT NULL"),
    )
    op.execute(f"GRANT SELECT (host_key_hash) ON attempt TO {API}")


def _console() -> None:
    op.create_table(
        "lease_console",
        sa.Column("lease_id", sa.Text(collation="C"), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False, comment="which attempt's VM"),
        sa.Column("tenant_id", sa.Text(collation="C"), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["lease_id"], ["lease.id"], name=op.f("fk_lease_console_lease_id")),
        sa.PrimaryKeyConstraint("lease_id", "n", name=op.f("pk_lease_console")),
        comment="Last lines of VMs that did not boot; never shown to viewers, kept 7 days",
    )
    op.create_index("ix_lease_console_at", "lease_console", ["at"], unique=False)
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute("ALTER TABLE lease_console ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE lease_console FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON lease_console TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON lease_console TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT ON lease_console TO {API}")
    op.execute(f"GRANT ALL ON lease_console TO {WORKER}")
