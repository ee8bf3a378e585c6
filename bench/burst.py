"""Many leases asked for at once: how long until all are active, and what holds them up.

`fast`: a cloud without rate limits whose VMs boot in 5 s. `realistic`: documented request rates.

Each profile runs twice in one run: with a create call for each lease, which is the baseline, and with launch batches. At
documented rates a call for each takes minutes, so `--single` of the leases are enough for it.

`calls_…` of a figure counts the provider's calls: RunInstances, instances.bulkInsert or VirtualMachines.CreateOrUpdate create
VMs. `worker_ms` is the CPU of all worker processes for each lease, what they spend on periodic work included.
"""

import argparse
import json
import uuid
from dataclasses import dataclass, replace

import psycopg
from psycopg.rows import dict_row

from app.local.waiting import wait_until
from bench import load, report, stack
from bench.plant import LEASE_BODY
from bench.stack import Stack

FAST_BOOT_SECONDS = 5.0
REALISTIC_BOOT_SECONDS = 20.0
SETTLED = {"inventory_interval": "60", "inventory_first_interval": "60"}
"""The default interval of listings. The local stack lists four times as often, for people who watch it."""
CONNECTIONS = 16
_PRICES_SECONDS = 60.0
_QUIET_CALLS = 8
"""In two seconds, of an installation without leases: a few regular questions."""
AMPLE_VCPUS = 1_000_000
"""The provider's quota of the account, so that its rate alone is in the way."""
LAUNCH_RATES = {"aws": (5.0, 2.0), "gcp": (20.0, 5.0), "azure": (50.0, 3.0)}
"""Create requests of one account and region, a VM in each: bucket and refill a second."""
TYPES = {"aws": "g5.xlarge", "gcp": "g2-standard-4", "azure": "Standard_NC24ads_A100_v4"}
_TIMES = """
    SELECT count(*) AS asked, count(ready_at) AS active,
        extract(epoch FROM max(created_at) - min(created_at))::float AS admitting,
        extract(epoch FROM max(launched_at) - min(created_at))::float AS launching,
        extract(epoch FROM max(ready_at) - min(created_at))::float AS all_active,
        extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY ready_at - created_at))::float AS p50,
        extract(epoch FROM percentile_cont(0.95) WITHIN GROUP (ORDER BY launched_at - created_at))::float AS accepted_p95,
        max(attempts_count) AS most_attempts
    FROM lease
"""


@dataclass(frozen=True)
class Demand:
    """What is asked for: `count` equal leases of one tenant at one provider."""

    count: int
    provider: str
    workers: int

    def __str__(self) -> str:
        return f"{self.count} leases at {self.provider}"

    def request(self, key: str) -> bytes:
        """A request for one lease."""
        return post("leases", key, lease_body(self.provider))


def lease_body(provider: str) -> dict[str, object]:
    """A request for an on-demand VM of the provider's measured type."""
    return {
        **LEASE_BODY,
        "providers": [provider],
        "instance_types": [TYPES[provider]],
        "gpu": None,
        "wait_seconds": 3600,
    }


