"""One tenant has as many rows as it may, all due before the one row of another tenant. That row has its turn all the same.

The table has an entry for each periodic job and each loop of the workers: a new one without an entry fails the test. Rows are
scaled down from what docs/limits.md allows, and so is what one pass of a job takes: they are more than one pass. `refused`:
PostgreSQL then refuses each write about the large tenant to this table, as it would where its rows break a rule.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import pytest
from sqlalchemy import text

from app.db.groups import coordination
from app.db.leases import claims
from app.db.operations import purge
from tests.harness.databases import Databases
from tests.house.sources import ROOT
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.delivery import operator_messages, webhooks
from workers.delivery.sender import Sender
from workers.groups.coordinator import _MOST_AT_ONCE, _TAKEN
from workers.jobs import gpu_samples, housekeeping, idle_notices, notices, record_usage, volumes
from workers.jobs.budgets import apply_budgets
from workers.jobs.roll_up_usage import roll_up_usage
from workers.jobs.schedule import job_specs
from workers.runtime.runtime import Runtime

LARGE, OTHER = "tenant_large", "tenant_other"
SMALLER = 20
"""So many times fewer rows, and rows of a pass, than there may be."""
PASSES = (
    (gpu_samples, "_BATCH"),
    (record_usage, "_BATCH"),
    (notices, "_LEASES"),
    (idle_notices, "_LEASES"),
    (volumes, "_MOST_AT_ONCE"),
    (housekeeping, "EVENTS"),
    (webhooks, "_EVENTS"),
    (purge, "MOST"),
)
"""What a pass takes."""
LEASES = 700 // SMALLER
"""Of the large tenant: the write limit allows 3,600 new ones an hour, so 700 are 1 in 5 of those of an hour."""
EVENTS = 2_500 // SMALLER
"""A change of each of these leases, four times."""
PURGED = 5_200 // SMALLER
"""Rows that are past their time: the write limit makes 5,200 in 90 minutes."""
BUDGETS = 200
"""Of 1,000."""
WEBHOOKS = 10
"""All that a tenant may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """`plant`: statements that make the rows. `run`: one pass. `done`: a query that answers whether the other's row was
    acted on. `passes`: how many it may take, with the reason in the entry."""

    plant: tuple[str, ...]
    run: Callable[[Runtime], object]
    done: str
    passes: int = 1
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Without:
    """No row that a tenant creates decides what this job or loop does, or other tests have the rows."""

    reason: str


TENANTS = """
    INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds)
    SELECT id, id, 604800, 604800 FROM unnest(ARRAY['tenant_large', 'tenant_other']) id
"""
ROWS = "(SELECT n, CASE WHEN n <= {count} THEN 'tenant_large' ELSE 'tenant_other' END AS tenant FROM generate_series(1, {count} + 1) n)"
"""Numbers and their tenants: the last one is the other's."""


def rows(count: int) -> str:
    return ROWS.format(count=count) + " r"


def leases(count: int = LEASES, **columns: str) -> str:
    """Active leases, in whose columns `n` is the number. The other's is the last one."""
    given = {
        "id": "'lease_' || lpad(n::text, 26, '0')",
        "tenant_id": "tenant",
        "name": "'l' || n",
        "request": """'{"ttl_seconds": 3600}'::jsonb""",
        "minimum_claim": "'{}'::jsonb",
        "expires_at": "now() + interval '5 days'",
        "wait_until": "now()",
        "created_at": "now() - interval '2 hours'",
        "state": "'active'",
        "ready_at": "now() - interval '2 hours'",
        **columns,
    }
    return f"INSERT INTO lease ({', '.join(given)}) SELECT {', '.join(given.values())} FROM {rows(count)}"


