"""Runs seeds: `python -m tests.simulation --seeds 1-1000`. A violation shows its trace, its seed, and how to replay it."""

import argparse
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from app.local import embedded_postgres
from app.local.ports import free_port
from tests.databases import Databases
from tests.simulation.database import Clocked
from tests.simulation.world import Outcome, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-100", help="a seed, or from-to")
    parser.add_argument("--lines", type=int, default=60, help="lines of the trace that a violation shows")
    parser.add_argument("--keep-going", action="store_true", help="go on after a violation")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    with database() as clocked:
        return report(clocked, range(int(first), int(last or first) + 1), asked.lines, keep_going=asked.keep_going)


@contextmanager
def database() -> Iterator[Clocked]:
    with TemporaryDirectory(prefix="gpulease-simulation-") as folder:
        settings = {**embedded_postgres.SETTINGS, **embedded_postgres.FORGETFUL}
        cluster = embedded_postgres.Cluster(Path(folder) / "postgres", free_port(), secrets.token_hex(16), settings)
        with embedded_postgres.running(cluster):
            databases = Databases(cluster.admin_url)
            with databases.fresh() as url:
                clocked = Clocked(databases.owner_url, url)
                yield clocked
                clocked.close()


def report(clocked: Clocked, seeds: Iterable[int], lines: int, *, keep_going: bool) -> int:
    began, told, runs, hours, broken = time.monotonic(), 0.0, 0, 0.0, []
    for seed in seeds:
        outcome = simulate(clocked, seed)
        runs, hours = runs + 1, hours + outcome.seconds / 3600
        if outcome.violation is not None:
            broken.append(seed)
            show(outcome, lines)
            if not keep_going:
                break
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(
                f"{runs} seeds, {hours:.1f} simulated hours, {told - began:.0f} s, {len(broken)} violations", flush=True
            )
    print(
        f"{runs} seeds, {hours:.1f} simulated hours, {time.monotonic() - began:.0f} s, violations: {broken or 'none'}"
    )
    return 1 if broken else 0


def show(outcome: Outcome, lines: int) -> None:
    print("\n".join(outcome.lines[-lines:] if lines else ()))
    print(f"seed {outcome.seed}: {outcome.violation}")
    print(f"again: python -m tests.simulation --seeds {outcome.seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
