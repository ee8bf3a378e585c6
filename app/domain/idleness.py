"""Idleness: which GPU samples are idle, how long a run of idle samples is, and when a lease ends because of it.

A missing sample is never idle: a run needs a sample in every period, and a lease whose newest sample is old is not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

IDLE_PERCENT = 5
"""A GPU is idle while its utilization is at this percentage or less."""
SHORTEST_STEP = 0.5
LONGEST_STEP = 1.5
"""Samples are consecutive when the time between them is so many sample periods. A longer step is a gap."""
STALE_AFTER = 2
"""A sample that is older than so many sample periods says nothing about the present."""


def sample_is_idle(percentages: Sequence[float | None], gpus: int = 1) -> bool:
    """Whether all GPUs of a sample are idle. A GPU that the sample does not show, or shows without a value, is not.

    `gpus`: how many the VM has, as far as known.
    """
    if not percentages or len(percentages) < gpus:
        return False
    return all(percent is not None and percent <= IDLE_PERCENT for percent in percentages)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRun:
    """The idle samples in a row up to the newest sample. `since`: the time of the run's first sample. None: no run.

    `last_at`: the time of the newest sample, idle or not.
    """

    since: datetime | None = None
    samples: int = 0
    last_at: datetime | None = None

    def after(self, at: datetime, *, idle: bool, counts_from: datetime | None, period: float) -> "IdleRun":
        """The run after a sample of the time `at`.

        `counts_from`: when the lease's grace time ends; None: the lease is not active yet. `period`: seconds between samples.
        An older idle sample changes nothing. A busy sample ends the run whenever it comes.
        """
        newest = at if self.last_at is None else max(at, self.last_at)
        if not idle or counts_from is None or at < counts_from:
            return self if idle and newest != at else IdleRun(last_at=newest)
        if self.last_at is None or self.since is None:
            return self if newest != at else IdleRun(since=at, samples=1, last_at=at)
        step = (at - self.last_at).total_seconds()
        if step <= 0:
            return self
        if step > LONGEST_STEP * period:
            return IdleRun(since=at, samples=1, last_at=at)
        counted = 1 if step >= SHORTEST_STEP * period else 0
        return IdleRun(since=self.since, samples=self.samples + counted, last_at=at)


def grace_ends_at(ready_at: datetime | None, grace_seconds: float) -> datetime | None:
    """From when on samples of a lease count. None: the lease was never active."""
    return None if ready_at is None else ready_at + timedelta(seconds=grace_seconds)
