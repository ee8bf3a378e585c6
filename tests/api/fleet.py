"""A small catalogue and what workers would write, put straight into the database."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Engine, NullPool, PoolProxiedConnection, create_engine

from app.db.core.ids import new_id
from app.db.core.urls import sync_url
from app.db.events import events
from app.domain import placed
from app.domain.offerings import Gpu, InstanceType, Interconnect
from app.domain.rates import Rate
from app.domain.tokens import agent_hash, host_key_hash

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example"

TYPES = {
    # name: model, GPUs, GiB each, vCPUs, GiB
    "g5.xlarge": ("A10G", 1, 24, 4, 16),
    "g5.12xlarge": ("A10G", 4, 24, 48, 192),
    "p4d.24xlarge": ("A100", 8, 40, 96, 1152),
}
PRICES = {"g5.xlarge": "1.006", "g5.12xlarge": "5.672", "p4d.24xlarge": "21.96"}


Connection = psycopg.Connection[dict[str, Any]]


def _connect(url: str) -> Connection:
    connection = Connection.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row)
    connection.execute("SET ROLE gpulease_worker")
    return connection


@cache
def _engine(url: str) -> Engine:
    options: dict[str, Any] = {"options": "-c role=gpulease_worker"}
    return create_engine(sync_url(url), poolclass=NullPool, connect_args=options, isolation_level="AUTOCOMMIT")


class _Kept:
    """A connection for all statements of a test. Opening one costs PostgreSQL 9 ms, and most statements less than one."""

    def __init__(self) -> None:
        self._url = ""
        self._connection: PoolProxiedConnection | None = None

    def run(self, url: str, statement: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
        if self._connection is None or url != self._url:
            self.hand_back()
            self._url, self._connection = url, _engine(url).raw_connection()
        driver: Any = self._connection.driver_connection
        cursor = driver.cursor(row_factory=psycopg.rows.dict_row)
        cursor.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else []

    def hand_back(self) -> None:
        """The next test takes it over (tests/harness/kept_connections.py)."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


KEPT = _Kept()


