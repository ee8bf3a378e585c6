"""The second wall between tenants: row-level security, seen through the role of the API."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import func, insert, select, text

from app.db.core.engine import ApiDatabase
from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.events import reads, webhooks
from app.db.fleet import volumes
from app.db.leases import attempt_reads, consoles, lists, reboots, statements, transitions
from app.db.schema.tables import (
    api_key,
    attempt,
    attempt_archive,
    attempt_price,
    bad_gpu,
    budget,
    budget_turn,
    cost_rollup,
    event,
    gpu_benchmark,
    gpu_latest,
    gpu_rollup,
    gpu_sample,
    gpu_series,
    idempotency,
    launch_batch,
    lease,
    lease_console,
    lease_group,
    lease_secret,
    metadata,
    quota,
    quota_claim,
    quote,
    ssh_key,
    usage_record,
    usage_rollup,
    volume,
    webhook,
    webhook_delivery,
    webhook_secret,
)
from app.db.schema.tables import audit as audit_table
from app.db.tenancy import audit, keys, quota_limits, ssh_keys
from app.db.tenancy import tenants as tenant_statements
from app.domain.gpus.samples import LEASE_SERIES
from app.domain.ids import LeaseId, TenantId
from app.domain.list_filters import EventFilter
from app.domain.reasons import Reason, ReasonCode
from tests.db.store import Store

TENANT_COLUMN = {"tenant": "id", "idempotency": "scope"}
TABLES = {
    name: TENANT_COLUMN.get(name, "tenant_id")
    for name, table in metadata.tables.items()
    if "tenant_id" in table.columns or name in TENANT_COLUMN
}
"""Every table with rows of tenants, and the column that says whose."""
READ = [name for name in TABLES if name != "launch_batch"]
"""The tables that the API's role may read: tests/migrations/api_rights.toml."""

Connection = psycopg.Connection[Any]
COUNTS = ("leases_created", "leases_ready", "leases_failed", "capacity_failures", "interruptions")
SUMMED_UP: dict[str, Any] = {
    "step": "hour",
    "starts_at": func.now(),
    "provider": "*",
    "gpu_model": "*",
    "gpu_seconds": 1,
    "cost": 1,
    **dict.fromkeys(COUNTS, 0),
}
ARCHIVED: dict[str, Any] = {
    **dict.fromkeys(("provider", "account", "region", "zone", "instance_type", "market"), "x"),
    "n": 1,
    "price_per_hour": 1,
    "ended_at": func.now(),
}
PLACE = ("provider", "region", "instance_type", "market", "gpu_model")
COSTS = ("compute_cost", "disk_cost", "address_cost", "list_cost", "gpu_hours")
HOUR: dict[str, Any] = {
    "starts_at": func.now(),
    **dict.fromkeys(PLACE, "x"),
    **dict.fromkeys(COSTS, 1),
}
RECORDED: dict[str, Any] = {
    **HOUR,
    **dict.fromkeys(("lease_name", "account", "zone"), "x"),
    **dict.fromkeys(("n", "seconds", "price_per_hour", "disk_gib_hours"), 1),
    "revision": 0,
    "labels": {},
}
BUDGET: dict[str, Any] = {
    "kind": "tenant",
    "period": "lifetime",
    "period_started_at": func.now(),
    "amount": 1,
    "thresholds": [],
    "when_exceeded": "refuse",
    "set_by": "operator",
}
MEASURED: dict[str, Any] = {
    **dict.fromkeys(("uuid", "provider", "account", "region", "zone", "instance_type", "agent"), "x"),
    "n": 1,
    "libraries": {},
    "counted": True,
}
BAD_GPU: dict[str, Any] = dict.fromkeys(
    ("uuid", "provider", "account", "region", "zone", "instance_type", "finding"), "x"
)
VOLUME: dict[str, Any] = {
    **dict.fromkeys(("name", "key_id", "provider", "account", "region", "zone"), "x"),
    "size_gib": 1,
}
QUOTE: dict[str, Any] = {
    "key_id": "key_x",
    "request": {},
    "plan": {},
    "price_per_hour": 1,
    "total": 1,
    "valid_until": func.now(),
}
GROUP: dict[str, Any] = {
    **dict.fromkeys(("size", "min_size", "form_seconds"), 1),
    "name": "g",
    "lease": {},
    "placement": "any",
    "interconnect": "none",
    "on_member_loss": "end",
    "wait_until": func.now(),
}
BATCH: dict[str, Any] = {
    **dict.fromkeys(("provider", "account", "region", "zone", "params_hash"), "x"),
    "slots": 1,
}
GPUS: dict[str, Any] = {"uuids": ["GPU-x"], "gpu_values": []}

