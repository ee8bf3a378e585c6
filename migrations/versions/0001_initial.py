"""All tables, the two roles with their rights, and the installation's identity.

Revision: 0001
Follows:

Two group roles: `gpulease_api` sees one tenant at a time (setting `gpulease.tenant`, or `*` for operators and for the key
check), `gpulease_worker` sees all. A login is made a member of the role its process needs, and each process does
SET ROLE when it connects. Roles belong to the cluster: they are made only when missing and not dropped on the way
down, since another database may use them.
"""

import secrets
from pathlib import Path

import sqlalchemy as sa
from alembic import op

from app.settings import load_settings

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TENANT = "(SELECT current_setting('gpulease.tenant', true))"
TABLES = Path(__file__).with_name("0001_tables.sql")

# Table → the API's rights. A tenant's rows alone, or every row of what concerns no tenant.
OF_TENANTS = {
    "api_key": "SELECT, INSERT, UPDATE",
    "attempt_archive": "SELECT",
    "attempt_price": "SELECT",
    "audit": "SELECT, INSERT",
    "bad_gpu": "SELECT, DELETE",
    "budget": "SELECT, INSERT, UPDATE, DELETE",
    "budget_turn": "SELECT",
    "cost_rollup": "SELECT",
    "event": "SELECT, INSERT",
    "gpu_benchmark": "SELECT, INSERT",
    "gpu_latest": "SELECT, INSERT, UPDATE",
    "gpu_rollup": "SELECT",
    "gpu_sample": "SELECT, INSERT",
    "gpu_series": "SELECT",
    "idempotency": "SELECT, INSERT",
    "invoice_import": "SELECT",
    "invoice_line": "SELECT",
    "lease": "SELECT, INSERT, UPDATE",
    "lease_console": "SELECT",
    "lease_group": "SELECT, INSERT, UPDATE",
    "lease_secret": "SELECT, INSERT",
    "quota": "SELECT, INSERT, UPDATE, DELETE",
    "quota_claim": "SELECT, INSERT, UPDATE (amount, base), DELETE",
    "quote": "SELECT, INSERT",
    "reservation": "SELECT",
    "ssh_key": "SELECT, INSERT, UPDATE (name, is_default), DELETE",
    "tenant": "SELECT, INSERT, UPDATE",
    "usage_record": "SELECT",
    "usage_rollup": "SELECT",
    "volume": "SELECT, INSERT, "
    "UPDATE (state, reason, lease_id, last_lease_id, last_used_at, retry_at, tries, request_id, version, updated_at)",
    "webhook": "SELECT, INSERT, UPDATE, DELETE",
    "webhook_delivery": "SELECT, INSERT, UPDATE (state, tries, next_try_at, gives_up_at, ended_at)",
    "webhook_secret": "SELECT (webhook_id, id, tenant_id, valid_until, created_at), INSERT, UPDATE (valid_until)",
}
SHARED = {
    "account": "SELECT, UPDATE (cordoned)",
    "account_check": "SELECT, INSERT (account, requested_at), UPDATE (requested_at)",
    "account_region": "SELECT, UPDATE (cordons)",
    "alembic_version": "SELECT",
    "installation": "SELECT (one, id, hold, launches_stopped, event_sequence, created_at), "
    "UPDATE (system_identifier, timeline, hold, launches_stopped, database_identity)",
    "invariant": "SELECT",
    "offering": "SELECT",
    "orphan": "SELECT, UPDATE (end_after, adopt_requested_at, adopt_error)",
    "part_price": "SELECT",
    "periodic_job": "SELECT",
    "usage_progress": "SELECT",
    "worker_heartbeat": "SELECT, INSERT (name, kind), UPDATE (seen_at)",
}
OF_WORKERS = ("attempt", "launch_batch")
"""Tables of tenants of which the API reads some columns, or nothing."""
ATTEMPT_HIDDEN = frozenset(
    {"params", "token", "unreachable_since", "console_asked_at", "end_accepted", "batch_id", "batch_index", "batch_key"}
)
"""The API never reads what is sent to the provider: it holds startup scripts."""