def post(what: str, key: str, body: object) -> bytes:
    """A complete request that creates something."""
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/{what} HTTP/1.1\r\nHost: bench\r\n"
        f"Authorization: Bearer {key}\r\nIdempotency-Key: {uuid.uuid4()}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    demand = Demand(arguments.leases, arguments.provider, arguments.workers)
    if arguments.profile in {"fast", "both"}:
        fast(demand, single=replace(demand, count=min(demand.count, arguments.single)))
    if arguments.profile in {"realistic", "both"}:
        few = replace(demand, count=arguments.few)
        realistic(few, single=replace(few, count=min(few.count, arguments.single)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.burst", description=__doc__)
    parser.add_argument("--profile", choices=["fast", "realistic", "both"], default="both")
    parser.add_argument("--leases", type=int, default=500, help="at once on the fast profile")
    parser.add_argument("--few", type=int, default=60, help="at once on the realistic profile")
    parser.add_argument("--workers", type=int, default=1, help="worker processes")
    parser.add_argument("--provider", choices=sorted(TYPES), default="aws")
    parser.add_argument("--single", type=int, default=60, help="launched with a call for each, as the baseline")
    return parser.parse_args()


def fast(demand: Demand, *, single: Demand) -> None:
    """No rate limits, and listings as rarely as in an installation that has run for some minutes."""

    def measured(of: Demand, **settings: str) -> dict[str, float]:
        with stack.running(*_options("fast", of), **SETTLED, **settings) as running:
            running.simulate("PUT", "settings", {"boot_seconds": FAST_BOOT_SECONDS})
            return burst(running, of, seconds=180)

    alone, together = measured(single, launch_batch="1"), measured(demand)
    report.figure(
        f"{demand} at once, all active ({demand.workers} worker processes)",
        together["all_active"],
        "s",
        (f"a call for each of {single.count}", alone["all_active"]),
        **together,
    )
    report.figure(
        "CPU of the workers for each of these leases",
        together["worker_ms"],
        "ms",
        (f"a call for each of {single.count}", alone["worker_ms"]),
    )


def realistic(demand: Demand, *, single: Demand) -> None:
    """Documented rates, and listings as often as in an installation that has run for some minutes."""

    def measured(of: Demand, **settings: str) -> dict[str, float]:
        with stack.running(*_options("realistic", of), **SETTLED, **settings) as running:
            running.simulate("PUT", "settings", {"default_quota_vcpus": AMPLE_VCPUS})
            return burst(running, of, seconds=420)

    alone, together = measured(single, launch_batch="1"), measured(demand)
    bucket, rate = LAUNCH_RATES[demand.provider]
    report.figure(
        f"{demand} at once at documented rates, all active",
        together["all_active"],
        "s",
        ("one boot", REALISTIC_BOOT_SECONDS),
        a_call_for_each_would_take=max(0.0, demand.count - bucket) / rate + REALISTIC_BOOT_SECONDS,
        **together,
    )
    report.figure(
        f"{single} at once at documented rates, a call for each, all active",
        alone["all_active"],
        "s",
        ("the provider's rate, and one boot", max(0.0, single.count - bucket) / rate + REALISTIC_BOOT_SECONDS),
        **alone,
    )


def _options(profile: str, demand: Demand) -> list[str]:
    """Of the stack: one cloud, and VMs whose agents take no process of this machine."""
    return ["--profile", profile, "--workers", str(demand.workers), "--clouds", demand.provider, "--gpu-agents", "0"]


def burst(running: Stack, demand: Demand, *, seconds: float) -> dict[str, float]:
    """Ask for everything and wait until all are active. Raises SystemExit when some did not make it."""
    running.ample_quota()
    _await_prices(running, demand.provider)
    before, calls = running.cpu_seconds(), running.simulate("GET", "calls")[demand.provider]
    result = load.closed_loop(
        running.api_port,
        lambda _: demand.request(running.tenant_key),
        count=demand.count,
        connections=min(CONNECTIONS, demand.count),
    )
    result.must_all_be(201)
    found = await_active(running, demand.count, seconds=seconds)
    after, made = running.cpu_seconds(), running.simulate("GET", "calls")[demand.provider]
    cpu = {f"cpu_{part}": after[part] - before.get(part, 0.0) for part in sorted(after)}
    spent = {f"calls_{name}": made[name] - calls.get(name, 0) for name in sorted(made) if made[name] != calls.get(name)}
    memory = {f"mib_{part}": amount for part, amount in sorted(running.memory_mib().items())}
    worker_ms = cpu["cpu_worker"] / demand.count * 1000
    return {**found, "admitted_per_second": result.rate, "worker_ms": worker_ms, **cpu, **spent, **memory}


def _await_prices(running: Stack, provider: str) -> None:
    """Waits until price lists are read: an installation reads them when it starts, and then once an hour."""
    counts = [0]

    def is_quiet() -> bool:
        counts.append(sum(running.simulate("GET", "calls")[provider].values()))
        return counts[-1] - counts[-2] <= _QUIET_CALLS and counts[-1] > 0

    wait_until(is_quiet, timeout=_PRICES_SECONDS, poll=2.0)


def await_active(running: Stack, count: int, *, seconds: float) -> dict[str, float]:
    """Waits until `count` leases have been active. Returns their times, in seconds. Raises SystemExit after `seconds`."""
    with psycopg.Connection[dict[str, float]].connect(
        running.database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        connection.execute("SET ROLE gpulease_worker")

        def times() -> dict[str, float]:
            return connection.execute(_TIMES).fetchone() or {}

        if not wait_until(lambda: times()["active"] >= count, timeout=seconds, poll=0.5):
            raise SystemExit(f"after {seconds:.0f} s only {times()}")
        return times()


if __name__ == "__main__":
    main()
