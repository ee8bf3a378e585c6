"""GPUs: the agent's token, the proof, the health, the newest samples, and GPUs that were found broken.

Revision: 0029
Follows: 0028
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
JSON = postgresql.JSONB(none_as_null=True, astext_type=sa.Text())
ID = sa.Text(collation="C")
VISIBLE = "agent_hash, proof_awaited_at, console_proof_tries, gpu_rebooted_at"


def upgrade() -> None:
    _attempt()
    _lease()
    _latest()
    _bad()


def downgrade() -> None:
    op.drop_table("bad_gpu")
    op.drop_table("gpu_latest")
    for name in ("idle_evidence", "idle_told", "keep_until", "gpu_health", "proof"):
        op.drop_column("lease", name)
    op.alter_column("lease", "health", existing_type=sa.Text(), existing_comment="unused; see gpu_health", comment=None)
    op.drop_index("ix_attempt_agent_hash", table_name="attempt")
    for name in ("gpu_rebooted_at", "console_proof_tries", "proof_awaited_at", "agent_hash"):
        op.drop_column("attempt", name)


def _attempt() -> None:
    of_agent = sa.Column(
        "agent_hash",
        sa.LargeBinary(),
        nullable=True,
        comment="SHA-256 of the token of the VM's agent; NULL: the VM has no agent",
    )
    awaited = sa.Column(
        "proof_awaited_at", TIME, nullable=True, comment="since when the ready VM is waited for to prove its GPUs"
    )
    tries = sa.Column(
        "console_proof_tries",
        sa.Integer(),
        server_default="0",
        nullable=False,
        comment="reads of the console for it",
    )
    rebooted = sa.Column("gpu_rebooted_at", TIME, nullable=True, comment="rebooted for its GPUs, once")
    for column in (of_agent, awaited, tries, rebooted):
        op.add_column("attempt", column)
    op.create_index(
        "ix_attempt_agent_hash",
        "attempt",
        ["agent_hash"],
        unique=True,
        postgresql_where=sa.text("agent_hash IS NOT NULL"),
    )
    op.execute(f"GRANT SELECT ({VISIBLE}) ON attempt TO {API}")


def _lease() -> None:
    op.alter_column("lease", "health", existing_type=sa.Text(), existing_comment=None, comment="unused; see gpu_health")
    shown = "what the API shows"
    proof = sa.Column(
        "proof", JSON, nullable=True, comment=f"of the newest attempt: its number n, its boot_id and {shown}"
    )
    health = sa.Column("gpu_health", JSON, nullable=True, comment=f"of the newest attempt: its number n and {shown}")
    keep = sa.Column("keep_until", TIME, nullable=True, comment="idleness does not count before")
    told = sa.Column(
        "idle_told",
        sa.Integer(),
        server_default="0",
        nullable=False,
        comment="warnings that it ends for idleness",
    )
    evidence = sa.Column("idle_evidence", JSON, nullable=True, comment="the samples for which idleness was found")
    for column in (proof, health, keep, told, evidence):
        op.add_column("lease", column)


def _latest() -> None:
    op.create_table(
        "gpu_latest",
        sa.Column("lease_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("attempt_id", ID, nullable=False, comment="the newest one"),
        sa.Column("sampled_at", TIME, nullable=False, comment="by the VM's clock"),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("gpu_percent", sa.SmallInteger(), nullable=True, comment="utilization, mean of its GPUs"),
        sa.Column("busiest_percent", sa.SmallInteger(), nullable=True, comment="utilization of the busiest GPU"),
        sa.Column("memory_percent", sa.SmallInteger(), nullable=True),
        sa.Column("gpus", sa.Integer(), nullable=True, comment="in the sample"),
        sa.Column(
            "idle_since",
            TIME,
            nullable=True,
            comment="the first of the idle samples in a row; NULL: the newest is not idle",
        ),
        sa.Column("idle_samples", sa.Integer(), server_default="0", nullable=False, comment="idle samples in a row"),
        sa.Column("sample", JSON, nullable=True, comment="the newest one"),
        sa.Column("xids", JSON, nullable=True, comment="since the VM booted"),
        sa.Column("refused", sa.Integer(), server_default="0", nullable=False, comment="samples that were not stored"),
        sa.PrimaryKeyConstraint("lease_id", name=op.f("pk_gpu_latest")),
        comment="One row per lease, for its newest attempt. Written once a minute; never locked with the lease",
        postgresql_with={"fillfactor": "70"},
    )
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute("ALTER TABLE gpu_latest ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE gpu_latest FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON gpu_latest TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON gpu_latest TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT, INSERT, UPDATE ON gpu_latest TO {API}")
    op.execute(f"GRANT ALL ON gpu_latest TO {WORKER}")


def _bad() -> None:
    op.create_table(
        "bad_gpu",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=False, comment="code of the newest one"),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("last_seen_at", TIME, nullable=False),
        sa.Column("times", sa.Integer(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("provider", "uuid", name=op.f("pk_bad_gpu")),
        comment="GPUs with fatal findings. A VM that gets one of them again does not become active",
    )
    op.execute(f"GRANT SELECT ON bad_gpu TO {API}")
    op.execute(f"GRANT ALL ON bad_gpu TO {WORKER}")
