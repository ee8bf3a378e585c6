"""What cost reports cost: ten million usage records of a month, 200 tenants, and 20,000 live leases whose hour is closed."""

import argparse
import gzip
import io
import time
import urllib.request
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import cast

import psycopg

from app.local.ports import free_port
from app.prerequisites import ensure_operator_key
from bench import api, load, processes, report, servers
from bench.api import Service
from bench.dashboard import ATTEMPTS
from bench.plant import plant
from workers.jobs.record_usage import record_usage
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

TENANTS, HOURS = 200, 720
REPORT_LIMIT_MS, JOB_LIMIT_SECONDS, ROWS_PER_SECOND = 200.0, 10.0, 50_000.0
_RUNNING = """
    UPDATE lease SET billing_started_at = now() - interval '3 hours' WHERE ended_at IS NULL
"""
_INDEXES = ("tenant_id_starts_at", "starts_at", "lease_id")
_RECORDS = """
    INSERT INTO usage_record (attempt_id, starts_at, revision, tenant_id, lease_id, lease_name, n, labels, provider, account,
        region, zone, instance_type, instance_id, market, gpu_model, gpu_count, seconds, price_per_hour, compute_cost,
        disk_cost, address_cost, list_cost, disk_gib_hours, gpu_hours)
    SELECT 'attempt_b' || lpad(a::text, 25, '0'), h, 0, t.id, 'lease_b' || lpad(a::text, 25, '0'), 'bench', 1,
        jsonb_build_object('team', 'team-' || a %% 20), k.provider, 'main', k.region, 'a', k.type, 'i-' || a, k.market, k.model,
        1, 3600, 1.006, 1.006, 0, 0, 1.5, 0, 1
    FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM tenant) t
    JOIN generate_series(0, %(attempts)s - 1) a ON a %% %(tenants)s = t.place
    JOIN (VALUES (0, 'aws', 'us-east-1', 'g5.xlarge', 'spot', 'A10G'), (1, 'aws', 'us-west-2', 'p4d.24xlarge', 'on_demand', 'A100'),
        (2, 'gcp', 'europe-west4', 'a2-highgpu-1g', 'spot', 'A100'), (3, 'gcp', 'us-central1', 'a3-highgpu-8g', 'on_demand', 'H100'),
        (4, 'azure', 'eastus', 'Standard_NC24ads_A100_v4', 'spot', 'A100')) k (n, provider, region, type, market, model)
        ON k.n = (a / %(tenants)s) %% 5
    CROSS JOIN generate_series(%(since)s::timestamptz, %(since)s::timestamptz + %(hours)s * interval '1 hour' - interval '1 second',
        interval '1 hour') h
"""
_SUMS = """
    INSERT INTO cost_rollup (tenant_id, step, starts_at, provider, region, gpu_model, market, instance_type, compute_cost, disk_cost,
        address_cost, list_cost, gpu_hours, leases, leases_started)
    SELECT tenant_id, step, date_trunc(step, starts_at, 'UTC'), provider, region, gpu_model, market, instance_type, sum(compute_cost),
        0, 0, sum(list_cost), sum(gpu_hours), count(DISTINCT lease_id), 0
    FROM usage_record CROSS JOIN (VALUES ('hour'), ('day')) s (step) GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
"""


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    with servers.running() as running:
        plant(running.superuser_url, tenants=TENANTS, leases=5 * arguments.live)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            connection.execute(_RUNNING)
            connection.execute(ATTEMPTS)
            connection.execute("VACUUM ANALYZE")
        _job(running.database_url)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            since = _fill(connection, arguments.records)
        key = ensure_operator_key(running.database_url, None)
        port = free_port()
        environment = running.environment(port=str(port), rate_limit="1000000/minute")
        with processes.python(
            "app.server", "api", environment=environment, folder=running.folder, url=f"http://127.0.0.1:{port}/livez"
        ) as process:
            _reports(Service(process, port), key, since, arguments.requests)
            _export(port, key, since, process.pid)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--live", type=int, default=20_000, help="leases that run; four times as many have ended")
    parser.add_argument("--requests", type=int, default=20, help="for each figure")
    return parser.parse_args()


