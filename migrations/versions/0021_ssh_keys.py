"""Stored SSH keys of tenants. Lease requests of earlier versions get `ssh_keys`, because the API returns the stored form.

Revision: 0021
Follows: 0020
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
ID = sa.Text(collation="C")

ADD_MEMBER = """UPDATE lease SET request = '{"ssh_keys": []}'::jsonb || request"""
REMOVE_MEMBER = "UPDATE lease SET request = request - 'ssh_keys'"


def upgrade() -> None:
    op.create_table(
        "ssh_key",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False, comment="one line of an authorized_keys file"),
        sa.Column("fingerprint", sa.Text(), nullable=False, comment="SHA-256, as OpenSSH writes it"),
        sa.Column(
            "is_default",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="a lease of its owner gets it if the request names no key",
        ),
        sa.Column("key_id", ID, nullable=False, comment="the owner: the API key that stored it"),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_ssh_key_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ssh_key")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_ssh_key_tenant_id_name")),
    )
    op.create_index("ix_ssh_key_tenant_id_id", "ssh_key", ["tenant_id", "id"], unique=False)
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute("ALTER TABLE ssh_key ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE ssh_key FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON ssh_key TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON ssh_key TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT, INSERT, UPDATE (name, is_default), DELETE ON ssh_key TO {API}")
    op.execute(f"GRANT ALL ON ssh_key TO {WORKER}")
    _as_worker(ADD_MEMBER)


def downgrade() -> None:
    _as_worker(REMOVE_MEMBER)
    op.drop_table("ssh_key")


def _as_worker(statement: str) -> None:
    """The owner of the tables sees no rows of tenants."""
    op.execute(f"SET LOCAL ROLE {WORKER}")
    op.execute(statement)
    op.execute("RESET ROLE")