def attempts(count: int = LEASES, **columns: str) -> tuple[str, str]:
    """Their running VMs, billed for 100 minutes."""
    given = {
        "id": "'attempt_' || lpad(n::text, 26, '0')",
        "lease_id": "'lease_' || lpad(n::text, 26, '0')",
        "tenant_id": "tenant",
        "n": "1",
        "provider": "'aws'",
        "account": "'elsewhere'",
        "region": "'us-east-1'",
        "zone": "'us-east-1a'",
        "instance_type": "'g5.xlarge'",
        "market": "'on_demand'",
        "offering": """'{"gpu": {"model": "A10G", "count": 1}}'::jsonb""",
        "price_per_hour": "1",
        "token": "'t' || n",
        "params_hash": "''",
        "state": "'known'",
        "instance_id": "'i-' || n",
        "vm_state": "'running'",
        "ready": "true",
        "known_at": "now() - interval '100 minutes'",
        "billing_started_at": "now() - interval '100 minutes'",
        **columns,
    }
    return (
        f"INSERT INTO attempt ({', '.join(given)}) SELECT {', '.join(given.values())} FROM {rows(count)}",
        "UPDATE lease SET attempts_count = 1",
    )


def events(count: int, sequence: str) -> str:
    return f"""
        INSERT INTO event (id, tenant_id, type, data, sequence)
        SELECT 'event_' || lpad(n::text, 26, '0'), tenant, 'quota.nearly_used',
            '{{"resource": "gpus", "limit": 1, "used": 1}}'::jsonb, {sequence} FROM {rows(count)} ORDER BY n
        """


def past(table: str, columns: str, values: str, count: int = PURGED) -> str:
    """Rows past their time. The large tenant's are older."""
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {rows(count)}"


SAMPLES = f"""
    INSERT INTO gpu_latest (lease_id, tenant_id, attempt_id, sampled_at, received_at, idle_since, idle_samples)
    SELECT 'lease_' || lpad(n::text, 26, '0'), tenant, 'attempt_' || lpad(n::text, 26, '0'), now(), now(),
        now() - interval '1 hour' + n * interval '1 ms', 60
    FROM {rows(LEASES)}
"""
WEBHOOK = f"""
    INSERT INTO webhook (id, tenant_id, url, position, created_at, next_due)
    SELECT 'webhook_' || lpad(n::text, 26, '0'), tenant, 'https://example.com', 0, now() - interval '1 day',
        now() - interval '1 hour' + n * interval '1 s' FROM {rows(WEBHOOKS)}
"""
HAS_EVENT = "SELECT EXISTS (SELECT FROM event WHERE tenant_id = 'tenant_other' AND type = '{}')"


def tell(runtime: Runtime) -> object:
    return notices.tell(runtime, "", "")


def number(runtime: Runtime) -> object:
    return housekeeping.number_events(runtime)


def claim_leases(runtime: Runtime) -> object:
    return runtime.database.all(claims.claim_due(runtime.settings.worker_threads, 60))


def take_groups(runtime: Runtime) -> object:
    return runtime.database.all(coordination.take_due(_MOST_AT_ONCE, _TAKEN))


def claim_lanes(runtime: Runtime) -> object:
    """As many as there are threads, and none of them returns."""
    lanes = webhooks.Lanes(runtime.database, Sender(local=False, seconds=1), threads=4, stopping=runtime.stopping)
    return [lanes._claim() for _ in range(4)]


def tell_operators(runtime: Runtime) -> object:
    class Receiver:
        id = "r"

        def send(self, title: str, body: str) -> bool:
            return True

    operator_messages.collect(runtime.database, ["budget"])
    return operator_messages.send(runtime.database, [Receiver()], installation="i")


_OF_TENANTS = "it reads clouds and rows of operators"
_TOGETHER = "one query takes every row of its region, and one listing shows all: tests/workers/observation"

IDLE = '{"ttl_seconds": 3600, "idle": {"after_seconds": 600, "action": "notify", "warnings": []}}'
CLAIMS = "INSERT INTO quota_claim (lease_id, tenant_id, resource, amount) SELECT id, tenant_id, 'gpus', 1 FROM lease"

