"""What the dashboard costs with many leases: CPU of a poll, what 50 dashboards do to readers of leases, the browser.

10,000 active leases of 200 tenants among 50,000.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg

from app.local.ports import free_port
from app.prerequisites import ensure_operator_key
from bench import api, browser, load, processes, report, servers
from bench.api import Service, cost
from bench.load import NextRequest, Result
from bench.plant import Tenant, plant

VIEWS = {
    "fleet and stuck: GET /v1/ops/summary": "/v1/ops/summary",
    "leases: GET /v1/leases?limit=50&state=!terminal": "/v1/leases?limit=50&state=!terminal",
    "tenants: GET /v1/ops/tenants?limit=50": "/v1/ops/tenants?limit=50",
    "accounts: GET /v1/ops/accounts": "/v1/ops/accounts",
    "capacity: GET /v1/offerings?limit=200": "/v1/offerings?limit=200",
}
DASHBOARDS = 50
POLLED = ((5.0, "/v1/ops/summary"), (3.0, "/v1/leases?limit=50&state=!terminal"))
"""What each of them asks, every so many seconds: half look at the fleet, half at the leases."""
READS, READ_RATE = 2000, 100.0
ATTEMPTS = """
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
        price_per_hour, token, params_hash, state, clean, instance_id, billing_started_at, billing_ended_at, ended_at, created_at)
    SELECT 'attempt_' || right(id, 26), id, tenant_id, 1, provider, account, region, 'us-east-1a', 'g5.xlarge', 'on_demand',
        '{}', 1.006, id, '0', CASE WHEN ended_at IS NULL THEN 'known' ELSE 'dead' END, ended_at IS NOT NULL, 'i-' || right(id, 16),
        billing_started_at, billing_ended_at, ended_at, created_at
    FROM lease
"""


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    with servers.running() as running:
        planted = plant(running.superuser_url, tenants=200, leases=arguments.leases)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            connection.execute(ATTEMPTS)
            connection.execute("VACUUM ANALYZE")
        key = ensure_operator_key(running.database_url, None)
        port = free_port()
        environment = running.environment(
            port=str(port), rate_limit="1000000/minute", write_rate_limit="1000000/minute"
        )
        url = f"http://127.0.0.1:{port}"
        with processes.python(
            "app.server", "api", environment=environment, folder=running.folder, url=f"{url}/livez"
        ) as process:
            _polls(Service(process, port), key, arguments.requests)
            _beside(port, key, planted[0])
            browser.measure(url, key)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("--leases", type=int, default=50_000, help="one in five is active")
    parser.add_argument("--requests", type=int, default=300, help="polls for each figure")
    return parser.parse_args()


def _polls(service: Service, key: str, count: int) -> None:
    authorization = f"Authorization: Bearer {key}"
    floor = cost(service, _always(api.request("GET", "/v1/me", authorization)), count)
    for what, path in VIEWS.items():
        answer = httpx.get(
            f"http://127.0.0.1:{service.port}{path}", headers=dict([authorization.split(": ", 1)]), timeout=60
        )
        whole = api.request("GET", path, authorization)
        again = api.request("GET", path, authorization, f"If-None-Match: {answer.headers['etag']}")
        for name, one, status in (("changed", whole, 200), ("unchanged, 304", again, 304)):
            found = cost(service, _always(one), count)
            found.result.must_all_be(status)
            report.figure(
                f"{what}, {name}, CPU of a poll",
                found.cpu_ms,
                "ms",
                ("GET /v1/me", floor.cpu_ms),
                p50_ms=found.result.percentile_ms(0.5),
                bytes=len(answer.content) if status == 200 else 0,
            )


def _beside(port: int, key: str, tenant: Tenant) -> None:
    """Somebody reads leases at a steady rate: alone, beside dashboards to which nothing is new, and to which all is."""
    alone = _read(port, tenant)
    rate = sum(DASHBOARDS / len(POLLED) / every for every, _ in POLLED)
    for news, status in (("nothing is new", 304), ("everything is", 200)):
        with ThreadPoolExecutor(len(POLLED)) as threads:
            polls = [
                threads.submit(
                    _poll, port, _polled(port, key, path, news=status == 200), DASHBOARDS / len(POLLED) / every
                )
                for every, path in POLLED
            ]
            beside = _read(port, tenant)
            for poll in polls:
                poll.result().must_all_be(status)
        report.figure(
            f"GET /v1/leases/{{id}} beside {DASHBOARDS} dashboards to which {news}, p99 at {READ_RATE:.0f}/s",
            beside.percentile_ms(0.99),
            "ms",
            ("without them", alone.percentile_ms(0.99)),
            p50_ms=beside.percentile_ms(0.5),
            polls_per_second=rate,
        )


def _polled(port: int, key: str, path: str, *, news: bool) -> bytes:
    """A poll by somebody who remembers the answer, unless it is news."""
    authorization = f"Authorization: Bearer {key}"
    if news:
        return api.request("GET", path, authorization)
    answer = httpx.get(f"http://127.0.0.1:{port}{path}", headers=dict([authorization.split(": ", 1)]), timeout=60)
    return api.request("GET", path, authorization, f"If-None-Match: {answer.headers['etag']}")


def _read(port: int, tenant: Tenant) -> Result:
    key = f"Authorization: Bearer {tenant.key}"
    sent = [api.request("GET", f"/v1/leases/{lease_id}", key) for lease_id in tenant.leases]
    found = load.open_loop(port, lambda n: sent[n % len(sent)], count=READS, connections=16, rate=READ_RATE)
    found.must_all_be(200)
    return found


def _poll(port: int, sent: bytes, rate: float) -> Result:
    """For as long as the reading lasts."""
    return load.open_loop(port, _always(sent), count=int(rate * READS / READ_RATE), connections=8, rate=rate)


def _always(sent: bytes) -> NextRequest:
    return lambda _: sent


if __name__ == "__main__":
    main()
