"""What samples of GPUs cost: their intake in one API process, other reads meanwhile, and the series of a lease.

`intake`: CPU of one API process per sample. `reads`: p99 of GET /v1/leases/{id} with and without the samples of 10,000
leases, each once a minute. `series`: 7 days in steps of 5 minutes. Each figure has a baseline of the same run.
"""

import argparse
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import mean
from threading import Event
from types import SimpleNamespace
from typing import cast

import psycopg
from psycopg.types.json import Jsonb

from app.domain.gpus.samples import LEAST_STEP
from app.domain.tokens import agent_hash
from app.local.ports import free_port
from bench import api, load, processes, report, servers
from bench.api import Cost, Service, request
from bench.dashboard import ATTEMPTS
from bench.load import NextRequest, Result
from bench.plant import HARDWARE, Tenant, plant
from bench.servers import Servers
from workers.jobs.gpu_samples import roll_up_samples
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

TENANTS = 200
TARGET_CPU_MS, TARGET_SERIES_MS, TARGET_RATIO = 0.6, 20.0, 1.3
CONNECTIONS = 16
_DAYS = 7
_ROW = "one row inserted through asyncpg behind a bare route, at the same rate"
_HISTORY = """
    INSERT INTO gpu_sample (lease_id, tenant_id, at, idle, gpu_percent, memory_percent, power_w, temperature_c, sm_clock_mhz,
        cpu_percent, host_memory_percent, disk_percent, uuids, gpu_values)
    SELECT l.id, l.tenant_id, m, false, v, 40, 300 * %(gpus)s, 61, 1980, 22, 31, 44, u.uuids,
        ARRAY[array_fill(v, ARRAY[%(gpus)s]), array_fill(40::smallint, ARRAY[%(gpus)s]),
              array_fill(61::smallint, ARRAY[%(gpus)s]), array_fill(300::smallint, ARRAY[%(gpus)s])]
    FROM generate_series(%(since)s::timestamptz, %(until)s::timestamptz - interval '1 second', interval '1 minute') m,
        (SELECT id, tenant_id FROM lease WHERE ended_at IS NULL ORDER BY id LIMIT %(leases)s) l,
        LATERAL (SELECT (50 + 40 * sin(extract(epoch FROM m) / 3000))::smallint AS v) s,
        (SELECT array_agg('GPU-00000000-0000-0000-0000-' || lpad(g::text, 12, '0')) AS uuids
         FROM generate_series(1, %(gpus)s) g) u
"""
"""Minute by minute, as samples arrive: those of one lease are as far apart as they are in use."""
_PARTITIONS = """
    DO $$
    DECLARE day date := current_date - %(day)s; parent text;
    BEGIN
        FOREACH parent IN ARRAY ARRAY['gpu_sample', 'gpu_series'] LOOP
            EXECUTE format('CREATE TABLE gpu_partitions.%%s_%%s PARTITION OF %%I FOR VALUES FROM (%%L) TO (%%L)', parent,
                to_char(day, 'YYYYMMDD'), parent, day::timestamptz, (day + 1)::timestamptz);
        END LOOP;
    END $$
"""
_LATEST = """
    INSERT INTO gpu_latest (lease_id, tenant_id, attempt_id, sampled_at, received_at)
    SELECT DISTINCT lease_id, tenant_id, 'attempt_x', now(), now() FROM gpu_sample
"""
_RAW = """
    SELECT floor(extract(epoch FROM at) / 300) AS step, avg(gpu_percent), avg(memory_percent), avg(power_w), avg(temperature_c),
        avg(sm_clock_mhz), avg(cpu_percent), avg(host_memory_percent), avg(disk_percent)
    FROM gpu_sample WHERE lease_id = %s AND at >= now() - interval '7 days' GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True)
class Agent:
    """The token and the GPUs of a lease's VM."""

    lease_id: str
    token: str
    gpus: int

    def sample(self, at: float) -> bytes:
        """A request with one sample."""
        gpus = [
            {
                "uuid": f"GPU-{n:08d}-{self.lease_id[-26:]}",
                "utilization": 87,
                "memory_used_mib": 61_000,
                "memory_mib": 81_559,
                "power_w": 612.25,
                "temperature_c": 61,
                "sm_clock_mhz": 1980,
                "ecc_uncorrected": 0,
                "remap_failed": False,
                "recovery_action": "none",
                "throttle": 0,
            }
            for n in range(self.gpus)
        ]
        sample = {"at": at, "gpus": gpus, "cpu_percent": 21.5, "memory_percent": 31.0, "disk_percent": 44.0}
        content = {"version": 1, "agent": "1.0", "boot_id": self.lease_id[-26:], "samples": [sample], "xids": []}
        body = json.dumps({**content, "benchmark": None}).encode()
        return request("POST", "/v1/agent/samples", f"Authorization: Bearer {self.token}", body=body)


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    with servers.running() as running:
        tenants = plant(running.superuser_url, tenants=TENANTS, leases=5 * arguments.leases)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            connection.execute(ATTEMPTS)
            connection.execute("UPDATE lease SET gpu_count = %s", [arguments.gpus])
            connection.execute("UPDATE attempt SET offering = %s", [Jsonb(_offering(arguments.gpus))])
        agents = _give_tokens(running, arguments.gpus)
        if "series" in arguments.only:
            _plant_history(running, arguments.history, arguments.gpus)
        with _api(running) as service, _baselines(running) as baselines:
            measure = Measure(running, service, baselines, tenants, agents, arguments)
            for name in arguments.only:
                MEASUREMENTS[name](measure)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.telemetry", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*MEASUREMENTS], default=[*MEASUREMENTS])
    parser.add_argument("--leases", type=int, default=10_000, help="that report each minute")
    parser.add_argument("--gpus", type=int, default=1, help="of each lease")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement at a rate")
    parser.add_argument("--history", type=int, default=500, help="leases with samples of 7 days, for `series`")
    parser.add_argument("--requests", type=int, default=100, help="for each series")
    return parser.parse_args()