TURNS: dict[str, Turn | Without] = {
    # --- jobs
    "inventory": Without(_TOGETHER),
    "watch": Without(_TOGETHER),
    "leftovers": Without(
        "leftovers come in random order, and one that stays counts for nothing: tests/workers/observation"
    ),
    "offerings": Without(_OF_TENANTS),
    "prices": Without(_OF_TENANTS + "; a changed price of a VM has a transaction of its own"),
    "checks": Without(_OF_TENANTS),
    "reservations": Without(_OF_TENANTS),
    "places": Without(_OF_TENANTS),
    "charges": Without("it has a row for each month of an invoice"),
    "gpu_partitions": Without("it has a partition for each day"),
    "operators": Turn(
        plant=(
            f"""
            INSERT INTO event (id, tenant_id, type, data, sequence)
            SELECT 'event_' || lpad(n::text, 26, '0'), tenant, 'budget.threshold',
                '{{"threshold": 100, "when_exceeded": "notify"}}'::jsonb, n FROM {rows(BUDGETS)}
            """,
            f"UPDATE installation SET operators_told_until = 0, event_sequence = {BUDGETS + 1}",
        ),
        run=tell_operators,
        done="""SELECT EXISTS (SELECT FROM operator_message WHERE text LIKE '%tenant_other%' AND sent_at IS NOT NULL)""",
    ),
    "usage": Turn(
        plant=(leases(), *attempts()),
        run=lambda runtime: roll_up_usage(runtime, "", ""),
        done="SELECT EXISTS (SELECT FROM usage_rollup WHERE tenant_id = 'tenant_other')",
    ),
    "usage_records": Turn(
        plant=(leases(), *attempts()),
        run=lambda runtime: record_usage.record_usage(runtime, "", ""),
        done="SELECT EXISTS (SELECT FROM usage_record WHERE tenant_id = 'tenant_other')",
    ),
    "gpu_samples": Turn(
        plant=(
            leases(),
            SAMPLES,
            "SELECT maintain_gpu_partitions(7)",
            f"""
            INSERT INTO gpu_sample (lease_id, at, tenant_id, idle, uuids, gpu_values)
            SELECT 'lease_' || lpad(n::text, 26, '0'), date_trunc('hour', now()) - interval '100 minutes', tenant, true, '{{}}', '{{}}'
            FROM {rows(LEASES)}
            """,
        ),
        run=lambda runtime: gpu_samples.roll_up_samples(runtime, "", ""),
        done="SELECT EXISTS (SELECT FROM gpu_rollup WHERE tenant_id = 'tenant_other')",
        refused="gpu_rollup",
    ),
    "budgets": Turn(
        plant=(
            f"""
            INSERT INTO budget (id, tenant_id, kind, period, period_started_at, amount, thresholds, when_exceeded, set_by)
            SELECT 'budget_' || lpad(n::text, 26, '0'), tenant, 'tenant', 'lifetime', now() - interval '1 day', 1, '[50]', 'notify',
                'operator' FROM {rows(BUDGETS)}
            """,
            "INSERT INTO quota (tenant_id, resource, spent) SELECT tenant_id, 'budget:' || id, 1 FROM budget",
        ),
        run=lambda runtime: apply_budgets(runtime, "", ""),
        done=HAS_EVENT.format("budget.threshold"),
        refused="event",
    ),
    "recount": Turn(
        plant=(leases(state="'released'", desired="'end'", next_due="NULL", ended_at="now()"), CLAIMS),
        run=housekeeping.recount,
        done=f"SELECT max(violations) = {LEASES + 1} FROM invariant",
    ),
    "purge": Without("see test_each_table_is_purged_beside_a_tenant_with_many_rows"),
    "notices": Turn(
        plant=(leases(expires_at="now() + interval '1 minute' + n * interval '1 ms'"),),
        run=tell,
        done=HAS_EVENT.format("lease.expiring_soon"),
        refused="event",
    ),
    "notices of spend caps": Turn(
        plant=(leases(max_cost="1", cost_closed="0.9"),),
        run=tell,
        done=HAS_EVENT.format("lease.cap_near"),
        refused="event",
    ),
    "notices of idle leases": Turn(
        plant=(leases(request=f"'{IDLE}'::jsonb"), SAMPLES),
        run=tell,
        done=HAS_EVENT.format("lease.idle"),
        refused="event",
    ),
    "notices of quotas": Turn(
        plant=(
            f"""
            INSERT INTO quota (tenant_id, resource, "limit", used) SELECT tenant, 'gpus:' || n, 1, 1 FROM {rows(BUDGETS)}
            """,
        ),
        run=tell,
        done=HAS_EVENT.format("quota.nearly_used"),
        refused="event",
    ),
    # --- loops
    "sweeper": Turn(
        plant=(leases(next_due="now() - interval '1 hour' + n * interval '1 ms'"),),
        run=claim_leases,
        done="SELECT EXISTS (SELECT FROM lease WHERE tenant_id = 'tenant_other' AND claim_id IS NOT NULL)",
    ),
    "groups": Turn(
        plant=(
            f"""
            INSERT INTO lease_group (id, tenant_id, name, size, min_size, lease, placement, interconnect, form_seconds,
                on_member_loss, wait_until, next_due)
            SELECT 'group_' || lpad(n::text, 26, '0'), tenant, 'g' || n, 2, 2, '{{}}', 'same_zone', 'none', 60, 'end', now(),
                now() - interval '1 hour' + n * interval '1 ms' FROM {rows(LEASES)}
            """,
        ),
        run=take_groups,
        done="SELECT next_due > now() FROM lease_group WHERE tenant_id = 'tenant_other'",
    ),
    "sequencer": Turn(
        # a pass numbers 2,000 events in one order (here 100), and the next one follows at once
        plant=(events(EVENTS, "NULL"),),
        run=number,
        done="SELECT sequence IS NOT NULL FROM event WHERE tenant_id = 'tenant_other'",
        passes=2,
    ),
    "webhooks": Turn(
        plant=(WEBHOOK, "UPDATE webhook SET next_due = NULL", events(EVENTS, "n")),
        run=lambda runtime: webhooks.fan_out(runtime.database),
        done="SELECT EXISTS (SELECT FROM webhook_delivery WHERE tenant_id = 'tenant_other')",
        refused="webhook_delivery",
    ),
    "webhooks that are due": Turn(
        plant=(WEBHOOK,),
        run=claim_lanes,
        done="SELECT claim_id IS NOT NULL FROM webhook WHERE tenant_id = 'tenant_other'",
    ),
    "volumes": Turn(
        plant=(
            past(
                "volume",
                "id, tenant_id, key_id, name, size_gib, provider, account, region, zone, retry_at",
                "'vol_' || lpad(n::text, 26, '0'), tenant, 'key_x', 'v' || n, 1, 'aws', 'sim', 'us-east-1', 'us-east-1a',"
                " now() - interval '1 hour' + n * interval '1 ms'",
                LEASES,
            ),
        ),
        run=lambda runtime: volumes.work_on_volumes(runtime, ACCOUNT, REGION),
        done="SELECT state = 'available' FROM volume WHERE tenant_id = 'tenant_other'",
        refused="volume",
    ),
    "volume_listings": Without("each listing is compared with all volumes of its place"),
    "labels": Without("each pass goes through all VMs that the process has noted"),
    "events": Without("it reads the queue of an account, in which no tenant writes"),
    "heartbeat": Without("it has a row for each process"),
    "presence": Without("it has a lock for each process"),
    "claim renewer": Without("it renews what the process itself has claimed"),
}
ALL = {name: turn for name, turn in TURNS.items() if isinstance(turn, Turn)}
_LOOP = re.compile(r'Loop\(\s*f?"([a-z ]+)')


