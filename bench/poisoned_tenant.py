"""What a tenant with the most rows that the API lets it create does to another one: its budgets, and its groups.

The large tenant has 20,000 live leases and 1,000 budgets, the limit: 100 shared ones, and five for each key. Each budget has a period that is over,
each claim is missing, and half of the budgets have passed their thresholds. The rows are written into the database.
The other tenant creates a budget that is exceeded at once and ends its leases. It also starts groups.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
from psycopg.types.json import Jsonb

from app.domain.budgets import MOST, MOST_OF_KEY, MOST_SHARED
from app.local.waiting import wait_until
from bench import report, stack
from bench.burst import AMPLE_VCPUS, lease_body
from bench.groups import Customer
from bench.plant import LEASE_REQUEST
from bench.stack import Stack

GROUP = 8
_PATIENCE = 300.0
_PLANT = """
    INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds) VALUES (pg_temp.name('tenant', 0), 'large', 604800, 604800);
    INSERT INTO api_key (id, tenant_id, role, name, secret_hash)
        SELECT pg_temp.name('key', n), pg_temp.name('tenant', 0), 'member', 'large-' || n, sha256(n::text::bytea)
        FROM generate_series(1, {keys}) n;
    INSERT INTO quota (tenant_id, resource, "limit")
        SELECT pg_temp.name('tenant', 0), unnest(ARRAY['gpus', 'gpus:A10G', 'leases', 'spend_per_hour']), 10000000;
    INSERT INTO budget (id, tenant_id, kind, key_id, period, period_started_at, period_ends_at, amount, thresholds,
            when_exceeded, set_by)
        SELECT pg_temp.name('budget', n), pg_temp.name('tenant', 0), CASE WHEN n <= {shared} THEN 'tenant' ELSE 'key' END,
            CASE WHEN n > {shared} THEN pg_temp.name('key', 1 + n % {keys}) END, 'day', now() - interval '2 days',
            now() - interval '1 day', CASE WHEN n % 2 = 0 THEN 1 ELSE 10000000 END, '[50, 80, 100]',
            CASE WHEN n % 2 = 0 THEN 'notify' ELSE 'end' END, 'admin'
        FROM generate_series(1, {budgets}) n;
    INSERT INTO quota (tenant_id, resource, "limit")
        SELECT tenant_id, 'budget:' || id, NULL FROM budget WHERE tenant_id = pg_temp.name('tenant', 0);
    INSERT INTO lease (id, tenant_id, name, key_id, labels, request, minimum_claim, state, desired, provider, account, region,
            gpu_model, gpu_count, attempts_count, rate_per_hour, rate_since, created_at, first_attempt_at, launched_at,
            running_at, ready_at, billing_started_at, expires_at, wait_until, updated_at)
        SELECT pg_temp.name('lease', n), pg_temp.name('tenant', 0), 'large-' || n, pg_temp.name('key', 1 + n % {keys}), '{{}}',
            pg_temp.request(), '{{"gpus": "1"}}', 'active', 'run', 'aws', 'elsewhere', 'us-east-1', 'A10G', 1, 1, 1.006, at, at, at,
            at, at, at, at, now() + interval '5 days', at, at
        FROM (SELECT n, now() - n * interval '1 second' AS at FROM generate_series(1, {leases}) n) planted;
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
            price_per_hour, token, params_hash, state, instance_id, vm_state, ready, known_at, billing_started_at)
        SELECT pg_temp.name('attempt', n), pg_temp.name('lease', n), pg_temp.name('tenant', 0), 1, 'aws', 'elsewhere', 'us-east-1',
            'us-east-1a', 'g5.xlarge', 'on_demand', '{{"gpu": {{"model": "A10G", "count": 1}}}}', 1.006, 'large-' || n, '', 'known',
            'i-large-' || n, 'running', true, at, at
        FROM (SELECT n, now() - n * interval '1 second' AS at FROM generate_series(1, {leases}) n) planted;
