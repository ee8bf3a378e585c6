"""Tenants, keys, quotas, a catalogue and leases, written straight into the database."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from app.db.core.ids import new_id
from app.domain.ids import KeyId
from app.domain.lease_requests import LeaseRequest
from app.services import key_format

ACCOUNT = "bench"
REGION = "us-east-1"
_ZONES = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d")
_TYPES = {
    # name: model, GPUs, GiB each, vCPUs, GiB, USD an hour
    "g4dn.xlarge": ("T4", 1, 16, 4, 16, "0.526"),
    "g5.xlarge": ("A10G", 1, 24, 4, 16, "1.006"),
    "g5.12xlarge": ("A10G", 4, 24, 48, 192, "5.672"),
    "g5.48xlarge": ("A10G", 8, 24, 192, 768, "16.288"),
    "g6.xlarge": ("L4", 1, 24, 4, 16, "0.8048"),
    "g6e.xlarge": ("L40S", 1, 48, 4, 32, "1.861"),
    "p4d.24xlarge": ("A100", 8, 40, 96, 1152, "21.96"),
    "p5.48xlarge": ("H100", 8, 80, 192, 2048, "55.04"),
}
_SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example"
LEASE_BODY = {
    "gpu": {"model": "A10G", "count": 1},
    "market": "on_demand",
    "ttl_seconds": 3600,
    "wait_seconds": 600,
    "ssh_public_keys": [_SSH_KEY],
    "labels": {"team": "bench"},
}
LEASE_REQUEST = LeaseRequest.from_json(LEASE_BODY | {"name": "bench"}).as_json()
HARDWARE: dict[str, Any] = {
    "gpu": {"model": "A10G", "count": 1, "memory_gib": 24, "interconnect": "PCIe"},
    "vcpus": 4,
    "memory_gib": 16.0,
    "image": {"id": "ami-0123456789abcdef0", "name": "Deep Learning Base OSS Nvidia Driver GPU AMI"},
}
_PLACEMENT = {
    **HARDWARE,
    "provider": "aws",
    "account": ACCOUNT,
    "region": REGION,
    "zone": "us-east-1a",
    "instance_type": "g5.xlarge",
    "market": "on_demand",
    "price_per_hour": "1.006",
    "instance_id": "i-0123456789abcdef0",
}
_CONNECTION = {
    "public_ip": "198.51.100.7",
    "private_ip": "10.0.0.7",
    "ssh_user": "ubuntu",
    "ssh_port": 22,
    "ssh_command": "ssh ubuntu@198.51.100.7",
}

_LEASES = """
    INSERT INTO lease (id, tenant_id, name, labels, request, minimum_claim, state, desired, placement, provider, account,
        region, gpu_model, gpu_count, connection, attempts_count, events_count, version, rate_per_hour, rate_since, created_at,
        first_attempt_at, launched_at, running_at, ready_at, billing_started_at, billing_ended_at, expires_at, wait_until,
        ended_at, release_requested_at, provider_gone_at, updated_at, next_due)
    SELECT p.id, p.tenant_id, 'train-' || p.n, '{"team": "vision", "run": "7"}', %(request)s, '{"gpus": "1"}',
        CASE WHEN live THEN 'active' ELSE 'released' END, CASE WHEN live THEN 'run' ELSE 'end' END, %(placement)s, 'aws',
        %(account)s, %(region)s, 'A10G', 1, %(connection)s, 1, 6, 7, CASE WHEN live THEN 1.006 END, CASE WHEN live THEN at END,
        at, at, at, at, at, at, CASE WHEN live THEN NULL ELSE at + '1 hour' END, now() + '1 day', at,
        CASE WHEN live THEN NULL ELSE at + '1 hour' END, CASE WHEN live THEN NULL ELSE at + '1 hour' END,
        CASE WHEN live THEN NULL ELSE at + '1 hour' END, at, NULL
    FROM (SELECT *, now() - n * interval '5 seconds' AS at, n %% 5 = 0 AS live FROM planted) p