def _job(url: str) -> None:
    """The hours of the live leases, from their records to their sums."""
    database = WorkerDatabase(url, pool_size=2)
    runtime = cast(
        Runtime, SimpleNamespace(database=database, stopping=Event(), settings=SimpleNamespace(sample_seconds=60))
    )
    started = time.perf_counter()
    count = record_usage(runtime, "", "")
    seconds = time.perf_counter() - started
    with database.begin() as connection:
        hours = connection.exec_driver_sql("SELECT count(DISTINCT starts_at) FROM usage_record").scalar() or 1
    report.figure(
        "closing an hour of the live leases", seconds / hours, "s", ("limit", JOB_LIMIT_SECONDS), records=count / hours
    )
    database.close()


def _fill(connection: "psycopg.Connection[tuple[object, ...]]", records: int) -> datetime:
    """A month of records, and their sums. Returns its start."""
    (since,) = connection.execute(
        "SELECT date_trunc('month', date_trunc('month', now(), 'UTC') - interval '1 day', 'UTC')"
    ).fetchone() or (None,)
    assert isinstance(since, datetime)
    for name in _INDEXES:
        connection.execute(f"DROP INDEX ix_usage_record_{name}".encode())
    connection.execute("TRUNCATE usage_record, cost_rollup")
    values = {"attempts": records // HOURS, "tenants": TENANTS, "hours": HOURS, "since": since}
    connection.execute(_RECORDS, values)
    for name in _INDEXES:
        columns = name.replace("tenant_id_", "tenant_id, ").replace("lease_id", "lease_id, starts_at")
        connection.execute(f"CREATE INDEX ix_usage_record_{name} ON usage_record ({columns})".encode())
    connection.execute(_SUMS)
    connection.execute("VACUUM ANALYZE usage_record, cost_rollup")
    return since


def _reports(service: Service, key: str, since: datetime, count: int) -> None:
    header = f"Authorization: Bearer {key}"
    floor = load.closed_loop(service.port, lambda _: api.request("GET", "/v1/me", header), count=count, connections=1)
    floor_ms = floor.seconds / count * 1000
    period = f"from={_text(since)}&to={_text(since + timedelta(hours=HOURS))}"
    for what, query in (
        ("a month by day and tenant", "bucket=day&group_by=tenant"),
        ("a month by month and GPU model and market", "bucket=month&group_by=gpu_model,market"),
        ("a week by hour and provider", f"bucket=hour&group_by=provider&to={_text(since + timedelta(days=7))}"),
    ):
        range_ = period if "to=" not in query else f"from={_text(since)}"
        sent = api.request("GET", f"/v1/costs?{range_}&{query}", header)
        found = load.closed_loop(service.port, lambda _, sent=sent: sent, count=count, connections=1)
        found.must_all_be(200)
        facts = {"limit_ms": REPORT_LIMIT_MS, "p95_ms": found.percentile_ms(0.95)}
        report.figure(f"{what}, p50", found.percentile_ms(0.5), "ms", ("GET /v1/me, mean", floor_ms), **facts)


def _export(port: int, key: str, since: datetime, pid: int) -> None:
    """Rows a second of the export, compressed, and how much the process grew."""
    headers = {"Authorization": f"Bearer {key}", "Accept-Encoding": "gzip"}
    url = f"http://127.0.0.1:{port}/v1/costs/focus?month={since:%Y-%m}"
    before, started, rows = _peak_mib(pid), time.perf_counter(), 0
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        content = gzip.GzipFile(fileobj=io.BufferedReader(answer))
        while piece := content.read(1 << 20):
            rows += piece.count(b"\n")
    seconds = time.perf_counter() - started
    grown = _peak_mib(pid) - before
    report.figure("FOCUS export", rows / seconds, "rows/s", ("at least", ROWS_PER_SECOND), rows=rows, grown_mib=grown)


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main()
