"""Idleness: which GPU samples are idle, how long a run of idle samples is, and when a lease ends because of it.

A missing sample is never idle: a run needs a sample in every period, and a lease whose newest sample is old is not judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol, Self

from app.domain.billing import SECONDS_PER_HOUR, cost
from app.domain.lease_requests import IdleAction, IdleRule

IDLE_PERCENT = 5
"""A GPU is idle while its utilization is at this percentage or less."""
SHORTEST_STEP = 0.5
LONGEST_STEP = 1.5
"""Samples are consecutive when the time between them is so many sample periods. A longer step is a gap."""
STALE_AFTER = 2
"""A sample that is older than so many sample periods says nothing about the present."""
LAST_WARNING = timedelta(minutes=10)
"""The second warning comes so long before the lease counts as idle; the first one at half the time."""
LAST_NOTICE = 3
"""The last notice of a run: the lease counts as idle. Two warnings precede it."""

MOST_EVIDENCE = 1440
"""Samples that stay with a lease: those of a day."""
_HUNDREDTH = Decimal("0.01")


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


class IdleSample(Protocol):
    """A stored sample. `percentages`: one row with the utilization of each of `uuids`."""

    at: datetime
    uuids: Sequence[str]
    percentages: Sequence[Sequence[int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFloor:
    """An operator's rule for every lease of a tenant. `max_keep_seconds`: how long one call may hold it off; None: any time."""

    rule: IdleRule
    max_keep_seconds: int | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        return cls(rule=IdleRule.from_json(value), max_keep_seconds=value.get("max_keep_seconds"))

    def as_json(self) -> dict[str, Any]:
        """{after_seconds, action, max_keep_seconds}."""
        return {**self.rule.as_json(), "max_keep_seconds": self.max_keep_seconds}


def effective_rule(own: IdleRule | None, floor: IdleFloor | None) -> IdleRule | None:
    """The stricter of a lease's own rule and its tenant's floor: one that ends the lease, and the shorter of two alike.

    `app.db.leases.idleness` states the same in SQL. A test feeds both the same values.
    """
    rules = [rule for rule in (own, floor.rule if floor is not None else None) if rule is not None]
    ending = [rule for rule in rules if rule.action is IdleAction.END]
    return min(ending or rules, key=lambda rule: rule.after_seconds, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """A run of idle samples of an active lease under its effective rule.

    `sampled_at`: the time of the newest sample. `keep_until`: until when a user holds the rule off.
    """

    rule: IdleRule
    since: datetime
    samples: int
    sampled_at: datetime
    keep_until: datetime | None = None

    @property
    def due_at(self) -> datetime:
        """When the lease counts as idle if its GPUs stay idle."""
        after = self.since + timedelta(seconds=self.rule.after_seconds)
        return after if self.keep_until is None else max(after, self.keep_until)

    @property
    def ends_at(self) -> datetime | None:
        """When the lease ends if its GPUs stay idle. None: its rule only notifies."""
        return self.due_at if self.rule.action is IdleAction.END else None

    @property
    def warnings(self) -> tuple[timedelta, ...]:
        """How long before `due_at` the owner is warned, the earliest warning first."""
        return tuple(sorted((timedelta(seconds=self.rule.after_seconds / 2), LAST_WARNING), reverse=True))

    def is_known(self, now: datetime, period: float) -> bool:
        """Whether the newest sample is recent enough to say something about `now`. `period`: seconds between samples."""
        return now - self.sampled_at <= timedelta(seconds=STALE_AFTER * period)

    def is_idle(self, now: datetime, period: float) -> bool:
        """Whether the lease counts as idle: for the whole time of its rule, with a sample in each period."""
        enough = self.samples * period >= self.rule.after_seconds
        return enough and self.due_at <= now and self.is_known(now, period)

    @property
    def duration(self) -> timedelta:
        """The time that the run's samples show."""
        return self.sampled_at - self.since

    def gpu_hours(self, gpus: int) -> Decimal:
        """Idle GPU-hours of a VM with so many GPUs."""
        return (gpus * Decimal(str(self.duration.total_seconds())) / SECONDS_PER_HOUR).quantize(_HUNDREDTH)

    def cost(self, rate_per_hour: Decimal | None) -> Decimal:
        """USD that the idle time cost at the present rate."""
        return cost(rate_per_hour or Decimal(0), self.duration)

    def notice(self, now: datetime, period: float) -> int:
        """The last notice that is due at `now`: 0 for none, 1 or 2 for a warning, LAST_NOTICE for an idle lease."""
        if not self.is_known(now, period):
            return 0
        if self.is_idle(now, period):
            return LAST_NOTICE
        return sum(self.due_at - lead <= now for lead in self.warnings)


def evidence(run: Idleness, samples: Sequence[IdleSample]) -> dict[str, Any]:
    """The rule, the run and its newest samples, as they stay with the lease. `samples`: the newest first."""
    uuids = list(samples[0].uuids) if samples else []
    same_gpus = [sample for sample in reversed(samples) if list(sample.uuids) == uuids]
    return {
        **run.rule.as_json(),
        "idle_percent": IDLE_PERCENT,
        "since": _rfc3339(run.since),
        "until": _rfc3339(run.sampled_at),
        "samples": run.samples,
        "gpus": uuids,
        "at": [_rfc3339(sample.at) for sample in same_gpus],
        "percentages": [_flat(sample.percentages) for sample in same_gpus],
    }


def _flat(values: Sequence[Any]) -> list[Any]:
    return [value for row in values for value in row]


def _rfc3339(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def longest_keep(floor: IdleFloor | None) -> int | None:
    """How many seconds one call may hold idleness off. None: any time."""
    return None if floor is None else floor.max_keep_seconds
