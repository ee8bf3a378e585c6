"""Roles, row-level security and the installation's identity.

Revision: 0002
Follows: 0001

Two group roles: `gpulease_api` sees one tenant at a time (setting `gpulease.tenant`, or `*` for operators and for the key
check), `gpulease_worker` sees all. A login is made a member of the role its process needs, and each process does
SET ROLE when it connects. Roles belong to the cluster: they are made only when missing and not dropped on the way
down, since another database may use them.
"""

import secrets

import sqlalchemy as sa
from alembic import op

from app.settings import load_settings

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"

TENANT_COLUMN = {
    "tenant": "id",
    "api_key": "tenant_id",
    "quota": "tenant_id",
    "quota_claim": "tenant_id",
    "idempotency": "scope",
    "audit": "tenant_id",
    "lease": "tenant_id",
    "lease_secret": "tenant_id",
    "attempt": "tenant_id",
    "event": "tenant_id",
}

API_GRANTS = {
    "tenant": "SELECT, INSERT, UPDATE",
    "api_key": "SELECT, INSERT, UPDATE",
    "quota": "SELECT, INSERT, UPDATE",
    "quota_claim": "SELECT, INSERT",
    "idempotency": "SELECT, INSERT",
    "audit": "SELECT, INSERT",
    "lease": "SELECT, INSERT, UPDATE",
    "lease_secret": "SELECT, INSERT",
    "event": "SELECT, INSERT",
    "account": "SELECT, UPDATE (cordoned)",
    "account_region": "SELECT",
    "offering": "SELECT, UPDATE (cordoned)",
    "orphan": "SELECT, UPDATE (end_after, adopt_requested_at, adopt_error)",
    "periodic_job": "SELECT",
    "worker_heartbeat": "SELECT",
    "alembic_version": "SELECT",
    "installation": "SELECT (one, id, hold, launches_stopped, event_sequence, created_at), UPDATE (hold, launches_stopped, system_identifier, timeline)",
}

ATTEMPT_HIDDEN = {"params", "token"}
"""The API never reads what is sent to the provider: it holds startup scripts."""


def upgrade() -> None:
    _roles()
    for table, column in TENANT_COLUMN.items():
        _policies(table, column)
    for table, rights in API_GRANTS.items():
        op.execute(f"GRANT {rights} ON {table} TO {API}")
    op.execute(f"GRANT SELECT ({_visible_attempt_columns()}) ON attempt TO {API}")
    op.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {WORKER}")
    op.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {API}, {WORKER}")
    _installation()


def downgrade() -> None:
    op.execute(f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {API}, {WORKER}")
    op.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {API}, {WORKER}")
    for table in TENANT_COLUMN:
        op.execute(f"DROP POLICY tenant ON {table}")
        op.execute(f"DROP POLICY worker ON {table}")
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")


def _roles() -> None:
    for role in (API, WORKER):
        op.execute(
            f"""
            DO $$ BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
                    CREATE ROLE {role} NOLOGIN NOBYPASSRLS;
                END IF;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
            END $$
            """
        )
        _join(role)
        op.execute(f"GRANT USAGE ON SCHEMA public TO {role}")


def _join(role: str) -> None:
    """From PostgreSQL 16 on the maker of a role may not SET ROLE to it before granting it to himself.

    Who may not grant it (the role was made by somebody else) is expected to have been granted it already.
    """
    op.execute(
        f"""
        DO $$ BEGIN
            GRANT {role} TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END $$
        """
    )


def _policies(table: str, column: str) -> None:
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"({column} = {tenant} OR {tenant} = '*')"
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {table} TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON {table} TO {WORKER} USING (true) WITH CHECK (true)")


def _visible_attempt_columns() -> str:
    columns = sa.inspect(op.get_bind()).get_columns("attempt")
    return ", ".join(column["name"] for column in columns if column["name"] not in ATTEMPT_HIDDEN)


def _installation() -> None:
    """Made once and kept by the way down: another id would make every VM a stranger's, and nobody would end it."""
    identity = load_settings().installation_id or f"gpl-{secrets.token_hex(6)}"
    op.get_bind().execute(
        sa.text("INSERT INTO installation (id, token_key) VALUES (:id, :key) ON CONFLICT (one) DO NOTHING"),
        {"id": identity, "key": secrets.token_bytes(32)},
    )