class Measure:
    """The measurements; `rate` is that of all leases, each once a minute."""

    def __init__(
        self,
        running: Servers,
        service: Service,
        baselines: Service,
        tenants: Sequence[Tenant],
        agents: Sequence[Agent],
        arguments: argparse.Namespace,
    ) -> None:
        self._running, self._service, self._baselines = running, service, baselines
        self._tenants, self._agents, self._arguments = tenants, agents, arguments
        self._rate = len(agents) / 60
        api.cost(baselines, self._insert(), 400)

    def intake(self) -> None:
        """CPU per sample at the rate of all leases."""
        count = min(int(self._rate * self._arguments.seconds), len(self._agents))
        self._begin(count)
        before = self._at_rate(self._baselines, self._insert(), count // 2, 201)
        found = self._at_rate(self._service, self._sample, count, 204)
        after = self._at_rate(self._baselines, self._insert(), count // 2, 201)
        report.figure(
            f"POST /v1/agent/samples at {self._rate:.0f}/s, CPU per sample of {self._arguments.gpus} GPUs",
            found.cpu_ms,
            "ms",
            (_ROW, mean((before.cpu_ms, after.cpu_ms))),
            target=TARGET_CPU_MS,
            p50_ms=found.result.percentile_ms(0.5),
            p99_ms=found.result.percentile_ms(0.99),
            samples=count,
            load=_load(),
        )

    def reads(self) -> None:
        """GET of a lease, without and with samples, in turns."""
        quiet, busy = Result(), Result()
        self._begin(min(int(self._rate * (self._arguments.seconds + 1)), len(self._agents)))
        for _ in range(2):
            quiet.latencies += self._reads().latencies
            with self._reporting():
                busy.latencies += self._reads().latencies
        report.figure(
            f"GET /v1/leases/{{id}} while {len(self._agents)} leases report each minute, p99",
            busy.percentile_ms(0.99),
            "ms",
            ("the same without samples", quiet.percentile_ms(0.99)),
            target_ratio=TARGET_RATIO,
            ratio=busy.percentile_ms(0.99) / quiet.percentile_ms(0.99),
            p50_ms=busy.percentile_ms(0.5),
            p50_ms_without=quiet.percentile_ms(0.5),
            load=_load(),
        )

    def series(self) -> None:
        """Seven days in steps of five minutes, each time of another lease."""
        with psycopg.connect(self._running.superuser_url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT DISTINCT lease_id, tenant_id FROM gpu_rollup ORDER BY lease_id LIMIT %s",
                [self._arguments.requests],
            ).fetchall()
            (now,) = connection.execute("SELECT now()").fetchone() or (None,)
            assert isinstance(now, datetime)
            raw = []
            for lease_id, _ in rows[:20]:
                started = time.perf_counter()
                connection.execute(_RAW, [lease_id]).fetchall()
                raw.append((time.perf_counter() - started) * 1000)
        keys = {tenant.id: tenant.key for tenant in self._tenants}
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now.timestamp() - _DAYS * 86_400 + 600))
        sent = [
            request(
                "GET",
                f"/v1/leases/{lease_id}/metrics?from={since}&step=300",
                f"Authorization: Bearer {keys[tenant_id]}",
            )
            for lease_id, tenant_id in rows
        ]
        first = self._one_by_one(sent[:1], 1)
        cold = self._one_by_one(sent[1:], len(sent) - 1)
        warm = self._one_by_one(sent, len(sent))
        report.figure(
            f"metrics of a lease of {self._arguments.gpus} GPUs, 7 days in steps of 5 minutes, p50",
            cold.percentile_ms(0.5),
            "ms",
            ("the series of the lease alone from its samples, in SQL", sorted(raw)[len(raw) // 2]),
            target=TARGET_SERIES_MS,
            p95_ms=cold.percentile_ms(0.95),
            p50_ms_again=warm.percentile_ms(0.5),
            first_ms=first.percentile_ms(0.5),
            leases_with_samples=self._arguments.history,
            load=_load(),
        )

    def _one_by_one(self, sent: Sequence[bytes], count: int) -> Result:
        found = load.closed_loop(self._service.port, lambda n: sent[n % len(sent)], count=count, connections=1)
        found.must_all_be(200)
        return found

    def _at_rate(self, service: Service, make: NextRequest, count: int, status: int) -> Cost:
        before = service.process.cpu_seconds()
        result = load.open_loop(service.port, make, count=count, connections=4 * CONNECTIONS, rate=self._rate)
        result.must_all_be(status)
        return Cost((service.process.cpu_seconds() - before) / count * 1000, result)

    def _begin(self, count: int) -> None:
        """The first sample of so many leases, which is judged, and the pause until the next one may come."""
        Event().wait(60 * LEAST_STEP + 1)
        first = load.closed_loop(self._service.port, self._sample, count=count, connections=4 * CONNECTIONS)
        first.must_all_be(204)
        Event().wait(60 * LEAST_STEP + 1)

    def _sample(self, number: int) -> bytes:
        return self._agents[number % len(self._agents)].sample(time.time())

    def _send(self, count: int) -> Result:
        """A sample of each lease at the rate of all."""
        return load.open_loop(
            self._service.port, self._sample, count=count, connections=4 * CONNECTIONS, rate=self._rate
        )

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """All leases report meanwhile, from a process of its own."""
        count = min(int(self._rate * (self._arguments.seconds + 1)), len(self._agents))
        child = os.fork()
        if child == 0:
            status = 0
            try:
                self._send(count).must_all_be(204)
            except BaseException:  # noqa: BLE001 - the parent is told by the status
                status = 1
            os._exit(status)
        Event().wait(0.5)
        try:
            yield
        finally:
            _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit("samples were refused")

    def _reads(self) -> Result:
        """A hundred a second: far from the highest rate."""
        rate = 100.0
        asked = [(tenant.key, lease_id) for tenant in self._tenants for lease_id in tenant.leases[-3:]]

        def make(number: int) -> bytes:
            key, lease_id = asked[number % len(asked)]
            return request("GET", f"/v1/leases/{lease_id}", f"Authorization: Bearer {key}")

        count = int(rate * self._arguments.seconds)
        found = load.open_loop(self._service.port, make, count=count, connections=CONNECTIONS, rate=rate)
        found.must_all_be(200)
        return found

    @staticmethod
    def _insert() -> NextRequest:
        plain = request("POST", "/insert", body=b"{}")
        return lambda _: plain


def _offering(gpus: int) -> dict[str, object]:
    return {**HARDWARE, "gpu": {**HARDWARE["gpu"], "count": gpus, "memory_gib": 80}}


def _give_tokens(running: Servers, gpus: int) -> list[Agent]:
    with psycopg.connect(running.superuser_url) as connection:
        leases = [row[0] for row in connection.execute("SELECT id FROM lease WHERE ended_at IS NULL ORDER BY id")]
        agents = [Agent(lease_id, secrets.token_hex(32), gpus) for lease_id in leases]
        connection.execute("CREATE TEMPORARY TABLE given (lease_id text PRIMARY KEY, hash bytea) ON COMMIT DROP")
        with connection.cursor().copy("COPY given FROM STDIN") as copy:
            for agent in agents:
                copy.write_row((agent.lease_id, agent_hash(agent.token)))
        connection.execute("UPDATE attempt a SET agent_hash = g.hash FROM given g WHERE a.lease_id = g.lease_id")
    with psycopg.connect(running.superuser_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE attempt")
    return agents


def _plant_history(running: Servers, leases: int, gpus: int) -> None:
    """Samples of seven days, and their sums as the job makes them."""
    with psycopg.connect(running.superuser_url, autocommit=True) as connection:
        for day in range(2, _DAYS + 2):
            connection.execute((_PARTITIONS % {"day": day}).encode())
        (until,) = connection.execute("SELECT now()").fetchone() or (None,)
        assert isinstance(until, datetime)
        since = until - timedelta(days=_DAYS)
        connection.execute(_HISTORY, {"since": since, "until": until, "leases": leases, "gpus": gpus})
        connection.execute(_LATEST)
        connection.execute("VACUUM ANALYZE")
    database = WorkerDatabase(running.database_url, pool_size=2)
    runtime = cast(
        Runtime, SimpleNamespace(database=database, stopping=Event(), settings=SimpleNamespace(raw_sample_days=_DAYS))
    )
    started = time.perf_counter()
    count = roll_up_samples(runtime, "", "")
    seconds = time.perf_counter() - started
    database.close()
    report.figure(
        "summing up a sample, in PostgreSQL",
        seconds / (count * 60) * 1e6,
        "us",
        ("an hour of 10,000 leases may take", 3600 / 600_000 * 1e6),
        lease_hours=count,
        load=_load(),
    )
    with psycopg.connect(running.superuser_url, autocommit=True) as connection:
        connection.execute("DELETE FROM gpu_latest")
        connection.execute("VACUUM ANALYZE")


@contextmanager
def _api(running: Servers) -> Iterator[Service]:
    port = free_port()
    environment = running.environment(port=str(port), rate_limit="1000000/minute")
    with processes.python(
        "app.server", "api", environment=environment, folder=running.folder, url=f"http://127.0.0.1:{port}/livez"
    ) as process:
        yield Service(process, port)


@contextmanager
def _baselines(running: Servers) -> Iterator[Service]:
    port = free_port()
    environment = {**running.environment(), "BENCH_PORT": str(port)}
    with processes.python(
        "bench.baselines", environment=environment, folder=running.folder, url=f"http://127.0.0.1:{port}/bare"
    ) as process:
        yield Service(process, port)


def _load() -> float:
    """The load of the machine in the last minute."""
    return os.getloadavg()[0]


MEASUREMENTS = {"intake": Measure.intake, "reads": Measure.reads, "series": Measure.series}

if __name__ == "__main__":
    main()
