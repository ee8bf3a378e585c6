"""What VMs report is the word of one tenant: bad GPUs, suspected offerings and mass losses are kept by tenant.

Revision: 0047
Follows: 0046
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

API, WORKER = "gpulease_api", "gpulease_worker"
JSON = postgresql.JSONB(astext_type=sa.Text())
SUSPICION = "{tenant_id, reason, code, until}: what VMs of one tenant alone show"
VANISHING = "{tenant_id: cycles in a row with a mass loss of its VMs}"
OLD = "GPUs with fatal findings. A VM that gets one of them again does not become active"
NEW = (
    "GPUs with fatal findings: the word of one tenant each. A VM of this tenant that gets one of them again does not become "
    "active, and after the words of two tenants no VM"
)


def upgrade() -> None:
    for table in ("offering", "reservation"):
        op.add_column(table, sa.Column("suspicion", JSON, nullable=True, comment=SUSPICION))
    op.execute("DELETE FROM bad_gpu")  # nobody knows whose word a row is
    op.add_column(
        "bad_gpu", sa.Column("tenant_id", sa.Text(collation="C"), nullable=False, comment="whose VM reported it")
    )
    op.execute("ALTER TABLE bad_gpu DROP CONSTRAINT pk_bad_gpu")
    op.create_primary_key("pk_bad_gpu", "bad_gpu", ["provider", "region", "uuid", "tenant_id"])
    op.create_table_comment("bad_gpu", NEW, existing_comment=OLD)
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    op.execute("ALTER TABLE bad_gpu ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE bad_gpu FORCE ROW LEVEL SECURITY")
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute(f"CREATE POLICY tenant ON bad_gpu TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON bad_gpu TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT DELETE ON bad_gpu TO {API}")
    op.drop_column("account_region", "vanish_cycles")
    op.add_column(
        "account_region", sa.Column("vanishing", JSON, server_default="{}", nullable=False, comment=VANISHING)
    )


def downgrade() -> None:
    op.drop_column("account_region", "vanishing")
    op.add_column("account_region", sa.Column("vanish_cycles", sa.Integer(), server_default="0", nullable=False))
    op.execute(f"REVOKE DELETE ON bad_gpu FROM {API}")
    op.execute("DROP POLICY worker ON bad_gpu")
    op.execute("DROP POLICY tenant ON bad_gpu")
    op.execute("ALTER TABLE bad_gpu NO FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE bad_gpu DISABLE ROW LEVEL SECURITY")
    op.execute("DELETE FROM bad_gpu")
    op.create_table_comment("bad_gpu", OLD, existing_comment=NEW)
    op.execute("ALTER TABLE bad_gpu DROP CONSTRAINT pk_bad_gpu")
    op.drop_column("bad_gpu", "tenant_id")
    op.create_primary_key("pk_bad_gpu", "bad_gpu", ["provider", "uuid"])
    for table in ("offering", "reservation"):
        op.drop_column(table, "suspicion")
