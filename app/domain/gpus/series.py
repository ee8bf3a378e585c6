"""Series of a lease's GPUs: the steps that a caller can request, the rows behind them, and the value of each step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.gpus.samples import GPU_SERIES, LEASE_SERIES

MOST_POINTS = 2016
"""Seven days in steps of five minutes."""
FINE_SECONDS = 300
"""The step of stored series."""
HOUR_SECONDS = 3600
LONGEST_STEP = 86_400
SHORTEST_STEP = 60
DEFAULT_RANGE = timedelta(hours=1)
_DEFAULT_STEPS = (60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400)
_DEFAULT_POINTS = 360
MOST_GPUS = 64
"""GPUs of one answer."""


class WrongPeriod(ValueError):
    """`field`: from, to or step. The text is the rest of a sentence that begins with it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPeriod:
    """Steps of `step` seconds from `since` to `until`. `cell`: the seconds of the stored values they are made from.

    A cell that is shorter than FINE_SECONDS is made from samples, one of an hour from sums, any other from series.
    """

    since: datetime
    until: datetime
    step: int
    cell: int

    @property
    def points(self) -> int:
        """How many steps."""
        return int((self.until - self.since).total_seconds()) // self.step

    def starts(self) -> list[datetime]:
        """The start of each step."""
        return [self.since + timedelta(seconds=n * self.step) for n in range(self.points)]

    @property
    def is_of_samples(self) -> bool:
        """Whether samples alone are precise enough."""
        return self.cell < FINE_SECONDS


def series_period(
    now: datetime, since: datetime | None, until: datetime | None, step: int | None, *, raw_days: int, kept_days: int
) -> SeriesPeriod:
    """The steps that cover a range, an hour until now by default. Raises WrongPeriod.

    Samples and series are kept for `raw_days`, sums of hours for `kept_days`.
    """
    end = min(until or now, now)
    start = end - DEFAULT_RANGE if since is None else since
    if start >= end:
        raise WrongPeriod("from", "must be before `to`, which is now at the latest")
    if start < now - timedelta(days=kept_days):
        raise WrongPeriod("from", f"must be at most {kept_days} days ago")
    is_old = start < now - timedelta(days=raw_days)
    seconds = (end - start).total_seconds()
    if step is None:
        step = _default_step(seconds, is_old=is_old)
    _check_step(step, seconds, raw_days if is_old else None)
    cell = step if step < FINE_SECONDS else HOUR_SECONDS if is_old else FINE_SECONDS
    first = floor(start, step)
    return SeriesPeriod(since=first, until=_ceil(end, step), step=step, cell=cell)


def _default_step(seconds: float, *, is_old: bool) -> int:
    least = HOUR_SECONDS if is_old else SHORTEST_STEP
    steps = [step for step in _DEFAULT_STEPS if step >= least]
    return next((step for step in steps if seconds <= step * _DEFAULT_POINTS), steps[-1])


def _check_step(step: int, seconds: float, old_after: int | None) -> None:
    if not SHORTEST_STEP <= step <= LONGEST_STEP:
        raise WrongPeriod("step", f"must be from {SHORTEST_STEP} to {LONGEST_STEP} seconds")
    if old_after is not None and step % HOUR_SECONDS:
        raise WrongPeriod("step", f"must be a multiple of 3600 when `from` is more than {old_after} days ago")
    if step % (FINE_SECONDS if step >= FINE_SECONDS else SHORTEST_STEP):
        raise WrongPeriod("step", "must be 60, 120, 180, 240 or a multiple of 300 seconds")
    longest = MOST_POINTS * (SHORTEST_STEP if step < FINE_SECONDS else step)
    if seconds > longest:
        detail = f"is too short for the range: at most {MOST_POINTS} steps"
        if step < FINE_SECONDS:
            detail = f"must be at least {FINE_SECONDS} for a range of more than {longest // HOUR_SECONDS} hours"
        raise WrongPeriod("step", detail)


def floor(moment: datetime, seconds: int) -> datetime:
    """The start of the step (UTC) that a time is in."""
    return datetime.fromtimestamp(moment.timestamp() // seconds * seconds, UTC)


def _ceil(moment: datetime, seconds: int) -> datetime:
    down = floor(moment, seconds)
    return down if down == moment else down + timedelta(seconds=seconds)


Values = list[int | None]


class SeriesGrid:
    """Values of a lease and its GPUs in cells of equal length. A cell without a sample is None."""

    def __init__(self, period: SeriesPeriod) -> None:
        self._period = period
        self._since = floor(period.since, max(period.cell, HOUR_SECONDS))
        hours = (period.until - self._since) // timedelta(hours=1) + 1
        self._cells = hours * HOUR_SECONDS // period.cell + 1
        self._lease: list[Values] = [[None] * self._cells for _ in LEASE_SERIES]
        self._gpus: dict[str, list[Values]] = {}

    def put_series(self, row: Mapping[str, Any]) -> None:
        """A row of gpu_series."""
        first = self._cell(row["starts_at"])
        for values, name in zip(self._lease, LEASE_SERIES, strict=True):
            steps = row[name]
            values[first : first + len(steps)] = steps
        width = len(GPU_SERIES)
        for place, uuid in enumerate(row["uuids"]):
            if uuid in self._gpus or len(self._gpus) < MOST_GPUS:
                for values, steps in zip(self._gpu(uuid), row["gpu_values"][place * width :], strict=False):
                    values[first : first + len(steps)] = steps

    def put_cells(self, rows: Iterable[Mapping[str, Any]], since: datetime) -> None:
        """Rows of app.db.gpus.series.SAMPLES or HOURS, whose cells are counted from `since`."""
        first = self._cell(since)
        for row in rows:
            series = self._lease if row["uuid"] is None else self._gpu(row["uuid"])
            for values, means in zip(series, row["values"], strict=True):
                for cell, mean in zip(row["cells"], means, strict=True):
                    values[first + cell] = mean

    def lease_series(self) -> dict[str, Values]:
        """By the names of LEASE_SERIES, a value for each step."""
        return dict(zip(LEASE_SERIES, map(self._steps, self._lease), strict=True))

    def gpu_series(self) -> list[dict[str, Any]]:
        """For each GPU its `uuid`, and a value for each step by the names of GPU_SERIES."""
        return [
            {"uuid": uuid, **dict(zip(GPU_SERIES, map(self._steps, lists), strict=True))}
            for uuid, lists in self._gpus.items()
        ]

    def _cell(self, at: datetime) -> int:
        return int((at - self._since).total_seconds()) // self._period.cell

    def _gpu(self, uuid: str) -> list[Values]:
        lists = self._gpus.get(uuid)
        if lists is None:
            cells: list[Values] = [[None] * self._cells for _ in GPU_SERIES]
            lists = self._gpus.setdefault(uuid, cells)
        return lists

    def _steps(self, cells: Sequence[int | None]) -> Values:
        first = self._cell(self._period.since)
        width = self._period.step // self._period.cell
        own = cells[first : first + self._period.points * width]
        return mean_steps(own, width)


def mean_steps(cells: Sequence[int | None], width: int) -> Values:
    """A value for each `width` cells: the mean of those that are known."""
    if width == 1:
        return list(cells)
    return [_mean(cells[start : start + width]) for start in range(0, len(cells), width)]


def _mean(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None
