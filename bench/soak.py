"""Mixed work for a while: whether memory and connections stay flat.

Leases are asked for, read, listed and given back at a steady rate. Every process is sampled once a second after a warm-up
of a fifth of the time; the slope is a straight line through the samples (least squares).
"""

import argparse
import asyncio
import itertools
import statistics
import threading
from collections.abc import Mapping, Sequence

import httpx
import psycopg

from bench import report, stack
from bench.plant import LEASE_BODY
from bench.stack import Stack
from cloudsim.testing import NO_TLS

_RATE = 10.0
_WARM_UP = 0.2
_GIVE_BACK_AFTER = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--rate", type=float, default=_RATE, help="new leases a second at most; each is read and listed too"
    )
    arguments = parser.parse_args()
    with stack.running("--profile", "fast") as running:
        running.ample_quota()
        seconds = arguments.minutes * 60
        samples, made, failed = soak(running, seconds, arguments.rate)
    kept = {name: values[int(len(values) * _WARM_UP) :] for name, values in samples.items()}
    _report(kept, made, failed, arguments.minutes)


def _report(samples: Mapping[str, Sequence[float]], made: int, failed: int, minutes: float) -> None:
    for name, values in sorted(samples.items()):
        unit = "connections" if name == "connections" else "MiB"
        report.figure(
            f"{name} over {minutes:g} minutes of mixed work: slope",
            slope(values) * 3600,
            f"{unit} an hour",
            ("first and last tenth of the samples, mean difference", _drift(values)),
            first=values[0],
            last=values[-1],
            most=max(values),
        )
    report.figure("leases asked for meanwhile", made, "leases", ("failed requests", failed))


def soak(running: Stack, seconds: float, rate: float) -> tuple[dict[str, list[float]], int, int]:
    """Samples by process and of database connections, leases made, requests that failed."""
    samples: dict[str, list[float]] = {}
    stop = threading.Event()
    watcher = threading.Thread(target=_sample, args=(running, samples, stop))
    watcher.start()
    try:
        made, failed = asyncio.run(_work(running, seconds, rate))
    finally:
        stop.set()
        watcher.join()
    return samples, made, failed


def _sample(running: Stack, samples: dict[str, list[float]], stop: threading.Event) -> None:
    with psycopg.connect(running.database_url, autocommit=True) as connection:
        while not stop.wait(1.0):
            for part, amount in running.memory_mib().items():
                samples.setdefault(f"memory of {part}", []).append(amount)
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            ).fetchone()
            samples.setdefault("connections", []).append(float(row[0]) if row else 0.0)


async def _work(running: Stack, seconds: float, rate: float) -> tuple[int, int]:
    """Asks, reads, lists; gives a lease back once there are twenty newer ones."""
    headers = {"Authorization": f"Bearer {running.tenant_key}"}
    loop = asyncio.get_running_loop()
    ids: list[str] = []
    failed = 0
    async with httpx.AsyncClient(
        base_url=running.api_url, headers=headers, timeout=30, trust_env=False, verify=NO_TLS
    ) as api:
        started = loop.time()
        for number in itertools.count():
            await asyncio.sleep(started + number / rate - loop.time())
            if loop.time() - started > seconds:
                break
            made = await api.post("/v1/leases", json=LEASE_BODY)
            ids += [made.json()["id"]] if made.is_success else []
            answers = [made, await api.get(f"/v1/leases/{ids[-1]}"), await api.get("/v1/leases?limit=50")]
            if len(ids) > _GIVE_BACK_AFTER:
                answers.append(await api.delete(f"/v1/leases/{ids[-_GIVE_BACK_AFTER]}"))
            failed += sum(answer.is_error for answer in answers)
    return len(ids), failed


def slope(values: Sequence[float]) -> float:
    """A second, samples being a second apart."""
    return statistics.linear_regression(range(len(values)), values).slope if len(values) > 1 else 0.0


def _drift(values: Sequence[float]) -> float:
    tenth = max(1, len(values) // 10)
    return statistics.fmean(values[-tenth:]) - statistics.fmean(values[:tenth])


if __name__ == "__main__":
    main()
