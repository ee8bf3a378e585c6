"""Many leases asked for at once: how long until all are active, and what holds them up.

`fast`: a cloud without rate limits whose VMs boot in 5 s. `realistic`: documented request rates; then the provider's
rate has to be the only bottleneck, and the baseline is what that rate alone would take with a call for each lease.

`calls_…` of a figure counts the provider's calls: RunInstances, instances.bulkInsert or VirtualMachines.CreateOrUpdate create
VMs. `--alone` launches no leases together. `--group-size 250` asks for groups of 250, each with one request.
"""

import argparse
import json
import os
import uuid
from dataclasses import dataclass

import psycopg
from psycopg.rows import dict_row

from app.local.waiting import wait_until
from bench import load, report, stack
from bench.plant import LEASE_BODY
from bench.stack import Stack

FAST_BOOT_SECONDS = 5.0
REALISTIC_BOOT_SECONDS = 20.0
CONNECTIONS = 16
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
    """What is asked for: `count` VMs of one provider, each a lease of its own or in groups of `group_size`."""

    count: int
    provider: str
    group_size: int

    def __str__(self) -> str:
        return f"{self.count} leases at {self.provider}" + (
            f" in groups of {self.group_size}" if self.group_size else ""
        )

    @property
    def requests(self) -> int:
        """How many requests ask for all."""
        return -(-self.count // self.group_size) if self.group_size else self.count

    def request(self, key: str) -> bytes:
        """A request that asks for one lease or one group."""
        lease = {**LEASE_BODY, "providers": [self.provider], "instance_types": [TYPES[self.provider]]}
        lease |= {"gpu": None, "wait_seconds": 3600}
        name = f"burst-{uuid.uuid4().hex[:12]}"
        wish = {"name": name, "size": self.group_size, "lease": lease} if self.group_size else lease
        body = json.dumps(wish).encode()
        head = (
            f"POST /v1/{'groups' if self.group_size else 'leases'} HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {key}\r\nIdempotency-Key: {uuid.uuid4()}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    if arguments.alone:
        os.environ["GPULEASE_LAUNCH_BATCH"] = "1"
    if arguments.profile in {"fast", "both"}:
        fast(Demand(arguments.leases, arguments.provider, arguments.group_size), arguments.workers)
    if arguments.profile in {"realistic", "both"}:
        realistic(Demand(arguments.few, arguments.provider, arguments.group_size), arguments.workers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.burst", description=__doc__)
    parser.add_argument("--profile", choices=["fast", "realistic", "both"], default="both")
    parser.add_argument("--leases", type=int, default=500, help="at once on the fast profile")
    parser.add_argument("--few", type=int, default=60, help="at once on the realistic profile")
    parser.add_argument("--workers", type=int, default=1, help="worker processes")
    parser.add_argument("--provider", choices=sorted(TYPES), default="aws")
    parser.add_argument("--group-size", type=int, default=0, help="0: single leases")
    parser.add_argument("--alone", action="store_true", help="launch each lease with a call of its own, to compare")
    return parser.parse_args()


def fast(demand: Demand, workers: int) -> None:
    """No rate limits."""
    with stack.running("--profile", "fast", "--workers", str(workers)) as running:
        running.simulate("PUT", "settings", {"boot_seconds": FAST_BOOT_SECONDS})
        found = burst(running, demand, seconds=180)
        report.figure(
            f"{demand} at once, all active ({workers} worker processes)",
            found["all_active"],
            "s",
            ("one VM's boot", FAST_BOOT_SECONDS),
            **found,
        )


def realistic(demand: Demand, workers: int) -> None:
    """Documented rates."""
    with stack.running("--profile", "realistic", "--workers", str(workers)) as running:
        running.simulate("PUT", "settings", {"default_quota_vcpus": AMPLE_VCPUS})
        found = burst(running, demand, seconds=300)
        bucket, rate = LAUNCH_RATES[demand.provider]
        ideal = max(0.0, demand.count - bucket) / rate
        report.figure(
            f"{demand} at once at documented rates, all accepted by the provider",
            found["launching"],
            "s",
            (f"a call for each at the provider's rate: {bucket:.0f}, then {rate:.0f}/s", ideal),
            **found,
        )
        report.figure(
            f"{demand} at once at documented rates, all active",
            found["all_active"],
            "s",
            ("a call for each at the provider's rate, and one boot", ideal + REALISTIC_BOOT_SECONDS),
        )


def burst(running: Stack, demand: Demand, *, seconds: float) -> dict[str, float]:
    """Ask for everything and wait until none is on its way any more. Raises SystemExit when some did not make it."""
    running.ample_quota()
    before, calls = running.cpu_seconds(), running.simulate("GET", "calls")[demand.provider]
    result = load.closed_loop(
        running.api_port,
        lambda _: demand.request(running.tenant_key),
        count=demand.requests,
        connections=min(CONNECTIONS, demand.requests),
    )
    result.must_all_be(201)
    with psycopg.connect(running.database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET ROLE gpulease_worker")

        def times() -> dict[str, float]:
            return connection.execute(_TIMES).fetchone() or {}

        if not wait_until(lambda: times()["active"] >= demand.count, timeout=seconds, poll=0.5):
            raise SystemExit(f"after {seconds:.0f} s only {times()}")
        found = times()
    after, made = running.cpu_seconds(), running.simulate("GET", "calls")[demand.provider]
    cpu = {f"cpu_{part}": after[part] - before.get(part, 0.0) for part in sorted(after)}
    spent = {f"calls_{name}": made[name] - calls.get(name, 0) for name in sorted(made) if made[name] != calls.get(name)}
    memory = {f"mib_{part}": amount for part, amount in sorted(running.memory_mib().items())}
    return {**found, "admitted_per_second": result.rate, **cpu, **spent, **memory}


if __name__ == "__main__":
    main()
