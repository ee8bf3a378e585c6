"""Reservations: capacity that is bought ahead; which attempt runs in one; VMs that wait in their provider's queue.

Revision: 0019
Follows: 0018
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
MONEY = sa.Numeric(precision=14, scale=6)

STATES = ("pending", "running", "ending", "stopped", "gone", "absent")
LIVE = "state IN ('known', 'planned', 'sent', 'settling')"


def upgrade() -> None:
    _reservations()
    op.add_column("attempt", sa.Column("reservation", sa.Text(), nullable=True, comment="its name in the account"))
    op.add_column(
        "attempt",
        sa.Column("reserved_until", TIME, nullable=True, comment="the latest expiry of a lease in the reservation"),
    )
    op.execute(f"GRANT SELECT (reservation, reserved_until) ON attempt TO {API}")
    op.create_index(
        "ix_attempt_live_reservation",
        "attempt",
        ["account", "reservation"],
        postgresql_where=sa.text(f"reservation IS NOT NULL AND {LIVE}"),
    )
    _vm_states((*STATES, "queued"))


def _reservations() -> None:
    op.create_table(
        "reservation",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, comment="in the account's settings"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("gpu_memory_gib", sa.Integer(), nullable=False),
        sa.Column("gpu_interconnect", sa.Text(), nullable=False),
        sa.Column("gpu_nvlink", sa.Integer(), nullable=True, comment="NVLink generation"),
        sa.Column("gpu_driver", sa.Text(), nullable=False, comment="the driver that an image needs"),
        sa.Column("gpu_parts", sa.Integer(), nullable=False, comment="parts that each GPU is divided into"),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_gib", sa.Numeric(precision=10, scale=2), nullable=False),
        sa.Column("local_disk_gib", sa.Integer(), nullable=False),
        sa.Column("network_gbps", sa.Numeric(precision=10, scale=2), nullable=True, comment="NULL: unknown"),
        sa.Column("network_fabric", sa.Text(), nullable=True),
        sa.Column("price_per_hour", MONEY, nullable=False, comment="USD that a lease is billed"),
        sa.Column(
            "tenants", postgresql.ARRAY(sa.Text()), nullable=False, comment="ids of those that may use it; empty: all"
        ),
        sa.Column("slots", sa.Integer(), nullable=True, comment="VMs at a time; NULL: no fixed number"),
        sa.Column(
            "free",
            sa.Integer(),
            nullable=True,
            comment="as the provider reported it at observed_at; NULL: no fixed number",
        ),
        sa.Column("starts_at", TIME, nullable=True),
        sa.Column("ends_at", TIME, nullable=True, comment="when the provider begins to end VMs"),
        sa.Column(
            "shortest_wait", sa.Integer(), nullable=True, comment="seconds in the provider's queue; NULL: no queue"
        ),
        sa.Column("longest_run", sa.Integer(), nullable=True, comment="seconds of one VM"),
        sa.Column("problem", sa.Text(), nullable=True, comment="why the provider accepts no VM"),
        sa.Column("observed_at", TIME, nullable=False, comment="before the provider was asked"),
        sa.Column("cool_until", TIME, nullable=True),
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
        sa.ForeignKeyConstraint(["account"], ["account.name"], name=op.f("fk_reservation_account")),
        sa.PrimaryKeyConstraint("account", "name", name=op.f("pk_reservation")),
        comment="Its policy shows a tenant the reservations that it may use",
    )
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    usable = f"(tenants = '{{}}' OR {tenant} = ANY (tenants) OR {tenant} = '*')"
    op.execute("ALTER TABLE reservation ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE reservation FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON reservation TO {API} USING {usable} WITH CHECK {usable}")
    op.execute(f"CREATE POLICY worker ON reservation TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT ON reservation TO {API}")
    op.execute(f"GRANT ALL ON reservation TO {WORKER}")


def _vm_states(states: tuple[str, ...]) -> None:
    """Reads go on: the rows are checked after the constraint is there."""
    allowed = ", ".join(f"'{state}'" for state in states)
    op.execute("ALTER TABLE attempt DROP CONSTRAINT ck_attempt_vm_state")
    op.execute(
        f"ALTER TABLE attempt ADD CONSTRAINT ck_attempt_vm_state CHECK (vm_state IS NULL OR vm_state IN ({allowed})) "
        "NOT VALID"
    )
    op.execute("ALTER TABLE attempt VALIDATE CONSTRAINT ck_attempt_vm_state")


def downgrade() -> None:
    op.execute(f"SET LOCAL ROLE {WORKER}")
    op.execute("UPDATE attempt SET vm_state = 'pending' WHERE vm_state = 'queued'")
    op.execute("RESET ROLE")
    _vm_states(STATES)
    op.drop_index("ix_attempt_live_reservation", table_name="attempt")
    op.drop_column("attempt", "reserved_until")
    op.drop_column("attempt", "reservation")
    op.drop_table("reservation")