ENDED = Reason(ReasonCode.RELEASED_BY_USER, "A user asked for it.")


def fill(store: Store, tenant: TenantId) -> None:
    """A row of `tenant` in every table of tenants."""
    store.tenant_id = tenant
    lease_id = store.lease()
    store.attempt(lease_id, params={"secret": tenant})
    owned = {"tenant_id": tenant}
    rows: list[tuple[Any, dict[str, Any]]] = [
        (api_key, {"id": new_id("key"), "role": "admin", "name": "k", "secret_hash": b"x"}),
        (audit_table, {"id": new_id("audit"), "principal": "p", "role": "admin", "action": "a"}),
        (event, {"id": new_id("event"), "type": "t", "data": {}, "sequence": next_number(store)}),
        (lease_secret, {"lease_id": lease_id, "startup_script": "secret"}),
        (lease_console, {"lease_id": lease_id, "n": 1, "text": "secret"}),
        (attempt_archive, {**ARCHIVED, "id": new_id("attempt"), "lease_id": new_id("lease")}),
        (quota, {"resource": "gpus", "used": 1}),
        (volume, {**VOLUME, "id": new_id("vol")}),
        (ssh_key, {"id": new_id("sshkey"), "name": "k", "public_key": "k", "fingerprint": "f", "key_id": "key_x"}),
        (quota_claim, {"lease_id": lease_id, "resource": "gpus", "amount": 1}),
        (usage_rollup, SUMMED_UP),
        (usage_record, {**RECORDED, "attempt_id": new_id("attempt"), "lease_id": lease_id}),
        (cost_rollup, {**HOUR, "step": "hour", "leases": 1}),
        (budget, {**BUDGET, "id": new_id("budget")}),
        (quote, {**QUOTE, "id": new_id("quote")}),
        (lease_group, {**GROUP, "id": new_id("group")}),
        (budget_turn, {"taken_at": func.now()}),
        (launch_batch, {**BATCH, "id": new_id("batch"), "token": new_id("batch")}),
        (gpu_latest, {"lease_id": lease_id, "attempt_id": "x", "sampled_at": func.now(), "received_at": func.now()}),
        (gpu_sample, {"lease_id": lease_id, "at": func.now(), "idle": True, **GPUS}),
        (gpu_series, {"lease_id": lease_id, "starts_at": func.now(), **{name: [1] for name in LEASE_SERIES}, **GPUS}),
        (gpu_rollup, {"lease_id": lease_id, "starts_at": func.now(), "samples": 1, "idle_samples": 1, **GPUS}),
        (
            attempt_price,
            {"attempt_id": new_id("attempt"), "starts_at": func.now(), "price_per_hour": 1, "price_source": "x"},
        ),
    ]
    rows.append((bad_gpu, {**BAD_GPU, "first_seen_at": func.now(), "last_seen_at": func.now()}))
    rows.append((gpu_benchmark, {**MEASURED, "attempt_id": new_id("attempt"), "lease_id": lease_id}))
    hook = {"webhook_id": new_id("webhook")}
    about = {"event_id": new_id("event"), "event_type": "t", "about": {}, "gives_up_at": func.now()}
    rows += [
        (webhook, {"id": hook["webhook_id"], "url": "https://hooks.example.org/", "position": 0}),
        (webhook_secret, {"id": new_id("whsec"), **hook, "secret": "whsec_"}),
        (webhook_delivery, {"id": new_id("delivery"), **hook, **about}),
    ]
    for table, values in rows:
        store.run(insert(table).values(**owned, **values))
    body: dict[str, Any] = {"key": "k", "route": "r", "body_hash": b"", "status": 201, "response": {}}
    store.run(insert(idempotency).values(scope=tenant, **body))


