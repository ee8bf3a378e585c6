"""One inventory cycle over many active leases, and what it does to launches meanwhile.

Where a cloud lists all regions of an account at once, the leases are spread over those of the account.

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
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from app.db.core.ids import new_id
from app.domain.tags import ATTEMPT, DEADLINE, INSTALLATION, LEASE, PARAMS_HASH, TENANT
from app.local.environment import SIMULATED_AWS, SIMULATED_AZURE
from app.local.home import Home
from app.local.waiting import wait_until
from app.settings import Settings, load_accounts
from bench import load, report, stack
from bench.burst import Demand
from bench.plant import HARDWARE, LEASE_REQUEST
from bench.stack import Stack
from workers.providers.ports import Provider
from workers.providers.registry import connect
from workers.providers.types import Vm

CYCLES = 3
INTERVAL = 5.0
TERM = timedelta(days=1)
LAUNCHES, LAUNCH_RATE = 60, 4.0
_CYCLE_SECONDS = 120.0

Connection = psycopg.Connection[dict[str, Any]]

_LEASES = """
    INSERT INTO lease (id, tenant_id, name, request, minimum_claim, state, placement, provider, account, region, gpu_model,
        gpu_count, attempts_count, rate_per_hour, rate_since, first_attempt_at, launched_at, running_at, ready_at,
        billing_started_at, expires_at, wait_until, deadline_applied, next_due)
    SELECT p.id, %(tenant)s, 'train', %(request)s, '{}', 'active', %(place)s, %(provider)s, %(account)s, p.region, 'A10G', 1, 1, 1.006,
        now(), now(), now() - interval '1 hour', now(), now(), now(), %(expires_at)s, now(), %(deadline_at)s, NULL
    FROM planted p
"""
_ATTEMPTS = """
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
        price_per_hour, token, params_hash, state, instance_id, vm_state, vm_state_at, ready, public_ip, private_ip,
        first_sent_at, last_sent_at, known_at, billing_started_at)
    SELECT p.attempt_id, p.id, %(tenant)s, 1, %(provider)s, %(account)s, p.region, p.zone, %(type)s, 'on_demand', %(offering)s, 1.006,
        'bench-' || p.id, 'bench', 'known', p.instance_id, 'running', now(), true, p.public_ip, p.private_ip,
        now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 hour', now()
    FROM planted p
"""
_CYCLE = """
    SELECT min(r.cycles) AS cycles, sum(r.listed) AS listed,
        max(extract(epoch FROM j.last_ok_at - j.last_started_at))::float AS seconds
    FROM account_region r
    JOIN periodic_job j ON j.kind = 'inventory' AND j.account = r.account AND coalesce(j.region, r.region) = r.region
    WHERE r.account = %s AND r.region = ANY(%s)
    HAVING bool_and(j.last_ok_at > j.last_started_at)
