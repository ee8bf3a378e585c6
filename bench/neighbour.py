"""What one tenant's costly requests do to another tenant's reads and to `/readyz`: each alone, and beside them.

50,000 leases of 200 tenants. 200 leases of one tenant hold as many bytes of SSH keys as the API takes. The catalogue has
768 offerings.
"""

import argparse
import itertools
import json
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

import psycopg
from psycopg.types.json import Jsonb

from app.domain.ssh_keys import LARGEST_SSH_KEYS
from app.local.ports import free_port
from bench import api, load, processes, report, servers
from bench.load import NextRequest, Result
from bench.plant import LEASE_BODY, Tenant, plant

READS, READ_RATE = 500, 50.0
CHECKS, CHECK_RATE = 50, 5.0
_TURN = 3
"""Requests on each connection of the neighbour before it connects anew."""
_ENLARGE = """
    UPDATE lease SET request = jsonb_set(request, '{ssh_public_keys}', %s)
    WHERE id = ANY (%s)
"""
_REGIONS = """
    INSERT INTO offering (account, region, zone, instance_type, market, provider, gpu_model, gpu_count, gpu_memory_gib,
        gpu_interconnect, vcpus, memory_gib, price_per_hour, price_source)
    SELECT account, 'region-' || n, 'region-' || n || right(zone, 1), instance_type, market, provider, gpu_model, gpu_count,
        gpu_memory_gib, gpu_interconnect, vcpus, memory_gib, price_per_hour + n * 0.01, price_source
    FROM offering CROSS JOIN generate_series(2, 12) n
"""
_GROUP = {"size": 64, "lease": LEASE_BODY}


@dataclass(frozen=True)
class Neighbour:
    """What the other tenant sends, over and over, on so many connections at once."""

    what: str
    connections: int
    method: str
    path: str
    body: Mapping[str, object] = field(default_factory=dict)

    def requests(self, tenant: Tenant) -> NextRequest:
        """As they go over the wire. A group has a name of its own."""
        key = f"Authorization: Bearer {tenant.key}"
        names = itertools.count()

        def make(_: int) -> bytes:
            name = {"name": f"group-{next(names)}"} if "size" in self.body else {}
            body = json.dumps({**self.body, **name}).encode() if self.body else b""
            return api.request(self.method, self.path, key, body=body)

        return make


NEIGHBOURS = {
    "pages": Neighbour("readers of the largest pages", 4, "GET", "/v1/leases?limit=200"),
    "plans": Neighbour(
        "plans",
        200,
        "POST",
        "/v1/leases/plan",
        {**LEASE_BODY, "gpu": {"model": "A10G", "min_count": 1}, "market": "any"},
    ),
    "offerings": Neighbour("readers of offerings", 200, "GET", "/v1/offerings?limit=200"),
    "groups": Neighbour("creates of groups of 64", 200, "POST", "/v1/groups", _GROUP),
}


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    with servers.running() as running:
        quiet, large, *_ = plant(running.superuser_url, tenants=200, leases=50_000)
        with psycopg.connect(running.superuser_url, autocommit=True) as connection:
            connection.execute(_ENLARGE, [Jsonb(["k" * arguments.key_bytes]), large.leases])
            connection.execute(_REGIONS)
            connection.execute("VACUUM ANALYZE lease, offering")
        port = free_port()
        environment = running.environment(
            port=str(port), rate_limit="1000000/minute", write_rate_limit="1000000/minute"
        )
        url = f"http://127.0.0.1:{port}/livez"
        with processes.python("app.server", "api", environment=environment, folder=running.folder, url=url):
            for name in arguments.only:
                _measure(port, quiet, large, NEIGHBOURS[name])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.neighbour", description=__doc__)
    parser.add_argument("--key-bytes", type=int, default=LARGEST_SSH_KEYS, help="of the SSH keys of a large lease")
    parser.add_argument("--only", choices=list(NEIGHBOURS), nargs="+", default=list(NEIGHBOURS))
    return parser.parse_args()


def _measure(port: int, quiet: Tenant, large: Tenant, neighbour: Neighbour) -> None:
    alone, alone_ready = _read(port, quiet)
    with _sending(port, neighbour, large) as rates:
        beside, beside_ready = _read(port, quiet)
    beside_what = f"beside {neighbour.connections} {neighbour.what} of another tenant"
    report.figure(
        f"GET /v1/leases/{{id}} {beside_what}, p99 at {READ_RATE:.0f}/s",
        beside.percentile_ms(0.99),
        "ms",
        ("without them", alone.percentile_ms(0.99)),
        p50_ms=beside.percentile_ms(0.5),
        p50_alone_ms=alone.percentile_ms(0.5),
        neighbour_rate=rates[0],
    )
    report.figure(
        f"GET /readyz {beside_what}, longest of {CHECKS}",
        beside_ready.percentile_ms(1),
        "ms",
        ("without them", alone_ready.percentile_ms(1)),
        p50_ms=beside_ready.percentile_ms(0.5),
    )


def _read(port: int, tenant: Tenant) -> tuple[Result, Result]:
    """One tenant's reads, and the health checks meanwhile."""
    key = f"Authorization: Bearer {tenant.key}"
    sent = [api.request("GET", f"/v1/leases/{lease_id}", key) for lease_id in tenant.leases]
    check = api.request("GET", "/readyz")
    with ThreadPoolExecutor(1) as other:
        checking = other.submit(load.open_loop, port, lambda _: check, count=CHECKS, connections=16, rate=CHECK_RATE)
        reads = load.open_loop(port, lambda n: sent[n % len(sent)], count=READS, connections=16, rate=READ_RATE)
        checks = checking.result()
    reads.must_all_be(200)
    checks.must_all_be(200)
    return reads, checks


@contextmanager
def _sending(port: int, neighbour: Neighbour, tenant: Tenant) -> Iterator[list[float]]:
    """The neighbour sends from a process of its own until the block ends. The list then holds the rate of its answers."""
    context = multiprocessing.get_context("spawn")
    done, (receiver, sender) = context.Event(), context.Pipe(duplex=False)
    sending = context.Process(target=_send, args=(port, neighbour, tenant, done, sender))
    rates: list[float] = []
    sending.start()
    sender.close()
    try:
        done.wait(_LEAD_SECONDS)
        yield rates
    finally:
        done.set()
        sending.join()
    if sending.exitcode:
        raise SystemExit(f"the {neighbour.what} failed")
    rates.append(receiver.recv())


def _send(port: int, neighbour: Neighbour, tenant: Tenant, done: Event, rate: Connection) -> None:
    make = neighbour.requests(tenant)
    count = _TURN * neighbour.connections
    results: list[Result] = []
    while not done.is_set():
        results.append(load.closed_loop(port, make, count=count, connections=neighbour.connections))
    statuses = set().union(*(one.statuses for one in results))
    if not statuses <= {200, 201}:
        raise SystemExit(f"expected only 200 and 201, got {statuses}")
    rate.send(sum(len(one.latencies) for one in results) / sum(one.seconds for one in results))


_LEAD_SECONDS = 2.0
"""The neighbour starts so much earlier."""

if __name__ == "__main__":
    main()