def next_number(store: Store) -> int:
    """The next free number of an event."""
    return 1 + len(store.rows(event))


@pytest.fixture
def tenants(store: Store) -> tuple[TenantId, TenantId]:
    one, two = store.tenant(), store.tenant()
    for tenant in (one, two):
        fill(store, tenant)
    return one, two


@pytest.fixture
def api(database_url: str, tenants: object) -> Iterator[Connection]:
    """A transaction as the API's role, tenant not set. Nothing is committed."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SET ROLE gpulease_api")
        yield connection
        connection.rollback()


def act_for(api: Connection, tenant: str) -> None:
    api.execute("SELECT set_config('gpulease.tenant', %s, true)", [tenant])


def owners(api: Connection, table: str) -> set[str]:
    """Whose rows an unfiltered SELECT shows."""
    statement = sql.SQL("SELECT {} FROM {}").format(sql.Identifier(TABLES[table]), sql.Identifier(table))
    return {owner for (owner,) in api.execute(statement)}


def refused(api: Connection, statement: str) -> str:
    """The message with which a statement is refused; what came before it in the transaction stays."""
    try:
        with api.transaction():
            api.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege as error:
        return str(error)
    return ""


def test_every_table_of_tenants_is_behind_the_wall(store: Store) -> None:
    rows = store.all(
        text(
            "SELECT relname, relrowsecurity AND relforcerowsecurity AS walled FROM pg_class WHERE relkind IN ('r', 'p')"
        )
    )
    walled = {row.relname for row in rows if row.walled}
    assert walled == {*TABLES, "reservation", "invoice_import", "invoice_line"}, "these have policies of their own"


def test_partitions_are_reached_through_their_table_alone(store: Store) -> None:
    """A policy of a table does not apply to its partitions: nobody but their owner may name them."""
    (row,) = store.all(
        text(
            "SELECT count(*) AS all, count(*) FILTER (WHERE has_table_privilege('gpulease_api', c.oid, 'SELECT, INSERT')) AS open "
            "FROM pg_class c WHERE relispartition AND relkind = 'r'"
        )
    )
    assert row.all > 0
    assert row.open == 0


def test_a_tenant_sees_its_own_rows_alone(api: Connection, tenants: tuple[TenantId, TenantId]) -> None:
    for tenant, table in product(tenants, READ):
        act_for(api, tenant)
        assert owners(api, table) == {tenant}, table


def test_without_a_tenant_nothing_is_seen(api: Connection) -> None:
    assert {table for table in READ if owners(api, table)} == set()
    for nobody in ("", " ", "%", "tenant_"):
        act_for(api, nobody)
        assert {table for table in READ if owners(api, table)} == set()


def test_operators_see_every_tenant(api: Connection, tenants: tuple[TenantId, TenantId]) -> None:
    act_for(api, "*")
    for table in READ:
        assert owners(api, table) >= set(tenants), table


def test_what_belongs_to_another_is_neither_changed_nor_deleted(
    api: Connection, store: Store, tenants: tuple[TenantId, TenantId]
) -> None:
    one, two = tenants
    act_for(api, one)
    for table, column in TABLES.items():
        for change in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
            statement = f"{change} WHERE {column} = '{two}'"
            assert refused(api, statement) or api.execute(statement.encode()).rowcount == 0, statement
        model = metadata.tables[table]
        assert store.first(select(func.count()).select_from(model).where(model.c[column] == two)) == (1,)


def test_no_row_is_given_to_another(api: Connection, tenants: tuple[TenantId, TenantId]) -> None:
    one, two = tenants
    act_for(api, one)
    for table, column in TABLES.items():
        assert refused(api, f"UPDATE {table} SET {column} = '{two}' WHERE {column} = '{one}'"), table


def test_no_row_is_made_for_another(api: Connection, tenants: tuple[TenantId, TenantId]) -> None:
    one, two = tenants
    act_for(api, one)
    made = "INSERT INTO audit (id, tenant_id, principal, role, action) VALUES ('audit_x', '{}', 'p', 'admin', 'a')"
    assert "row-level security" in refused(api, made.format(two))
    assert refused(api, made.format(one)) == ""
    lease_row = "INSERT INTO lease (id, tenant_id, name, request, minimum_claim, expires_at, wait_until) VALUES "
    assert "row-level security" in refused(api, f"{lease_row}('lease_x', '{two}', 'n', '{{}}', '{{}}', now(), now())")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("attempt", "params"),
        ("attempt", "token"),
        ("installation", "token_key"),
        ("attempt", "*"),
        ("webhook_secret", "secret"),
        ("webhook_secret", "*"),
        ("installation", "*"),
    ],
)
def test_what_only_workers_may_know_is_not_readable(api: Connection, table: str, column: str) -> None:
    act_for(api, "*")
    assert "permission denied" in refused(api, f"SELECT {column} FROM {table}")


FORBIDDEN = (
    "UPDATE attempt SET state = 'dead'",
    "DELETE FROM lease",
    "DELETE FROM event",
    "UPDATE event SET type = 'x'",
    "UPDATE audit SET action = 'x'",
    "DELETE FROM audit",
    "UPDATE lease_secret SET startup_script = 'x'",
    "UPDATE webhook_secret SET secret = 'x'",
    "DELETE FROM webhook_secret",
    "DELETE FROM webhook_delivery",
    "UPDATE webhook_delivery SET about = '{}'",
    "UPDATE ssh_key SET public_key = 'x'",
    "UPDATE ssh_key SET key_id = 'x'",
    "UPDATE volume SET cloud_id = 'x'",
    "UPDATE volume SET size_gib = 1",
    "DELETE FROM volume",
    "UPDATE installation SET id = 'x'",
    "UPDATE installation SET event_sequence = 0",
    "TRUNCATE lease CASCADE",
    "ALTER TABLE lease DISABLE ROW LEVEL SECURITY",
    "DROP POLICY tenant ON lease",
)


def test_the_api_may_not_rewrite_history_or_pull_the_wall_down(api: Connection) -> None:
    act_for(api, "*")
    assert [statement for statement in FORBIDDEN if not refused(api, statement)] == []


@pytest.mark.parametrize(
    "statement", ["UPDATE quota_claim SET amount = 1", "DELETE FROM quota_claim", "DELETE FROM quota"]
)
def test_the_api_changes_what_leases_hold_of_budgets_alone(
    api: Connection, store: Store, tenants: tuple[TenantId, TenantId], statement: str
) -> None:
    act_for(api, tenants[0])
    assert api.execute(statement.encode()).rowcount == 0
    owned = {"tenant_id": tenants[0], "resource": "budget:1"}
    (lease_id,) = (row.id for row in store.rows(lease) if row.tenant_id == tenants[0])
    store.run(insert(quota).values(**owned, used=2))
    store.run(insert(quota_claim).values(**owned, lease_id=lease_id, amount=2))
    api.commit()
    act_for(api, tenants[0])
    assert api.execute(statement.encode()).rowcount == 1


def test_the_setting_of_one_transaction_does_not_reach_the_next(
    database_url: str, tenants: tuple[TenantId, TenantId]
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("SET ROLE gpulease_api")
        connection.commit()
        act_for(connection, tenants[0])
        assert owners(connection, "lease") == {tenants[0]}
        connection.commit()
        assert owners(connection, "lease") == set()


def test_the_applications_own_filters_hold_without_the_wall(store: Store, tenants: tuple[TenantId, TenantId]) -> None:
    """Run as a worker, who sees every tenant."""
    one, _ = tenants
    pages: list[AnySelect] = [
        reads.numbered(after=0, limit=10, criteria=EventFilter(tenant_id=one)),
        audit.page(tenant_id=one, after=None, limit=10),
        keys.page(one, after=None, limit=10),
        ssh_keys.page(tenant_id=one, key_id=None, after=None, limit=10),
        webhooks.page(tenant_id=one, after=None, limit=10),
        volumes.page(tenant_id=one, states=(), name=None, after=None, limit=10),
        volumes.named(one, ["x"]),
        quota_limits.of_tenant(one),
    ]
    for statement in pages:
        (row,) = store.all(statement)
        assert getattr(row, "tenant_id", one) == one


def test_statements_about_one_thing_know_its_owner_without_the_wall(
    store: Store, tenants: tuple[TenantId, TenantId]
) -> None:
    """Run as a worker: what another tenant names is not there, what an operator names is."""
    one, two = tenants
    (lease_id,) = (row.id for row in store.rows(lease) if row.tenant_id == one)
    (key_id,) = (row.id for row in store.rows(api_key) if row.tenant_id == one)
    (ssh_key_id,) = (row.id for row in store.rows(ssh_key) if row.tenant_id == one)
    (volume_id,) = (row.id for row in store.rows(volume) if row.tenant_id == one)
    for within, there in ((two, False), (one, True), (None, True)):
        for named in (statements.READ, statements.READ_WITH_SCRIPT, statements.LOCK, statements.VERSION):
            assert bool(store.all(Bound(named, statements.named(lease_id, within)))) is there
        for statement in (
            attempt_reads.of_lease(lease_id, within=within, after=0, limit=10),
            consoles.of_lease(lease_id, within=within),
            keys.get(key_id, within=within),
            ssh_keys.get(ssh_key_id, within=within),
            volumes.get(volume_id, within=within),
            tenant_statements.get(one, within=within),
        ):
            assert bool(store.all(statement)) is there, statement


def test_changes_by_another_tenant_hold_nothing_without_the_wall(
    store: Store, tenants: tuple[TenantId, TenantId]
) -> None:
    one, two = tenants
    (lease_id,) = (LeaseId(row.id) for row in store.rows(lease) if row.tenant_id == one)
    (key_id,) = (row.id for row in store.rows(api_key) if row.tenant_id == one)
    before = (store.row(lease, lease_id), store.row(api_key, key_id))
    for statement in (
        keys.rotate(key_id, b"stolen", 0, within=two),
        keys.revoke(key_id, within=two),
        reboots.request(lease_id, None, within=two),
        transitions.request_end(lease_id, ENDED, None, within=two),
    ):
        assert store.first(statement) is None
    assert (store.row(lease, lease_id), store.row(api_key, key_id)) == before
    assert store.first(transitions.request_end(lease_id, ENDED, None, within=one)) is not None
    assert store.first(keys.revoke(key_id, within=one)) is not None


async def test_the_list_of_leases_is_filtered_without_the_wall_too(
    database_url: str, tenants: tuple[TenantId, TenantId]
) -> None:
    wanted = lists.LeaseFilter(tenant_id=tenants[0])
    query, parameters = lists.page(wanted, next(iter(lists.LeaseSort)), None, 10, 1_000_000)
    all_seeing = ApiDatabase(database_url, pool_size=1, role="gpulease_worker")
    rows = await all_seeing.fetch(None, query, **parameters)
    await all_seeing.close()
    assert [row["tenant_id"] for row in rows] == [tenants[0]]


def test_workers_see_every_tenant(store: Store, tenants: tuple[TenantId, TenantId]) -> None:
    for table in (lease, attempt, event):
        assert {row.tenant_id for row in store.rows(table)} >= set(tenants)