def upgrade() -> None:
    _functions()
    op.get_bind().exec_driver_sql(TABLES.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
    _roles()
    op.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {WORKER}")
    op.execute(f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {WORKER}")
    op.execute(f"GRANT USAGE ON SEQUENCE event_row_id_seq TO {API}")
    for table in (*OF_TENANTS, *OF_WORKERS):
        _separate_tenants(table)
    _keep_limits()
    for table, rights in {**OF_TENANTS, **SHARED}.items():
        op.execute(f"GRANT {rights} ON {table} TO {API}")
    op.execute(f"GRANT SELECT ({_visible_attempt_columns()}) ON attempt TO {API}")
    op.execute(f"GRANT EXECUTE ON FUNCTION maintain_gpu_partitions TO {WORKER}")
    op.execute(f"GRANT USAGE ON SCHEMA gpu_partitions TO {WORKER}")
    op.execute("SELECT maintain_gpu_partitions(7)")
    op.execute("INSERT INTO usage_progress DEFAULT VALUES")
    _installation()


def downgrade() -> None:
    op.execute("DROP SCHEMA gpu_partitions CASCADE")
    tables = sa.inspect(op.get_bind()).get_table_names()
    op.execute(f"DROP TABLE {', '.join(table for table in tables if table != 'alembic_version')}")
    op.execute("DROP FUNCTION maintain_gpu_partitions, new_typeid")
    op.execute(f"REVOKE ALL ON alembic_version FROM {API}, {WORKER}")


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


def _separate_tenants(table: str) -> None:
    """The API sees rows of its tenant, workers see all. FORCE: the owner of the tables, who migrates, sees none."""
    own = _own_rows(table)
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {table} TO {API} USING ({own}) WITH CHECK ({own})")
    op.execute(f"CREATE POLICY worker ON {table} TO {WORKER} USING (true) WITH CHECK (true)")


def _own_rows(table: str) -> str:
    match table:
        case "invoice_import" | "invoice_line":
            return f"{TENANT} = '*'"
        case (
            "lease" | "tenant"
        ):  # the planner takes a CASE for half of the rows: operators' lists are read from the index
            column = "id" if table == "tenant" else "tenant_id"
            return f"CASE WHEN {TENANT} = '*' THEN true ELSE {column} = {TENANT} END"
        case "reservation":
            return f"tenants = '{{}}' OR {TENANT} = ANY (tenants) OR {TENANT} = '*'"
        case _:
            column = "scope" if table == "idempotency" else "tenant_id"
            return f"{column} = {TENANT} OR {TENANT} = '*'"


def _keep_limits() -> None:
    """The API deletes quotas and claims of budgets only, and changes claims of budgets only."""
    for table, action in (("quota", "delete"), ("quota_claim", "delete"), ("quota_claim", "update")):
        op.execute(
            f"CREATE POLICY budgets_{action} ON {table} AS RESTRICTIVE FOR {action.upper()} TO {API} "
            "USING (resource LIKE 'budget:%')"
        )


def _visible_attempt_columns() -> str:
    columns = sa.inspect(op.get_bind()).get_columns("attempt")
    return ", ".join(column["name"] for column in columns if column["name"] not in ATTEMPT_HIDDEN)


def _installation() -> None:
    """Kept with the database: another id would make every VM a stranger's, and nobody would end it."""
    identity = load_settings().installation_id or f"gpl-{secrets.token_hex(6)}"
    op.get_bind().execute(
        sa.text("INSERT INTO installation (id, token_key) VALUES (:id, :key)"),
        {"id": identity, "key": secrets.token_bytes(32)},
    )


def _functions() -> None:
    op.execute("CREATE SCHEMA gpu_partitions")
    op.execute(NEW_TYPEID)
    op.execute(MAINTAIN_GPU_PARTITIONS)
    op.execute("REVOKE ALL ON FUNCTION maintain_gpu_partitions FROM PUBLIC")


NEW_TYPEID = r"""
    CREATE FUNCTION new_typeid(prefix text) RETURNS text
    LANGUAGE sql PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT prefix || '_' || string_agg(
        substr('0123456789abcdefghjkmnpqrstvwxyz', substring(v.bits FROM 5 * i + 1 FOR 5)::bit(5)::int + 1, 1), '' ORDER BY i)
    FROM (SELECT B'00' || ('x' || replace(gen_random_uuid()::text, '-', ''))::bit(128) AS bits) v, generate_series(0, 25) i
    $$
    """
"""A new id as `app.domain.ids` writes it, for rows that a statement makes."""
MAINTAIN_GPU_PARTITIONS = """
    CREATE FUNCTION maintain_gpu_partitions(keep_days integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
    DECLARE parent text; day date; name text; count integer := 0;
    BEGIN
        FOREACH parent IN ARRAY ARRAY['gpu_sample', 'gpu_series'] LOOP
            FOR day IN SELECT generate_series(current_date - 1, current_date + 7, interval '1 day') LOOP
                name := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
                IF to_regclass(format('gpu_partitions.%I', name)) IS NULL THEN
                    EXECUTE format('CREATE TABLE gpu_partitions.%I (LIKE public.%I INCLUDING ALL)', name, parent);
                    EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION gpu_partitions.%I FOR VALUES FROM (%L) TO (%L)',
                                   parent, name, day::timestamptz, (day + 1)::timestamptz);
                    EXECUTE format('GRANT SELECT ON gpu_partitions.%I TO gpulease_worker', name);
                    count := count + 1;
                END IF;
            END LOOP;
            FOR name IN SELECT relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
                        WHERE i.inhparent = format('public.%I', parent)::regclass
                          AND right(relname, 8)::date < current_date - greatest(keep_days, 1) LOOP
                EXECUTE format('DROP TABLE gpu_partitions.%I', name);
                count := count + 1;
            END LOOP;
        END LOOP;
        RETURN count;
    END $$
"""
"""Creates the partitions of the next seven days and drops old ones. Owned by the owner of the tables: workers change no schema."""