"""


@dataclass(frozen=True)
class Place:
    """Where the leases are, and how its cloud lists: operations that one listing needs, and VMs in a page of each."""

    provider: str
    account: str
    regions: tuple[str, ...]
    type: str
    lists: tuple[str, ...]
    page: int


PLACES = {
    "aws": Place("aws", "sim", ("us-east-1",), "g5.xlarge", ("DescribeInstances",), 1000),
    "gcp": Place(
        "gcp", "sim-gcp", ("us-central1", "europe-west4"), "g2-standard-4", ("instances.aggregatedList",), 500
    ),
    "azure": Place(
        "azure",
        "sim-azure",
        ("eastus", "westeurope"),
        "Standard_NC24ads_A100_v4",
        ("VirtualMachines.List", "VirtualMachines.ListAll"),
        200,
    ),
}


@dataclass(frozen=True)
class Cycles:
    """Some cycles in a row: seconds of the longest, CPU seconds and list calls of one, memory afterwards."""

    longest: float
    cpu: float
    calls: float
    memory: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.inventory", description=__doc__)
    parser.add_argument("--leases", type=int, default=20_000)
    parser.add_argument("--provider", choices=PLACES, default="aws")
    arguments = parser.parse_args()
    settings = {"inventory_interval": str(INTERVAL), "inventory_first_interval": str(INTERVAL)}
    with stack.running("--profile", "fast", **settings) as running, _database(running) as connection:
        running.ample_quota()
        measure(running, connection, arguments.leases, PLACES[arguments.provider])


@contextmanager
def _database(running: Stack) -> Iterator[Connection]:
    """As the workers see it."""
    with Connection.connect(running.database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET ROLE gpulease_worker")
        yield connection


def measure(running: Stack, connection: Connection, count: int, place: Place) -> None:
    """Print the figures."""
    idle = running.memory_mib()["inventory"]
    inventories = running.processes()["inventory"]
    wait_until(lambda: _cycle(connection, place) is not None, timeout=_CYCLE_SECONDS)
    for inventory in inventories:
        inventory.suspend()
    bare = plant(running, connection, count, place)
    alone = launch(running, connection)
    before = _written(connection)
    for inventory in inventories:
        inventory.resume()
    found = _cycles(running, connection, count, place)
    _report(count, found, bare, idle, place)
    written = len(before.items() - _written(connection).items())
    report.figure(
        f"unchanged rows written by {CYCLES} cycles over {count} leases", written, "rows", ("rows", len(before))
    )
    beside = launch(running, connection)
    report.figure(
        "launches accepted by the provider while inventory runs, p95", beside, "s", ("without inventory", alone)
    )


def _report(count: int, found: Cycles, bare: tuple[float, float], idle: float, place: Place) -> None:
    what = f"inventory cycle over {count} active leases at {place.provider}, {len(place.regions)} region(s)"
    pages = len(place.lists) * math.ceil(count / place.page)
    seconds, cpu = bare
    report.figure(
        f"{what}, longest of {CYCLES}", found.longest, "s", ("the listing through the adapter alone", seconds)
    )
    report.figure(f"{what}, CPU", found.cpu, "s", ("the listing through the adapter alone", cpu))
    report.figure(f"{what}, list calls", found.calls, "calls", (f"pages of {place.page}", pages))
    report.figure("memory of the inventory process", found.memory, "MiB", ("with nothing to list", idle))


def plant(running: Stack, connection: Connection, count: int, place: Place) -> tuple[float, float]:
    """VMs and their rows. Answers wall and CPU seconds of listing them through the adapter, which is how their facts are read."""
    installation = connection.execute("SELECT id FROM installation").fetchone()
    assert installation is not None
    ids = [new_id("lease") for _ in range(count)]
    expires_at = datetime.fromtimestamp(int(time.time()), UTC) + TERM
    deadline_at = expires_at + timedelta(seconds=Settings().deadline_grace_seconds)
    tags = {
        INSTALLATION: installation["id"],
        ATTEMPT: "1",
        TENANT: running.tenant_id,
        PARAMS_HASH: "bench",
        DEADLINE: str(int(deadline_at.timestamp())),
    }
    port = int(running.cloudsim_url.rpartition(":")[2])
    made = load.closed_loop(port, lambda n: _plant_one(tags | {LEASE: ids[n]}, place, n), count=count, connections=8)
    made.must_all_be(201)
    provider = _adapter(running, place)
    started, cpu = time.perf_counter(), time.process_time()
    vms = [vm for page in provider.list(frozenset(place.regions), installation["id"]) for vm in page.vms]
    spent = time.perf_counter() - started, time.process_time() - cpu
    _write_rows(running, connection, vms, place, {"expires_at": expires_at, "deadline_at": deadline_at})
    return spent


def _plant_one(tags: dict[str, str], place: Place, number: int) -> bytes:
    """One region after the other."""
    region = place.regions[number % len(place.regions)]
    where = {"provider": place.provider, "region": region, "instance_type": place.type}
    body = json.dumps({**where, "tags": tags, "age_seconds": 3600})
    head = f"POST /_sim/instances HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def _adapter(running: Stack, place: Place) -> Provider:
    """The account as the stack's own workers have it."""
    return connect(load_accounts(Home(running.home).accounts_file)[place.account], Settings(call_timeout=60.0))


