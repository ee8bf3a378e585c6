"""Many leases asked for at once: how long until all are active, and what holds them up.

`fast`: a cloud without rate limits whose VMs boot in 5 s. `realistic`: documented request rates; then the provider's
rate has to be the only bottleneck, and the baseline is what that rate alone would take with a call for each lease.

`calls_RunInstances` of a figure counts the create calls. `--alone` launches no leases together.
"""

import argparse
import json
import os
import uuid

import psycopg
from psycopg.rows import dict_row

from app.local.waiting import wait_until
from bench import load, report, stack
from bench.plant import LEASE_BODY
from bench.stack import Stack

FAST_BOOT_SECONDS = 5.0
REALISTIC_BOOT_SECONDS = 20.0
CONNECTIONS = 16
LAUNCH_BURST, LAUNCH_RATE = 5.0, 2.0
"""RunInstances requests of one account and region: bucket and refill a second, as simulated."""

_BODY = json.dumps(LEASE_BODY | {"wait_seconds": 3600}).encode()
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


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    if arguments.alone:
        os.environ["GPULEASE_LAUNCH_BATCH"] = "1"
    if arguments.profile in {"fast", "both"}:
        fast(arguments.leases, arguments.workers)
    if arguments.profile in {"realistic", "both"}:
        realistic(arguments.few, arguments.workers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.burst", description=__doc__)
    parser.add_argument("--profile", choices=["fast", "realistic", "both"], default="both")
    parser.add_argument("--leases", type=int, default=500, help="at once on the fast profile")
    parser.add_argument("--few", type=int, default=60, help="at once on the realistic profile")
    parser.add_argument("--workers", type=int, default=1, help="worker processes")
    parser.add_argument("--alone", action="store_true", help="launch each lease with a call of its own, to compare")
    return parser.parse_args()


def fast(count: int, workers: int) -> None:
    """No rate limits."""
    with stack.running("--profile", "fast", "--workers", str(workers)) as running:
        running.simulate("PUT", "settings", {"boot_seconds": FAST_BOOT_SECONDS})
        found = burst(running, count, seconds=180)
        report.figure(
            f"{count} leases at once, all active ({workers} worker processes)",
            found["all_active"],
            "s",
            ("one VM's boot", FAST_BOOT_SECONDS),
            **found,
        )


def realistic(count: int, workers: int) -> None:
    """Documented rates."""
    with stack.running("--profile", "realistic", "--workers", str(workers)) as running:
        found = burst(running, count, seconds=300)
        ideal = max(0.0, count - LAUNCH_BURST) / LAUNCH_RATE
        report.figure(
            f"{count} leases at once at documented rates, all accepted by the provider",
            found["launching"],
            "s",
            (f"the provider's rate alone: {LAUNCH_BURST:.0f}, then {LAUNCH_RATE:.0f}/s", ideal),
            **found,
        )
        report.figure(
            f"{count} leases at once at documented rates, all active",
            found["all_active"],
            "s",
            ("the provider's rate and one boot", ideal + REALISTIC_BOOT_SECONDS),
        )


def burst(running: Stack, count: int, *, seconds: float) -> dict[str, float]:
    """Ask for `count` leases and wait until none is on its way any more. Raises SystemExit when some did not make it."""
    running.ample_quota()
    before, calls = running.cpu_seconds(), running.simulate("GET", "calls")["aws"]
    result = load.closed_loop(
        running.api_port, lambda _: post_lease(running.tenant_key), count=count, connections=CONNECTIONS
    )
    result.must_all_be(201)
    with psycopg.connect(running.database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET ROLE gpulease_worker")

        def times() -> dict[str, float]:
            return connection.execute(_TIMES).fetchone() or {}

        if not wait_until(lambda: times()["active"] >= count, timeout=seconds, poll=0.5):
            raise SystemExit(f"after {seconds:.0f} s only {times()}")
        found = times()
    after, made = running.cpu_seconds(), running.simulate("GET", "calls")["aws"]
    cpu = {f"cpu_{part}": after[part] - before.get(part, 0.0) for part in sorted(after)}
    spent = {f"calls_{name}": made[name] - calls.get(name, 0) for name in sorted(made) if made[name] != calls.get(name)}
    memory = {f"mib_{part}": amount for part, amount in sorted(running.memory_mib().items())}
    return {**found, "admitted_per_second": result.rate, **cpu, **spent, **memory}


def post_lease(key: str) -> bytes:
    """A request that asks for one lease."""
    head = (
        f"POST /v1/leases HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\nIdempotency-Key: {uuid.uuid4()}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n\r\n"
    )
    return head.encode() + _BODY


if __name__ == "__main__":
    main()
