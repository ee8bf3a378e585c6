"""What the runs of many seeds come to: the evidence of each seed, and tables for people."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.reports import Table
from tests.simulation.runs import Run

_LONGEST_TEXT = 90


class Summary:
    """The runs so far of these seeds."""

    def __init__(self, seeds: range) -> None:
        self.seeds = seeds
        self.runs: list[Run] = []
        self._began = time.monotonic()

    def add(self, run: Run) -> None:
        self.runs.append(run)

    @property
    def violations(self) -> list[Run]:
        """In the order of their seeds."""
        broken = (run for run in self.runs if run.outcome.violation is not None)
        return sorted(broken, key=lambda run: run.outcome.seed)

    def progress(self) -> str:
        """One line."""
        figures = self._figures()
        return (
            f"{len(self.runs):,} of {len(self.seeds):,} seeds, {figures['simulated hours']:,.1f} simulated hours, "
            f"{figures['seeds per minute']:.0f} seeds a minute, {figures['violations']} violations"
        )

    def tables(self) -> Iterator[Table]:
        """The figures, the events by kind, and the violations if there are any."""
        title = f"Simulation of the seeds {self.seeds[0]} to {self.seeds[-1]}"
        yield Table(title=title, columns=("", ""), rows=list(self._figures().items()))
        yield Table(title="Events", columns=("kind", "events", "seeds with it"), rows=self._events())
        if self.violations:
            rows = [(run.outcome.seed, (run.outcome.violation or "")[:_LONGEST_TEXT]) for run in self.violations]
            yield Table(title="Violations", columns=("seed", "what"), rows=rows)

    def evidence(self) -> dict[str, Any]:
        """Everything that is known of each seed; its trace comes from running it again."""
        return {
            "seeds": [self.seeds[0], self.seeds[-1]],
            "figures": self._figures(),
            "events": {kind: {"events": events, "seeds": seeds} for kind, events, seeds in self._events()},
            "violations": {run.outcome.seed: run.outcome.violation for run in self.violations},
            "runs": [_described(run) for run in sorted(self.runs, key=lambda run: run.outcome.seed)],
        }

    def _figures(self) -> dict[str, float]:
        count, seconds = len(self.runs), time.monotonic() - self._began
        each = max(count, 1)
        return {
            "seeds run": count,
            "violations": len(self.violations),
            "simulated hours": sum(run.outcome.seconds for run in self.runs) / 3600,
            "VMs": sum(run.outcome.machines for run in self.runs),
            "launch batches": self._count("batch: filled", "batch: filled in part"),
            "VMs of launch batches": self._count("VM: made in a batch"),
            "groups": self._count("group: created"),
            "groups that formed": self._count("group: formed active", "group: formed degraded"),
            "real seconds": seconds,
            "seeds per minute": 60 * count / seconds,
            "seconds per seed, all processes together": seconds / each,
            "seconds per seed, in its process": sum(run.wall for run in self.runs) / each,
            "CPU seconds per seed, Python": sum(run.python_cpu for run in self.runs) / each,
            "CPU seconds per seed, PostgreSQL": sum(run.postgres_cpu for run in self.runs) / each,
        }

    def _count(self, *kinds: str) -> int:
        return sum(dict(run.outcome.events).get(kind, 0) for run in self.runs for kind in kinds)

    def _events(self) -> list[tuple[str, int, int]]:
        """(kind, how many, in how many seeds), by name."""
        counts, seeds = Counter[str](), Counter[str]()
        for run in self.runs:
            counts.update(dict(run.outcome.events))
            seeds.update(kind for kind, _ in run.outcome.events)
        return [(kind, counts[kind], seeds[kind]) for kind in sorted(counts)]


def _described(run: Run) -> dict[str, Any]:
    outcome = run.outcome
    return {
        "seed": outcome.seed,
        "violation": outcome.violation,
        "digest": outcome.digest,
        "simulated_seconds": round(outcome.seconds, 3),
        "machines": outcome.machines,
        "events": dict(outcome.events),
        "wall_seconds": round(run.wall, 3),
        "python_cpu_seconds": round(run.python_cpu, 3),
        "postgres_cpu_seconds": round(run.postgres_cpu, 3),
    }