"""
_IDS = """
    CREATE FUNCTION pg_temp.name(kind text, n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
        $$ SELECT kind || '_01jz' || lpad(n::text, 22, '0') $$;
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.poisoned_tenant", description=__doc__)
    parser.add_argument("--leases", type=int, default=20_000, help="of the large tenant")
    parser.add_argument("--budgets", type=int, default=MOST, help="of the large tenant")
    parser.add_argument("--times", type=int, default=5, help="how often each figure is measured")
    arguments = parser.parse_args()
    options = ["--profile", "realistic", "--workers", "2", "--clouds", "aws", "--gpu-agents", "0"]
    with stack.running(*options) as running, _other_tenant(running) as other:
        alone = _measured(other, arguments.times)
        _plant(running, arguments)
        beside = _measured(other, arguments.times)
        left = _left_to_begin(running)
    size = f"{arguments.budgets} budgets and {arguments.leases} leases"
    for number, what in enumerate(
        ("an exceeded budget, until its lease ends", f"a group of {GROUP}, until it is active")
    ):
        report.figure(
            f"{what}, beside a tenant with {size}: median of {arguments.times}",
            statistics.median(beside[number]),
            "s",
            ("without that tenant", statistics.median(alone[number])),
            most=max(beside[number]),
            most_alone=max(alone[number]),
            large_tenant_budgets_in_the_last_period=left,
        )


class _Other:
    """The other tenant, and the operator who sets its budget."""

    def __init__(self, running: Stack, own: httpx.Client, operator: httpx.Client) -> None:
        self._own, self._operator, self._tenant_id = own, operator, running.tenant_id
        self._groups = Customer(running, own)

    def budget_seconds(self) -> float:
        """From the answer to a new budget that is exceeded until its lease ends."""
        lease_id = self._call(self._own, "POST", "/v1/leases", json=lease_body("aws"))["id"]
        self._await_lease(lease_id, {"active"})
        wish = {"scope": {"kind": "tenant", "tenant_id": self._tenant_id}, "period": "lifetime", "amount": "0.01"}
        budget = self._call(self._operator, "POST", "/v1/budgets", json={**wish, "when_exceeded": "end"})
        began = time.monotonic()
        self._await_lease(lease_id, {"releasing", "released"})
        seconds = time.monotonic() - began
        self._call(self._operator, "DELETE", f"/v1/budgets/{budget['id']}")
        self._await_lease(lease_id, {"released"})
        return seconds

    def group_seconds(self) -> float:
        """From the request until every member is active."""
        group_id = self._groups.create(GROUP, "aws")
        seconds = self._groups.await_state(group_id, "active")
        self._call(self._own, "DELETE", f"/v1/groups/{group_id}")
        self._groups.await_state(group_id, "ended")
        return seconds

    def _await_lease(self, lease_id: str, states: set[str]) -> None:
        if not wait_until(lambda: self._lease(lease_id)["state"] in states, timeout=_PATIENCE, poll=0.1):
            raise SystemExit(f"not {states}: {self._lease(lease_id)}")

    def _lease(self, lease_id: str) -> Any:
        return self._call(self._own, "GET", f"/v1/leases/{lease_id}")

    @staticmethod
    def _call(client: httpx.Client, method: str, path: str, **more: Any) -> Any:
        answer = client.request(method, path, **more)
        if answer.is_error:
            raise SystemExit(f"{method} {path}: {answer.text}")
        return answer.json() if answer.content else None


@contextmanager
def _other_tenant(running: Stack) -> Iterator[_Other]:
    running.ample_quota()
    running.simulate("PUT", "settings", {"default_quota_vcpus": AMPLE_VCPUS})
    with _client(running, running.tenant_key) as own, _client(running, running.operator_key) as operator:
        yield _Other(running, own, operator)


def _client(running: Stack, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=running.api_url, headers=headers, timeout=60, trust_env=False)


def _measured(other: _Other, times: int) -> tuple[list[float], list[float]]:
    return [other.budget_seconds() for _ in range(times)], [other.group_seconds() for _ in range(times)]


def _plant(running: Stack, arguments: argparse.Namespace) -> None:
    keys = max(1, (arguments.budgets - MOST_SHARED) // MOST_OF_KEY)
    sizes = {"keys": keys, "shared": MOST_SHARED, "budgets": arguments.budgets, "leases": arguments.leases}
    request = "CREATE FUNCTION pg_temp.request() RETURNS jsonb LANGUAGE sql AS $$ SELECT {}::jsonb $$"
    with psycopg.connect(running.database_url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute(_IDS)
        connection.execute(psycopg.sql.SQL(request).format(psycopg.sql.Literal(Jsonb(LEASE_REQUEST))))
        connection.execute(_PLANT.format(**sizes).encode())


def _left_to_begin(running: Stack) -> int:
    with psycopg.connect(running.database_url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        row = connection.execute("SELECT count(*) FROM budget WHERE period_ends_at < now()").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