class Fleet:
    """Writes as the database's owner, past row-level security."""

    def __init__(self, database_url: str) -> None:
        self.url = database_url

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with _connect(self.url) as connection:
            yield connection

    def run(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        try:
            return KEPT.run(self.url, statement, parameters)
        except psycopg.OperationalError:  # after each test somebody hangs up
            KEPT.hand_back()
            return KEPT.run(self.url, statement, parameters)

    def account(self, name: str = "main", *regions: str) -> None:
        self.run("INSERT INTO account (name, provider, config, state) VALUES (%s, 'aws', '{}', 'ok')", name)
        for region in regions or ("us-east-1",):
            self.run("INSERT INTO account_region (account, region) VALUES (%s, %s)", name, region)

    def offering(self, instance_type: str, /, **changes: Any) -> None:
        """An offering with the facts of one of TYPES; `changes` may give it another name."""
        model, count, memory, vcpus, ram = TYPES[instance_type]
        row = {
            "account": "main",
            "region": "us-east-1",
            "zone": "us-east-1a",
            "instance_type": instance_type,
            "market": "on_demand",
            "provider": "aws",
            "gpu_model": model,
            "gpu_count": count,
            "gpu_memory_gib": memory,
            "gpu_interconnect": "PCIe",
            "vcpus": vcpus,
            "memory_gib": ram,
            "price_per_hour": PRICES[instance_type],
            "price_source": "list",
            **changes,
        }
        self._insert("offering", row)

    def cordon(self, **where: str) -> None:
        """Cordons what has these values, in every region."""
        by = {"by": "key_1", "since": "2026-07-01T12:00:00Z", "note": None}
        cordon = {"zone": None, "instance_type": None, "market": None, **where, **by}
        self.run("UPDATE account_region SET cordons = %s", Jsonb([cordon]))

    def catalogue(self) -> None:
        """g5.xlarge in two zones and on spot, g5.12xlarge, p4d.24xlarge."""
        self.account()
        self.offering("g5.xlarge")
        self.offering("g5.xlarge", zone="us-east-1b")
        self.offering("g5.xlarge", market="spot", price_per_hour="0.4")
        self.offering("g5.12xlarge")
        self.offering("p4d.24xlarge")

    def set_lease(self, lease_id: str, **values: Any) -> None:
        """Writes columns of a lease, as a transition would: version and time with it."""
        columns = ", ".join(f"{name} = %s" for name in values)
        self.run(
            f"UPDATE lease SET {columns}, version = version + 1, updated_at = now() WHERE id = %s",
            *(Jsonb(value) if isinstance(value, dict) else value for value in values.values()),
            lease_id,
        )

    def attempt(self, lease_id: str, n: int, **changes: Any) -> str:
        """An attempt of a lease; a known one of a running VM unless `changes` says otherwise."""
        tenant_id = self.run("SELECT tenant_id FROM lease WHERE id = %s", lease_id)[0]["tenant_id"]
        row = {
            "id": new_id("attempt"),
            "lease_id": lease_id,
            "tenant_id": tenant_id,
            "n": n,
            "provider": "aws",
            "account": "main",
            "region": "us-east-1",
            "zone": "us-east-1a",
            "instance_type": "g5.xlarge",
            "market": "on_demand",
            "offering": Jsonb(PLACE_FACTS),
            "price_per_hour": "1.006",
            "token": new_id("token"),
            "params_hash": "0" * 16,
            "state": "known",
            "instance_id": new_id("i"),
            "vm_state": "running",
            **changes,
        }
        self._insert("attempt", row)
        self.run("UPDATE lease SET attempts_count = greatest(attempts_count, %s) WHERE id = %s", n, lease_id)
        return str(row["id"])

    def volume(self, tenant_id: str, name: str = "data", **changes: Any) -> str:
        """A volume of the tenant, available and free unless `changes` say otherwise, with its quota. Answers its id."""
        row = {
            "id": new_id("vol"),
            "tenant_id": tenant_id,
            "key_id": "key_x",
            "name": name,
            "size_gib": 10,
            "provider": "aws",
            "account": "main",
            "region": "us-east-1",
            "zone": "us-east-1a",
            "state": "available",
            "cloud_id": new_id("disk"),
            "price_per_hour": "0.001096",
            "billing_started_at": "now()",
            "retry_at": None,
            **changes,
        }
        self._insert("volume", row)
        self.run(
            "INSERT INTO quota (tenant_id, resource, used) VALUES (%s, 'volume_gib', %s) "
            "ON CONFLICT (tenant_id, resource) DO UPDATE SET used = quota.used + excluded.used",
            tenant_id,
            0 if row.get("ended_at") else row["size_gib"],
        )
        return str(row["id"])

    def archive_attempt(self, tenant_id: str) -> None:
        """What is left of a lease that was purged."""
        where = {**WHERE, "price_per_hour": "1.006", "instance_id": new_id("i"), "ended_at": "now()", "n": 1}
        self._insert(
            "attempt_archive",
            {"id": new_id("attempt"), "lease_id": new_id("lease"), "tenant_id": tenant_id, **where},
        )

    def sum_up(self, tenant_id: str) -> None:
        """A stored hour of use."""
        counts = ("leases_created", "leases_ready", "leases_failed", "capacity_failures", "interruptions")
        where = {"tenant_id": tenant_id, "step": "hour", "starts_at": "2026-11-01", "provider": "*", "gpu_model": "*"}
        self._insert("usage_rollup", {**where, "gpu_seconds": 3600, "cost": "1.006", **dict.fromkeys(counts, 1)})

    def cost(self, tenant_id: str, lease_id: str) -> None:
        """Two closed hours of the last days, recorded and summed up."""
        place = {"provider": "aws", "region": "us-east-1", "market": "spot", "instance_type": "g5.xlarge"}
        amounts = {"compute_cost": 1, "disk_cost": 0, "address_cost": 0, "list_cost": 1, "gpu_hours": 1}
        used = {"seconds": 3600, "price_per_hour": 1, "disk_gib_hours": 0, "labels": Jsonb({})}
        ids = {"attempt_id": new_id("attempt"), "lease_id": lease_id, "lease_name": "one", "n": 1}
        (now,) = self.run("SELECT date_trunc('day', now(), 'UTC') AS day")
        self.run("UPDATE usage_progress SET recorded_until = %s", now["day"])
        for days in (1, 2):
            what = {"tenant_id": tenant_id, **place, **amounts, "starts_at": now["day"] - timedelta(days=days)}
            self._insert("usage_record", {**what, **used, **ids, "revision": 0, "account": "main", "zone": "a"})
            for step in ("hour", "day"):
                self._insert("cost_rollup", {**what, "step": step, "gpu_model": "A10G", "leases": 1})

    def reprice(self, lease_id: str) -> None:
        """A change of the price of its attempts, as the provider made it."""
        self.run(
            "INSERT INTO attempt_price (attempt_id, starts_at, tenant_id, price_per_hour, price_source) "
            "SELECT id, now(), tenant_id, 0.9, 'list' FROM attempt WHERE lease_id = %s",
            lease_id,
        )

    def benchmark(self, lease_id: str) -> None:
        """What the agent in its VM measured of a GPU."""
        self.run(
            "INSERT INTO gpu_benchmark (attempt_id, uuid, lease_id, tenant_id, n, provider, account, region, zone, "
            "instance_type, agent, libraries, counted, bf16_tflops) SELECT id, 'GPU-1', lease_id, tenant_id, n, provider, "
            "account, region, zone, instance_type, '1.0', '{}', true, 61.5 FROM attempt WHERE lease_id = %s",
            lease_id,
        )

    def activate(self, lease_id: str) -> str:
        """As if workers had launched it an hour ago. Answers the instance id."""
        self.attempt(lease_id, 1, instance_id=f"i-{lease_id[-8:]}")
        instance_id = f"i-{lease_id[-8:]}"
        self.run("UPDATE attempt SET billing_started_at = now() - interval '1 hour' WHERE lease_id = %s", lease_id)
        self.run(
            """
            UPDATE lease SET state = 'active', provider = 'aws', account = 'main', region = 'us-east-1', gpu_model = 'A10G',
                gpu_count = 1, placement = %s, connection = %s, launched_at = now() - interval '62 minutes',
                running_at = now() - interval '1 hour', ready_at = now() - interval '58 minutes', rate_per_hour = 1.006,
                rate_since = now() - interval '1 hour', billing_started_at = now() - interval '1 hour',
                first_attempt_at = now() - interval '63 minutes', version = version + 1, updated_at = now()
            WHERE id = %s
            """,
            Jsonb(placed.placement(WHERE, PLACE_FACTS, Rate(compute=Decimal("1.006000")), instance_id)),
            Jsonb(CONNECTION),
            lease_id,
        )
        return instance_id

    def give_token(self, lease_id: str, n: int = 1) -> str:
        """The one-time token with which the VM of an attempt may report its host keys."""
        token = secrets.token_hex(32)
        statement = "UPDATE attempt SET host_key_hash = %s WHERE lease_id = %s AND n = %s"
        self.run(statement, host_key_hash(token), lease_id, n)
        return token

    def give_agent_token(self, lease_id: str, n: int = 1) -> str:
        """The token of the agent in the VM of an attempt."""
        token = secrets.token_hex(32)
        self.run("UPDATE attempt SET agent_hash = %s WHERE lease_id = %s AND n = %s", agent_hash(token), lease_id, n)
        return token

    def finish(self, lease_id: str, state: str = "released") -> None:
        """As if workers had ended it."""
        self.run(
            "UPDATE attempt SET state = 'dead', clean = true, ended_at = now(), billing_ended_at = now() "
            "WHERE lease_id = %s AND ended_at IS NULL",
            lease_id,
        )
        self.run(
            """
            UPDATE quota q SET used = q.used - c.amount FROM quota_claim c
            WHERE c.lease_id = %s AND q.tenant_id = c.tenant_id AND q.resource = c.resource
            """,
            lease_id,
        )
        self.run("DELETE FROM quota_claim WHERE lease_id = %s", lease_id)
        self.run("DELETE FROM lease_secret WHERE lease_id = %s", lease_id)
        self.run(
            """
            UPDATE lease SET state = %s, desired = 'end', ended_at = now(), next_due = NULL, rate_per_hour = NULL,
                rate_since = NULL, version = version + 1, updated_at = now(),
                cost_closed = (SELECT coalesce(sum(price_per_hour * extract(epoch FROM billing_ended_at - billing_started_at)
                                                   / 3600), 0) FROM attempt WHERE lease_id = lease.id)
            WHERE id = %s
            """,
            state,
            lease_id,
        )

    def number_events(self) -> None:
        """What the sequencer of the workers does."""
        engine = _engine(self.url).execution_options(isolation_level="READ COMMITTED")
        with engine.begin() as connection:
            base = connection.execute(*events.LOCK_COUNTER).scalar_one()
            count = connection.execute(*events.number_new(base, 1000)).rowcount
            connection.execute(*events.move_counter(count))

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join("%s" for _ in row)
        self.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *row.values())


PLACE_FACTS = placed.hardware(
    InstanceType(
        name="g5.xlarge",
        gpu=Gpu(model="A10G", count=1, memory_gib=24, interconnect=Interconnect.PCIE),
        vcpus=4,
        memory_gib=Decimal("16.00"),
        local_disk_gib=232,
        network_gbps=Decimal(10),
    ),
    {"id": "ami-1", "name": "Deep Learning Base"},
)
WHERE = {
    "provider": "aws",
    "account": "main",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "instance_type": "g5.xlarge",
    "market": "on_demand",
}
CONNECTION = {
    "public_ip": "198.51.100.7",
    "private_ip": None,
    "ssh_user": "ubuntu",
    "ssh_port": 22,
    "ssh_command": "ssh ubuntu@198.51.100.7",
}