def _write_rows(
    running: Stack, connection: Connection, vms: Sequence[Vm], place: Place, ends: dict[str, datetime]
) -> None:
    """The rows agree with the tags of the VMs. Otherwise workers would repair 50,000 deadlines during the measurement."""
    where = {"provider": place.provider, "account": place.account}
    values = {**where, "tenant": running.tenant_id, "type": place.type, "offering": Jsonb(HARDWARE)}
    first = {"region": vms[0].region, "zone": vms[0].zone}
    shown: dict[str, Any] = {**HARDWARE, **where, **first, "instance_type": place.type}
    shown |= {"market": "on_demand", "price_per_hour": "1.006", "instance_id": None}
    with connection.transaction():
        connection.execute(
            "CREATE TEMPORARY TABLE planted (id text, attempt_id text, instance_id text, region text, zone text, public_ip text, "
            "private_ip text) ON COMMIT DROP"
        )
        with connection.cursor().copy("COPY planted FROM STDIN") as copy:
            for vm in vms:
                ips = vm.public_ip, vm.private_ip
                copy.write_row((vm.tags[LEASE], new_id("attempt"), vm.id, vm.region, vm.zone, *ips))
        connection.execute(_LEASES, {**values, **ends, "request": Jsonb(LEASE_REQUEST), "place": Jsonb(shown)})
        connection.execute(_ATTEMPTS, values)
    connection.execute("RESET ROLE")
    connection.execute("VACUUM ANALYZE lease, attempt")
    connection.execute("SET ROLE gpulease_worker")


def _cycles(running: Stack, connection: Connection, count: int, place: Place) -> Cycles:
    """The first cycle may have begun before the planting: it does not count."""
    _await(lambda: _listed(connection, place) >= count, "a cycle that saw them all")
    first, cpu, calls = _number(connection, place), running.cpu_seconds()["inventory"], _list_calls(running, place)
    longest, seen = 0.0, first
    while seen < first + CYCLES:
        _await(partial(_after, connection, seen, place), "the next cycle")
        found = _cycle(connection, place) or {}
        seen, longest = found["cycles"], max(longest, found["seconds"])
    cycles = seen - first
    spent = (running.cpu_seconds()["inventory"] - cpu) / cycles
    made = (_list_calls(running, place) - calls) / cycles
    return Cycles(longest, spent, made, running.memory_mib()["inventory"])


def _list_calls(running: Stack, place: Place) -> int:
    """As the cloud itself has counted them. The account's other regions count only where one listing serves them all."""
    where = f"?region={place.regions[0]}" if len(place.regions) == 1 else ""
    made = running.simulate("GET", f"calls{where}")[place.provider]
    return sum(made.get(operation, 0) for operation in place.lists)


def _after(connection: Connection, cycle: int, place: Place) -> bool:
    return _number(connection, place) > cycle


def _await(done: Callable[[], bool], what: str) -> None:
    if not wait_until(done, timeout=_CYCLE_SECONDS, poll=0.2):
        raise SystemExit(f"waited {_CYCLE_SECONDS:.0f} s in vain for {what}")


def _cycle(connection: Connection, place: Place) -> dict[str, Any] | None:
    """The last cycle, when none is under way."""
    return connection.execute(_CYCLE, [place.account, list(place.regions)]).fetchone()


def _number(connection: Connection, place: Place) -> int:
    return int((_cycle(connection, place) or {"cycles": 0})["cycles"])


def _listed(connection: Connection, place: Place) -> int:
    return int((_cycle(connection, place) or {"listed": 0})["listed"] or 0)


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
    single = Demand(LAUNCHES, "aws", workers=1)
    asked = load.open_loop(
        running.api_port, lambda _: single.request(running.tenant_key), count=LAUNCHES, connections=8, rate=LAUNCH_RATE
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
    os.environ.update({**SIMULATED_AWS, **SIMULATED_AZURE})
    main()
