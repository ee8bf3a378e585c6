"""What a report of use costs: 10,000 live leases of 200 tenants, and 90 days of hourly sums behind them."""

import argparse
from datetime import UTC, datetime, timedelta

import psycopg

from app.local.ports import free_port
from app.prerequisites import ensure_operator_key
from bench import api, load, processes, report, servers
from bench.api import Service
from bench.dashboard import ATTEMPTS
from bench.load import Result
from bench.plant import plant

TENANTS, DAYS = 200, 90
LIMIT_MS = 100.0
_SPREAD = """
    UPDATE lease l SET created_at = at, ready_at = at + '1 minute', billing_started_at = at, updated_at = at,
        rate_since = CASE WHEN ended_at IS NULL THEN at END, billing_ended_at = CASE WHEN ended_at IS NOT NULL THEN at + '1 hour' END,
        ended_at = CASE WHEN ended_at IS NOT NULL THEN at + '1 hour' END
    FROM (SELECT id AS lease_id, now() - '2 hours'::interval - random() * CASE WHEN ended_at IS NULL THEN interval '7 days'
                 ELSE interval '89 days' END AS at FROM lease) s
    WHERE l.id = s.lease_id
"""
"""Live leases began in the last week, ended ones in the last 90 days."""
_SUMS = """
    INSERT INTO usage_rollup (tenant_id, step, starts_at, provider, gpu_model, gpu_seconds, cost, leases_created, leases_ready,
        leases_failed, capacity_failures, interruptions, ready_seconds_p50, ready_seconds_p95)
    SELECT k.tenant_id, s.step, s.starts_at, k.provider, k.gpu_model, 180000 * s.hours, 50.3 * s.hours, s.hours, s.hours, 0, 0, 0, 60, 300
    FROM (SELECT 'hour' AS step, h AS starts_at, 1 AS hours
          FROM generate_series(date_trunc('day', now(), 'UTC') - %(days)s * interval '24 hours',
                               date_trunc('hour', now()) - interval '1 hour', interval '1 hour') h
          UNION ALL
          SELECT 'day', d, 24 FROM generate_series(date_trunc('day', now(), 'UTC') - %(days)s * interval '24 hours',
                                                   date_trunc('day', now(), 'UTC') - interval '24 hours', interval '24 hours') d) s,
         (SELECT id AS tenant_id, p AS provider, m AS gpu_model
          FROM (SELECT id FROM tenant UNION ALL SELECT '*') t,
               (VALUES ('*', '*'), ('aws', '*'), ('gcp', '*'), ('*', 'A10G'), ('*', 'A100'), ('*', 'H100'), ('*', 'L4')) g (p, m)) k
"""
_REPORTS = {
    "operator, 90 days by tenant": ("operator", "step=day&group_by=tenant", 90),
    "operator, 90 days by cloud": ("operator", "step=day&group_by=provider", 90),
    "operator, 7 days by tenant, hourly": ("operator", "step=hour&group_by=tenant", 7),
    "operator, 24 hours by GPU model, hourly": ("operator", "step=hour&group_by=gpu_model", 1),
    "tenant, 90 days by GPU model": ("tenant", "step=day&group_by=gpu_model", 90),
    "tenant, 7 days by cloud, hourly": ("tenant", "step=hour&group_by=provider", 7),
}


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    with servers.running() as running:
        planted = plant(running.superuser_url, tenants=TENANTS, leases=5 * arguments.live)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            connection.execute(_SPREAD)
            connection.execute(ATTEMPTS)
            connection.execute(_SUMS, {"days": DAYS})
            connection.execute("UPDATE usage_progress SET rolled_until = date_trunc('hour', now())")
            connection.execute("VACUUM ANALYZE")
            (now,) = connection.execute("SELECT now()").fetchone() or (None,)
        assert isinstance(now, datetime)
        keys = {"operator": ensure_operator_key(running.database_url, None), "tenant": planted[0].key}
        port = free_port()
        environment = running.environment(port=str(port), rate_limit="1000000/minute")
        with processes.python(
            "app.server", "api", environment=environment, folder=running.folder, url=f"http://127.0.0.1:{port}/livez"
        ) as process:
            _reports(Service(process, port), keys, now, arguments.requests)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.usage", description=__doc__)
    parser.add_argument("--live", type=int, default=10_000, help="leases that run; four times as many have ended")
    parser.add_argument("--requests", type=int, default=40, choices=range(2, 46), metavar="N", help="for each figure")
    return parser.parse_args()


def _reports(service: Service, keys: dict[str, str], now: datetime, count: int) -> None:
    floor = _measure(service, [api.request("GET", "/v1/me", _header(keys["operator"]))], count)
    floor_ms = floor.seconds / count * 1000
    for what, who in (("summary of a tenant", "tenant"), ("summary of all tenants", "operator")):
        found = _measure(service, [api.request("GET", "/v1/summary", _header(keys[who]))], count)
        _print(what, found, floor_ms)
    for what, (who, query, days) in _REPORTS.items():
        since = (now - timedelta(days=days)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"/v1/usage?from={since}&{query}"
        # reports with another number of groups are not shared
        sent = [api.request("GET", f"{path}&top={top}", _header(keys[who])) for top in range(5, 5 + count)]
        shared = _measure(service, sent[:1], count)
        _print(
            f"{what}, first reader of a minute",
            _measure(service, sent[1:], count - 1),
            floor_ms,
            shared_p50_ms=shared.percentile_ms(0.5),
        )


def _header(key: str) -> str:
    return f"Authorization: Bearer {key}"


def _measure(service: Service, sent: list[bytes], count: int) -> Result:
    """One request after the other."""
    found = load.closed_loop(service.port, lambda n: sent[n % len(sent)], count=count, connections=1)
    found.must_all_be(200)
    return found


def _print(what: str, found: Result, floor_ms: float, **more: float) -> None:
    facts = {"limit_ms": LIMIT_MS, "p95_ms": found.percentile_ms(0.95), **more}
    report.figure(f"{what}, p50", found.percentile_ms(0.5), "ms", ("GET /v1/me, mean", floor_ms), **facts)


if __name__ == "__main__":
    main()
