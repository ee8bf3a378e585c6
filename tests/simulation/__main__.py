"""Runs seeds: `python -m tests.simulation --seeds 1-1000`. A violation shows its trace, its seed, and how to replay it."""

import argparse
import os
import sys
import time
from pathlib import Path

from bench import ending
from tests.reports import FOLDER, report, write_evidence
from tests.simulation.runs import run_seeds
from tests.simulation.summary import Summary
from tests.simulation.world import Outcome

_PROGRESS_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-100", help="a seed, or from-to")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="seeds that run at once")
    parser.add_argument("--lines", type=int, default=60, help="lines of the trace that a violation shows")
    parser.add_argument("--keep-going", action="store_true", help="go on after a violation")
    parser.add_argument("--report", type=Path, default=FOLDER / "simulation.json", help="the file for the evidence")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    ending.on_request()
    # the order of sets of texts is part of what happens: the processes that run seeds start with this
    os.environ["PYTHONHASHSEED"] = "0"
    summary = Summary(seeds)
    run_all(summary, min(given.processes, len(seeds)), given)
    report(given.report, summary.evidence(), *summary.tables())
    return 1 if summary.violations else 0


def run_all(summary: Summary, processes: int, given: argparse.Namespace) -> None:
    """Runs the seeds until all are done, or until the first violation. Writes the evidence as it grows."""
    printed = time.monotonic()
    for run in run_seeds(summary.seeds, processes):
        summary.add(run)
        if run.outcome.violation is not None:
            show(run.outcome, given.lines)
            if not given.keep_going:
                return
        if time.monotonic() - printed > _PROGRESS_SECONDS:
            printed = time.monotonic()
            print(summary.progress(), flush=True)
            write_evidence(given.report, summary.evidence())


def show(outcome: Outcome, lines: int) -> None:
    print("\n".join(outcome.lines[-lines:] if lines else ()))
    print(f"seed {outcome.seed}: {outcome.violation}")
    print(f"again: python -m tests.simulation --seeds {outcome.seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