def test_each_job_and_each_loop_has_an_entry(make_fleet: Callable[..., Fleet]) -> None:
    """An entry may have others beside it: `notices of idle leases`."""
    jobs = set(job_specs(make_fleet(observe=False).runtime.settings).all)
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "workers").rglob("*.py")]
    loops = {name.strip() for source in sources for name in _LOOP.findall(source)}
    assert len(loops) > 5, "the loops are written in another way"
    assert jobs | loops == {name.partition(" of ")[0].partition(" that ")[0] for name in TURNS}


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Rows that no program made break invariants."""
    with databases.fresh(checked=False) as url:
        yield url


@pytest.fixture(autouse=True)
def _passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes fewer rows."""
    limit = f"LIMIT {purge.MOST}"
    purges = [statement.text for statement in purge.STATEMENTS]
    assert sum(limit in statement for statement in purges) > 5, "the limit is written in another way"
    for module, name in PASSES:
        monkeypatch.setattr(module, name, getattr(module, name) // SMALLER)
    smaller = [text(statement.replace(limit, f"LIMIT {purge.MOST}")) for statement in purges]
    monkeypatch.setattr(purge, "STATEMENTS", smaller)


@pytest.fixture
def planted(
    databases: Databases, make_fleet: Callable[..., Fleet]
) -> Iterator[Callable[[tuple[str, ...], str | None], Runtime]]:
    """Plants rows, and answers the runtime of a worker. Writes about the large tenant to the table are refused, if one is named."""

    def plant(statements: tuple[str, ...], refused: str | None) -> Runtime:
        runtime = make_fleet(observe=False).runtime
        for statement in (TENANTS, *statements):
            databases.add(statement.replace("%", "%%"), {})
        if refused is not None:
            databases.add(REFUSE.replace("%", "%%"), {})
            databases.add(
                f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON {refused} FOR EACH ROW EXECUTE FUNCTION refuse()",
                {},
            )
        return runtime

    yield plant
    databases.add("DROP FUNCTION IF EXISTS refuse CASCADE", {})


REFUSE = """
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(NEW.tenant_id, OLD.tenant_id) = 'tenant_large' THEN
        RAISE EXCEPTION 'refused by the test';
    END IF;
    RETURN coalesce(NEW, OLD);
END $$
"""


def acted(runtime: Runtime, turn: Turn) -> bool:
    """Whether the other's row was acted on within the passes."""
    for _ in range(turn.passes):
        turn.run(runtime)
    with runtime.database.begin() as connection:
        return bool(connection.execute(text(turn.done)).scalar_one())


PURGED_TABLES = {
    "idempotency": past(
        "idempotency",
        "scope, key, route, body_hash, status, response, created_at",
        "tenant, n::text, 'r', '', 200, '{}'::jsonb, now() - interval '4 days' + n * interval '1 ms'",
    ),
    "event": past(
        "event",
        "id, tenant_id, type, data, sequence, at",
        "'event_' || lpad(n::text, 26, '0'), tenant, 'quota.nearly_used', '{}'::jsonb, n, now() - interval '91 days'",
    ),
    "quote": past(
        "quote",
        "id, tenant_id, key_id, request, plan, price_per_hour, total, valid_until",
        "'quote_' || lpad(n::text, 26, '0'), tenant, 'k', '{}'::jsonb, '{}'::jsonb, 1, 1, now() - interval '8 days' + n * interval '1 ms'",
    ),
    "webhook_delivery": past(
        "webhook_delivery",
        "id, webhook_id, tenant_id, event_id, event_type, about, gives_up_at, created_at",
        "'delivery_' || lpad(n::text, 26, '0'), 'w', tenant, n::text, 't', '{}'::jsonb, now(), now() - interval '31 days' + n * interval '1 ms'",
    ),
    "audit": past(
        "audit",
        "id, tenant_id, principal, role, action, at",
        "'audit_' || lpad(n::text, 26, '0'), tenant, 'p', 'member', 'a', now() - interval '401 days'",
    ),
    "lease_console": past(
        "lease_console",
        "lease_id, n, tenant_id, text, at",
        "'lease_' || lpad(n::text, 26, '0'), 1, tenant, '', now() - interval '8 days'",
    ),
}


@pytest.mark.parametrize("table", PURGED_TABLES)
def test_each_table_is_purged_beside_a_tenant_with_many_rows(planted: Callable[..., Runtime], table: str) -> None:
    owner = "scope" if table == "idempotency" else "tenant_id"
    left = f"SELECT NOT EXISTS (SELECT FROM {table} WHERE {owner} = '{OTHER}')"
    turn = Turn(plant=(PURGED_TABLES[table],), run=housekeeping.forget_old, done=left)
    purged = acted(planted(turn.plant, None), turn)
    assert purged


def test_a_table_that_cannot_be_purged_keeps_no_other_table_from_it(planted: Callable[..., Runtime]) -> None:
    plant = (PURGED_TABLES["quote"], PURGED_TABLES["audit"])
    left = f"SELECT NOT EXISTS (SELECT FROM audit WHERE tenant_id = '{OTHER}')"
    turn = Turn(plant=plant, run=housekeeping.forget_old, done=left)
    purged = acted(planted(plant, "quote"), turn)
    assert purged


@pytest.mark.parametrize(
    ("name", "fails"), [(name, fails) for name, fails in product(ALL, (False, True)) if not fails or ALL[name].refused]
)
def test_the_row_of_another_tenant_has_its_turn(planted: Callable[..., Runtime], name: str, *, fails: bool) -> None:
    turn = ALL[name]
    has_acted = acted(planted(turn.plant, turn.refused if fails else None), turn)
    assert has_acted
