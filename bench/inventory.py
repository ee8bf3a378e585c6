"""One inventory cycle over many active leases of one region, and what it does to launches meanwhile.

The VMs are planted in the simulated cloud, their rows written by SQL, so that the first cycle finds nothing changed.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import boto3
import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from app.db.ids import new_id
from app.domain.tags import ATTEMPT, DEADLINE, INSTALLATION, LEASE, PARAMS_HASH, TENANT
from app.local.environment import SIMULATED_AWS
from app.local.waiting import wait_until
from bench import load, report, stack
from bench.burst import post_lease
from bench.plant import HARDWARE, LEASE_REQUEST
from bench.stack import Stack

ACCOUNT, REGION, TYPE = "sim", "us-east-1", "g5.xlarge"
CYCLES = 3
INTERVAL = 5.0
LAUNCHES, LAUNCH_RATE = 60, 4.0
_CYCLE_SECONDS = 120.0
_PLACE = {"provider": "aws", "account": ACCOUNT, "region": REGION, "zone": "us-east-1a", "instance_type": TYPE}

Connection = psycopg.Connection[dict[str, Any]]

_LEASES = """
    INSERT INTO lease (id, tenant_id, name, request, minimum_claim, state, placement, provider, account, region, gpu_model,
        gpu_count, attempts_count, rate_per_hour, rate_since, first_attempt_at, launched_at, running_at, ready_at,
        billing_started_at, expires_at, wait_until, deadline_applied, next_due)
    SELECT p.id, %(tenant)s, 'train', %(request)s, '{}', 'active', %(place)s, 'aws', %(account)s, %(region)s, 'A10G', 1, 1, 1.006,
        now(), now(), now() - interval '1 hour', now(), now(), now(), now() + interval '1 day', now(), now() + interval '1 day', NULL
    FROM planted p
"""
_ATTEMPTS = """
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
        price_per_hour, token, params_hash, state, instance_id, vm_state, vm_state_at, ready, public_ip, private_ip,
        first_sent_at, last_sent_at, known_at, billing_started_at)
    SELECT p.attempt_id, p.id, %(tenant)s, 1, 'aws', %(account)s, %(region)s, p.zone, %(type)s, 'on_demand', %(offering)s, 1.006,
        'bench-' || p.id, 'bench', 'known', p.instance_id, 'running', now(), true, p.public_ip, p.private_ip,
        now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 hour', now()
    FROM planted p
"""
_CYCLE = """
    SELECT cycles, listed, listing_calls, listing_seconds::float,
        extract(epoch FROM j.last_ok_at - j.last_started_at)::float AS seconds
    FROM account_region r JOIN periodic_job j ON (j.kind, j.account, j.region) = ('inventory', r.account, r.region)
    WHERE (r.account, r.region) = (%s, %s) AND j.last_ok_at > j.last_started_at
