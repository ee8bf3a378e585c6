"""What a request costs: CPU of one API process, highest rate, latency at half of it.

100,000 leases of 200 tenants, each asking with a key of its own; keys checked, row-level security on, answers logged to
a file. Baselines are measured in the same run, before and after each figure: other work on the machine shows in both.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import mean

from app.local.ports import free_port
from bench import load, processes, report, servers
from bench.load import NextRequest, Result
from bench.plant import LEASE_BODY, Tenant, plant, plant_budgets
from bench.processes import Process
from bench.servers import Servers

CONNECTIONS = 16
WARM_UP = 400
OPEN_SECONDS = 5.0


@dataclass(frozen=True)
class Service:
    """A process that answers HTTP."""

    process: Process
    port: int


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds of the process for each request, and what the load saw."""

    cpu_ms: float
    result: Result


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    with servers.running() as running:
        tenants = plant(running.superuser_url, tenants=arguments.tenants, leases=arguments.leases)
        with _baselines(running) as baselines, _api(running) as api:
            measure = Measure(
                baselines, api, tenants, arguments.requests, partial(plant_budgets, running.superuser_url)
            )
            for name in arguments.only:
                MEASUREMENTS[name](measure)
            report.figure(
                "memory of an API process after this",
                api.process.memory_mib(),
                "MiB",
                ("the baselines' process", baselines.process.memory_mib()),
            )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--leases", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=4000, help="requests for each figure")
    parser.add_argument("--only", choices=list(MEASUREMENTS), nargs="+", default=list(MEASUREMENTS))
    return parser.parse_args()


@contextmanager
def _baselines(running: Servers) -> Iterator[Service]:
    port = free_port()
    environment = {**running.environment(), "BENCH_PORT": str(port)}
    url = f"http://127.0.0.1:{port}/bare"
    with processes.python("bench.baselines", environment=environment, folder=running.folder, url=url) as process:
        yield Service(process, port)


@contextmanager
def _api(running: Servers) -> Iterator[Service]:
    port = free_port()
    environment = running.environment(port=str(port), rate_limit="1000000/minute", write_rate_limit="1000000/minute")
    url = f"http://127.0.0.1:{port}/livez"
    with processes.python("app.server", "api", environment=environment, folder=running.folder, url=url) as process:
        yield Service(process, port)


