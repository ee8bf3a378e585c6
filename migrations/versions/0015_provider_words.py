"""A key role for the dead-man switch; an archive of purged attempts; providers' words are taken out of what tenants were told.

Revision: 0015
Follows: 0014
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
ID = sa.Text(collation="C")
TIME = postgresql.TIMESTAMP(timezone=True)

ROLES = "role IN ('operator', 'admin', 'member', 'viewer')"
SCOPE = "(role = 'operator') = (tenant_id IS NULL)"
NO_TENANT = "NULL for the role operator"
ROLES_WITH_DEADMAN = "role IN ('operator', 'admin', 'member', 'viewer', 'deadman')"
SCOPE_WITH_DEADMAN = "(role IN ('operator', 'deadman')) = (tenant_id IS NULL)"
NO_TENANT_WITH_DEADMAN = "NULL for the roles operator and deadman"


KEPT_FOR_OPERATORS = "the provider's answer is kept for operators"
TOLD = {"event": "data", "webhook_delivery": "about", "idempotency": "response"}
"""Tables and columns that hold what tenants were told."""

JSON = postgresql.JSONB(astext_type=sa.Text())


def upgrade() -> None:
    _key_roles(ROLES_WITH_DEADMAN, SCOPE_WITH_DEADMAN, NO_TENANT_WITH_DEADMAN)
    _archive()
    reason = sa.column("reason", JSON)
    words = sa.func.jsonb_build_object("provider_message", reason["message"], "message", KEPT_FOR_OPERATORS)
    mixed = sa.and_(reason["origin"].astext == "provider", ~sa.func.jsonb_exists(reason, "provider_message"))
    _as_worker(sa.update(sa.table("lease", reason)).values(reason=reason.concat(words)).where(mixed))
    for name, column in TOLD.items():
        told = sa.column(column, JSON)
        table = sa.table(name, told)
        _replace(table, told, "reason", told["reason"]["origin"].astext == "provider")
        _replace(table, told, "error", told["error"]["message"].astext.is_not(None))


def _replace(table: sa.TableClause, told: sa.ColumnClause[Any], member: str, where: sa.ColumnElement[bool]) -> None:
    path = postgresql.array([member, "message"])
    text = sa.func.jsonb_set(told, path, sa.func.to_jsonb(sa.cast(KEPT_FOR_OPERATORS, sa.Text)))
    _as_worker(sa.update(table).values({told.name: text}).where(where))


def downgrade() -> None:
    reason = sa.column("reason", JSON)
    before = sa.func.jsonb_build_object("message", reason["provider_message"])
    mixed = sa.func.jsonb_exists(reason, "provider_message")
    restored = reason.op("-")("provider_message").concat(before)
    _as_worker(sa.update(sa.table("lease", reason)).values(reason=restored).where(mixed))
    op.drop_table("attempt_archive")
    _as_worker(sa.delete(sa.table("api_key")).where(sa.column("role") == "deadman"))
    _key_roles(ROLES, SCOPE, NO_TENANT)


def _as_worker(statement: sa.Executable) -> None:
    """The owner of the tables sees no rows of tenants."""
    op.execute(f"SET LOCAL ROLE {WORKER}")
    op.get_bind().execute(statement)
    op.execute("RESET ROLE")


def _archive() -> None:
    op.create_table(
        "attempt_archive",
        sa.Column("id", ID, nullable=False),
        sa.Column("lease_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=True),
        sa.Column("instance_id", sa.Text(), nullable=True),
        sa.Column("price_per_hour", sa.Numeric(precision=14, scale=6), nullable=False),
        sa.Column("billing_started_at", TIME, nullable=True),
        sa.Column("billing_ended_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt_archive")),
        sa.UniqueConstraint("lease_id", "n", name=op.f("uq_attempt_archive_lease_id_n")),
        comment="Attempts of purged leases that may have had a VM: what they cost, and the proof that their VM is over",
    )
    op.create_index(
        "ix_attempt_archive_tenant_id_billing_ended_at",
        "attempt_archive",
        ["tenant_id", "billing_ended_at"],
        unique=False,
    )
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute("ALTER TABLE attempt_archive ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE attempt_archive FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON attempt_archive TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON attempt_archive TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT ON attempt_archive TO {API}")
    op.execute(f"GRANT ALL ON attempt_archive TO {WORKER}")


def _key_roles(roles: str, scope: str, no_tenant: str) -> None:
    for name, condition in (("role", roles), ("scope", scope)):
        constraint = op.f(f"ck_api_key_{name}")
        op.drop_constraint(constraint, "api_key", type_="check")
        op.create_check_constraint(constraint, "api_key", condition)
    op.alter_column("api_key", "tenant_id", existing_type=sa.Text(collation="C"), comment=no_tenant)