"""


@dataclass(frozen=True)
class Cycles:
    """Some cycles in a row: seconds of the longest, CPU seconds and calls of one, memory afterwards."""

    longest: float
    cpu: float
    calls: int
    memory: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.inventory", description=__doc__)
    parser.add_argument("--leases", type=int, default=20_000)
    count = parser.parse_args().leases
    settings = {"inventory_interval": str(INTERVAL), "inventory_first_interval": str(INTERVAL)}
    with stack.running("--profile", "fast", **settings) as running, _database(running) as connection:
        running.ample_quota()
        measure(running, connection, count)


@contextmanager
def _database(running: Stack) -> Iterator[Connection]:
    """As the workers see it."""
    with psycopg.connect(running.database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET ROLE gpulease_worker")
        yield connection


def measure(running: Stack, connection: Connection, count: int) -> None:
    """Print the figures."""
    idle = running.memory_mib()["inventory"]
    [inventory] = running.processes()["inventory"]
    wait_until(lambda: _cycle(connection) is not None, timeout=_CYCLE_SECONDS)
    inventory.suspend()
    bare = plant(running, connection, count)
    alone = launch(running, connection)
    before = _written(connection)
    inventory.resume()
    found = _cycles(running, connection, count)
    _report(count, found, bare, idle)
    written = len(before.items() - _written(connection).items())
    report.figure(
        f"unchanged rows written by {CYCLES} cycles over {count} leases", written, "rows", ("rows", len(before))
    )
    beside = launch(running, connection)
    report.figure(
        "launches accepted by the provider while inventory runs, p95", beside, "s", ("without inventory", alone)
    )


def _report(count: int, found: Cycles, bare: tuple[float, float], idle: float) -> None:
    what = f"inventory cycle over {count} active leases"
    seconds, cpu = bare
    report.figure(f"{what}, longest of {CYCLES}", found.longest, "s", ("the listing through boto3 alone", seconds))
    report.figure(f"{what}, CPU", found.cpu, "s", ("the listing through boto3 alone", cpu))
    report.figure(f"{what}, list calls", found.calls, "calls", ("pages of 1,000", math.ceil(count / 1000)))
    report.figure("memory of the inventory process", found.memory, "MiB", ("with nothing to list", idle))


def plant(running: Stack, connection: Connection, count: int) -> tuple[float, float]:
    """VMs and their rows. Answers wall and CPU seconds of listing them through boto3, which is how their facts are read."""
    installation = connection.execute("SELECT id FROM installation").fetchone()
    assert installation is not None
    ids = [new_id("lease") for _ in range(count)]
    deadline = str(int(time.time()) + 90_000)
    tags = {
        INSTALLATION: installation["id"],
        ATTEMPT: "1",
        TENANT: running.tenant_id,
        PARAMS_HASH: "bench",
        DEADLINE: deadline,
    }
    port = int(running.cloudsim_url.rpartition(":")[2])
    made = load.closed_loop(port, lambda n: _plant_one(tags | {LEASE: ids[n]}), count=count, connections=8)
    made.must_all_be(201)
    started, cpu = time.perf_counter(), time.process_time()
    vms = _describe(running.cloudsim_url, installation["id"])
    spent = time.perf_counter() - started, time.process_time() - cpu
    _write_rows(running, connection, vms)
    return spent


def _plant_one(tags: dict[str, str]) -> bytes:
    body = json.dumps({"provider": "aws", "region": REGION, "instance_type": TYPE, "tags": tags, "age_seconds": 3600})
    head = f"POST /_sim/instances HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def _describe(url: str, installation: str) -> list[Any]:
    ec2 = boto3.client(
        "ec2",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=SIMULATED_AWS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=SIMULATED_AWS["AWS_SECRET_ACCESS_KEY"],
    )
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": f"tag:{INSTALLATION}", "Values": [installation]}], PaginationConfig={"PageSize": 1000}
    )
    return [vm for page in pages for one in page["Reservations"] for vm in one["Instances"]]


def _write_rows(running: Stack, connection: Connection, vms: Sequence[Any]) -> None:
    values = {
        "tenant": running.tenant_id,
        "account": ACCOUNT,
        "region": REGION,
        "type": TYPE,
        "offering": Jsonb(HARDWARE),
    }
    place = {**HARDWARE, **_PLACE, "market": "on_demand", "price_per_hour": "1.006", "instance_id": None}
    with connection.transaction():
        connection.execute(
            "CREATE TEMPORARY TABLE planted (id text, attempt_id text, instance_id text, zone text, public_ip text, "
            "private_ip text) ON COMMIT DROP"
        )
        with connection.cursor().copy("COPY planted FROM STDIN") as copy:
            for vm in vms:
                lease_id = next(tag["Value"] for tag in vm["Tags"] if tag["Key"] == LEASE)
                ips = vm.get("PublicIpAddress"), vm.get("PrivateIpAddress")
                copy.write_row(
                    (lease_id, new_id("attempt"), vm["InstanceId"], vm["Placement"]["AvailabilityZone"], *ips)
                )
        connection.execute(_LEASES, {**values, "request": Jsonb(LEASE_REQUEST), "place": Jsonb(place)})
        connection.execute(_ATTEMPTS, values)
    connection.execute("RESET ROLE")
    connection.execute("VACUUM ANALYZE lease, attempt")
    connection.execute("SET ROLE gpulease_worker")


def _cycles(running: Stack, connection: Connection, count: int) -> Cycles:
    """The first cycle may have begun before the planting: it does not count."""
    _await(lambda: _listed(connection) >= count, "a cycle that saw them all")
    first, cpu = _number(connection), running.cpu_seconds()["inventory"]
    longest, seen, calls = 0.0, first, 0
    while seen < first + CYCLES:
        _await(partial(_after, connection, seen), "the next cycle")
        found = _cycle(connection) or {}
        seen, calls, longest = found["cycles"], found["listing_calls"], max(longest, found["seconds"])
    spent = (running.cpu_seconds()["inventory"] - cpu) / (seen - first)
    return Cycles(longest, spent, calls, running.memory_mib()["inventory"])


def _after(connection: Connection, cycle: int) -> bool:
    return _number(connection) > cycle


def _await(done: Callable[[], bool], what: str) -> None:
    if not wait_until(done, timeout=_CYCLE_SECONDS, poll=0.2):
        raise SystemExit(f"waited {_CYCLE_SECONDS:.0f} s in vain for {what}")


def _cycle(connection: Connection) -> dict[str, Any] | None:
    """The last cycle, when none is under way."""
    return connection.execute(_CYCLE, [ACCOUNT, REGION]).fetchone()


def _number(connection: Connection) -> int:
    return int((_cycle(connection) or {"cycles": 0})["cycles"])


def _listed(connection: Connection) -> int:
    return int((_cycle(connection) or {"listed": 0})["listed"] or 0)


def _written(connection: Connection) -> dict[str, tuple[str, str]]:
    """The transactions that last wrote each planted lease and its attempt."""
    rows = connection.execute(
        "SELECT l.id, l.xmin::text AS one, a.xmin::text AS two FROM lease l JOIN attempt a ON a.lease_id = l.id "
        "WHERE a.token LIKE 'bench-%'"
    )
    return {row["id"]: (row["one"], row["two"]) for row in rows}


def launch(running: Stack, connection: Connection) -> float:
    """Seconds within which the provider accepted 95 % of some launches, asked for at a steady rate."""
    begun = connection.execute("SELECT clock_timestamp() AS now").fetchone()
    assert begun is not None
    asked = load.open_loop(
        running.api_port, lambda _: post_lease(running.tenant_key), count=LAUNCHES, connections=8, rate=LAUNCH_RATE
    )
    asked.must_all_be(201)
    query = (
        "SELECT count(launched_at) AS launched, extract(epoch FROM percentile_cont(0.95) WITHIN GROUP "
        "(ORDER BY launched_at - created_at))::float AS p95 FROM lease WHERE created_at >= %s"
    )

    def accepted() -> dict[str, Any]:
        return connection.execute(query, [begun["now"]]).fetchone() or {}

    _await(lambda: accepted()["launched"] >= LAUNCHES, "launches")
    return float(accepted()["p95"])


if __name__ == "__main__":
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    main()