class Measure:
    """The same choice of leases for everything that is measured."""

    def __init__(
        self,
        baselines: Service,
        api: Service,
        tenants: Sequence[Tenant],
        requests: int,
        add_budgets: Callable[[], None],
    ) -> None:
        self._add_budgets = add_budgets
        self._baselines = baselines
        self._api = api
        self._requests = requests
        choose = random.Random(7)
        self._tenants = tenants
        self._asked = [(tenant, choose.choice(tenant.leases)) for tenant in choose.choices(tenants, k=requests)]

    def one(self) -> None:
        """GET /v1/leases/{id}."""
        self._read("GET /v1/leases/{id}", lambda n: self._get(n, f"/v1/leases/{self._asked[n][1]}"))

    def unchanged(self) -> None:
        """The same when the caller has this version already."""
        self._read("GET /v1/leases/{id}, 304", self._conditional, status=304)

    def page(self) -> None:
        """GET /v1/leases?limit=50."""
        self._read("GET /v1/leases?limit=50", lambda n: self._get(n, "/v1/leases?limit=50"), share=4)

    def create(self) -> None:
        """POST /v1/leases."""
        self._create("POST /v1/leases")

    def create_within_budgets(self) -> None:
        """The same with quota and two budgets: call it after `create`."""
        self._add_budgets()
        self._create("POST /v1/leases with two budgets")

    def _create(self, what: str) -> None:
        body = json.dumps(LEASE_BODY).encode()
        plain = request("POST", "/insert", body=b"{}")
        base, made = self._beside(lambda _: plain, lambda n: self._post(n, body), status=201, share=2)
        report.figure(
            f"{what}, rate",
            made.result.rate,
            "1/s",
            ("one row inserted through asyncpg behind a bare route", base.result.rate),
        )
        self._cost(what, made, ("one row inserted through asyncpg behind a bare route", base))

    def floors(self) -> None:
        """What the parts cost by themselves."""
        bare = cost(self._baselines, self._bare(), self._requests)
        for what, path in (
            ("one row through asyncpg behind a bare route", "asyncpg"),
            ("one row through SQLAlchemy Core behind a bare route", "core"),
        ):
            found = cost(self._baselines, self._row(path), self._requests)
            found.result.must_all_be(200)
            self._cost(what, found, ("bare FastAPI route", bare))

    def _bare(self) -> NextRequest:
        bare = request("GET", "/bare")
        return lambda _: bare

    def _row(self, kind: str) -> NextRequest:
        return lambda n: request("GET", f"/{kind}/{self._asked[n][1]}")

    def _read(self, what: str, make: NextRequest, *, status: int = 200, share: int = 1) -> None:
        base, found = self._beside(self._row("asyncpg"), make, status=status, share=share)
        self._cost(what, found, ("one row through asyncpg behind a bare route", base))
        half = found.result.rate / 2
        some = min(int(half * OPEN_SECONDS), self._requests // share)
        at_half = load.open_loop(self._api.port, make, count=some, connections=4 * CONNECTIONS, rate=half)
        calm = load.open_loop(self._baselines.port, self._bare(), count=some, connections=4 * CONNECTIONS, rate=half)
        report.figure(
            f"{what}, p99 at {half:.0f}/s",
            at_half.percentile_ms(0.99),
            "ms",
            ("bare FastAPI route at the same rate", calm.percentile_ms(0.99)),
            p50=at_half.percentile_ms(0.5),
        )

    def _beside(self, plain: NextRequest, make: NextRequest, *, status: int, share: int) -> tuple[Cost, Cost]:
        """The baseline half before and half after, so that other work on the machine counts for both."""
        count = self._requests // share
        cost(self._api, make, min(WARM_UP, count))
        before = cost(self._baselines, plain, count // 2)
        found = cost(self._api, make, count)
        after = cost(self._baselines, plain, count // 2)
        found.result.must_all_be(status)
        both = Result(before.result.seconds + after.result.seconds, before.result.latencies + after.result.latencies)
        return Cost(mean((before.cpu_ms, after.cpu_ms)), both), found

    @staticmethod
    def _cost(what: str, found: Cost, baseline: tuple[str, Cost]) -> None:
        report.figure(
            f"{what}, CPU per request",
            found.cpu_ms,
            "ms",
            (baseline[0], baseline[1].cpu_ms),
            rate=found.result.rate,
            p50_ms=found.result.percentile_ms(0.5),
            p99_ms=found.result.percentile_ms(0.99),
        )

    def _get(self, number: int, path: str, *more: str) -> bytes:
        return request("GET", path, f"Authorization: Bearer {self._asked[number][0].key}", *more)

    def _conditional(self, number: int) -> bytes:
        lease_id = self._asked[number][1]
        return self._get(number, f"/v1/leases/{lease_id}", f'If-None-Match: "{lease_id}.7"')

    def _post(self, number: int, body: bytes) -> bytes:
        tenant = self._asked[number][0]
        headers = (f"Authorization: Bearer {tenant.key}", f"Idempotency-Key: {time.monotonic_ns()}-{number}")
        return request("POST", "/v1/leases", *headers, body=body)


def cost(service: Service, make: NextRequest, count: int) -> Cost:
    """CPU of the serving process, by the kernel's count (10 ms steps), over `count` requests."""
    before = service.process.cpu_seconds()
    result = load.closed_loop(service.port, make, count=count, connections=CONNECTIONS)
    return Cost((service.process.cpu_seconds() - before) / count * 1000, result)


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    """As it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


MEASUREMENTS = {
    "floors": Measure.floors,
    "one": Measure.one,
    "unchanged": Measure.unchanged,
    "page": Measure.page,
    "create": Measure.create,
    "create_within_budgets": Measure.create_within_budgets,
}

if __name__ == "__main__":
    main()