"""


@dataclass(frozen=True)
class Tenant:
    """Who asks."""

    id: str
    key: str = field(repr=False)
    leases: Sequence[str]


def plant(superuser_url: str, *, tenants: int, leases: int, seed_catalogue: bool = True) -> list[Tenant]:
    """`leases` of them in all, one in five active, the rest ended; ample quotas for everybody."""
    with psycopg.connect(superuser_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bench_insert (id text PRIMARY KEY, body text)")
        connection.execute("GRANT ALL ON bench_insert TO PUBLIC")
        if seed_catalogue:
            _catalogue(connection)
        made = [_tenant(connection, number, leases // tenants) for number in range(tenants)]
        _leases(connection, made)
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return made


def _catalogue(connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO account (name, provider, config, state) VALUES (%s, 'aws', '{}', 'ok')", [ACCOUNT])
    connection.execute(
        "INSERT INTO account_region (account, region, last_complete_listing_at) VALUES (%s, %s, now())",
        [ACCOUNT, REGION],
    )
    rows = [
        (ACCOUNT, REGION, zone, name, market, "aws", *facts[:3], "PCIe", *facts[3:], "list")
        for name, facts in _TYPES.items()
        for zone in _ZONES
        for market in ("on_demand", "spot")
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            INSERT INTO offering (account, region, zone, instance_type, market, provider, gpu_model, gpu_count, gpu_memory_gib,
                gpu_interconnect, vcpus, memory_gib, price_per_hour, price_source)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,
            rows,
        )


def _tenant(connection: psycopg.Connection, number: int, leases: int) -> Tenant:
    tenant_id, key = new_id("tenant"), key_format.generate(KeyId(new_id("key")))
    connection.execute(
        "INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds) VALUES (%s, %s, 86400, 604800)",
        [tenant_id, f"bench-{number}"],
    )
    connection.execute(
        "INSERT INTO api_key (id, tenant_id, role, name, secret_hash) VALUES (%s, %s, 'member', 'bench', %s)",
        [key.key_id, tenant_id, key.secret_hash],
    )
    connection.execute(
        """
        INSERT INTO quota (tenant_id, resource, "limit")
        SELECT %s, unnest(ARRAY['gpus', 'gpus:A10G', 'leases', 'spend_per_hour']), 10000000
        """,
        [tenant_id],
    )
    return Tenant(tenant_id, key.text, [new_id("lease") for _ in range(leases)])


def _leases(connection: psycopg.Connection, tenants: Sequence[Tenant]) -> None:
    """The newest lease of a tenant is its last id."""
    connection.execute("CREATE TEMPORARY TABLE planted (id text, tenant_id text, n integer) ON COMMIT DROP")
    with connection.cursor().copy("COPY planted FROM STDIN") as copy:
        for tenant in tenants:
            for n, lease_id in enumerate(reversed(tenant.leases), start=1):
                copy.write_row((lease_id, tenant.id, n))
    values = {"placement": Jsonb(_PLACEMENT), "connection": Jsonb(_CONNECTION), "request": Jsonb(LEASE_REQUEST)}
    connection.execute(_LEASES, {**values, "account": ACCOUNT, "region": REGION})


_BUDGETS = """
    WITH made AS (
        INSERT INTO budget (id, tenant_id, kind, key_id, period, period_started_at, amount, thresholds, when_exceeded, set_by)
        SELECT 'budget_' || right(id, 26), id, 'tenant', NULL, 'lifetime', now(), 10000000, CAST('[]' AS jsonb), 'refuse', 'operator' FROM tenant
        UNION ALL
        SELECT 'budget_' || right(id, 26), tenant_id, 'key', id, 'lifetime', now(), 10000000, CAST('[]' AS jsonb), 'refuse', 'operator'
        FROM api_key WHERE tenant_id IS NOT NULL
        RETURNING id, tenant_id, amount)
    INSERT INTO quota (tenant_id, resource, "limit") SELECT tenant_id, 'budget:' || id, amount FROM made
"""


def plant_budgets(superuser_url: str) -> None:
    """Two budgets for each tenant, with room for all: one of the tenant and one of its key."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(_BUDGETS)
