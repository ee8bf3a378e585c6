"""Runs of idle samples: what counts, what starts anew, and that neither gaps nor missing samples are ever idle."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.idleness import IdleRun, grace_ends_at, sample_is_idle
from tests.domain.samples import NOW, ago, ahead

PERIOD = 60.0
Sample = tuple[float, bool]
steps = st.floats(min_value=0.1, max_value=300, allow_nan=False)
regular = st.floats(min_value=30, max_value=90)


def run(samples: Iterable[Sample], *, counts_from: float = -1e9) -> IdleRun:
    """The run after samples of (seconds after NOW, whether idle)."""
    result = IdleRun()
    for at, idle in samples:
        result = result.after(ahead(at), idle=idle, counts_from=ahead(counts_from), period=PERIOD)
    return result


def each_minute(*idle: bool) -> list[Sample]:
    return [(n * PERIOD, one) for n, one in enumerate(idle)]


@pytest.mark.parametrize(
    ("percentages", "gpus", "idle"),
    [
        ([0], 1, True),
        ([5, 5.0], 2, True),
        ([0, 0, 0, 6], 4, False),
        ([5.1], 1, False),
        ([None], 1, False),
        ([0, None], 2, False),
        ([0] * 7, 8, False),
        ([], 0, False),
        ([float("nan")], 1, False),
    ],
)
def test_a_sample_is_idle_when_every_gpu_is_known_to_be(percentages: list[float | None], gpus: int, idle: bool) -> None:
    assert sample_is_idle(percentages, gpus) is idle


@given(st.lists(st.floats(min_value=0, max_value=5), min_size=1, max_size=8), st.data())
def test_one_busy_gpu_makes_a_sample_busy(idle: list[float], data: st.DataObject) -> None:
    assert sample_is_idle(idle, len(idle))
    busy = data.draw(st.floats(min_value=5.001, max_value=100))
    where = data.draw(st.integers(min_value=0, max_value=len(idle)))
    assert not sample_is_idle([*idle[:where], busy, *idle[where:]], len(idle) + 1)


def test_every_idle_sample_counts() -> None:
    assert run(each_minute(*[True] * 60)) == IdleRun(since=NOW, samples=60, last_at=ahead(59 * 60))


@given(st.integers(min_value=0, max_value=59))
def test_a_busy_sample_starts_the_count_anew(busy: int) -> None:
    result = run(each_minute(*(n != busy for n in range(60))))
    assert result.samples == 59 - busy
    assert result.since == (None if busy == 59 else ahead((busy + 1) * PERIOD))


@given(st.lists(regular, max_size=30), st.floats(min_value=90.001, max_value=1e6), st.lists(regular, max_size=30))
def test_a_gap_starts_the_count_anew(before: list[float], gap: float, later: list[float]) -> None:
    times = [0.0]
    for step in (*before, gap, *later):
        times.append(times[-1] + step)
    result = run((at, True) for at in times)
    assert result.samples <= 1 + len(later)
    assert result.since is not None
    assert result.since >= ahead(times[len(before) + 1]) - timedelta(milliseconds=1)


@given(st.lists(st.tuples(steps, st.booleans()), max_size=80))
def test_a_run_never_covers_what_no_sample_shows(history: list[tuple[float, bool]]) -> None:
    """Between the run's first sample and its last there is no busy sample and no gap, and no step counts twice."""
    times, at = [], 0.0
    for step, idle in history:
        at += step
        times.append((at, idle))
    result = run(times)
    if result.since is None:
        assert result.samples == 0
        return
    within = [(ahead(at), idle) for at, idle in times if ahead(at) >= result.since]
    assert all(idle for _, idle in within)
    assert all((b - a).total_seconds() <= 90 for (a, _), (b, _) in pairwise(within))
    assert 1 <= result.samples <= len(within)
    assert (within[-1][0] - result.since).total_seconds() >= (result.samples - 1) * 30 - 0.001


def test_a_short_step_neither_counts_nor_resets() -> None:
    assert run([(0, True), (60, True), (70, True), (130, True)]).samples == 3


def test_a_busy_sample_counts_however_short_its_step_and_however_late_it_comes() -> None:
    assert run([(0, True), (60, True), (61, False)]) == IdleRun(last_at=ahead(61))
    assert run([(0, True), (60, True), (30, False)]) == IdleRun(last_at=ahead(60))


def test_an_idle_sample_that_comes_again_changes_nothing() -> None:
    once = run([(0, True), (60, True)])
    assert run([(0, True), (60, True), (60, True), (0, True)]) == once
    assert run([(0, True), (60, False), (0, True)]) == IdleRun(last_at=ahead(60))


@given(st.integers(min_value=0, max_value=40))
def test_samples_of_the_grace_time_do_not_count(minutes: int) -> None:
    result = run(each_minute(*[True] * 41), counts_from=minutes * PERIOD)
    assert (result.since, result.samples) == (ahead(minutes * PERIOD), 41 - minutes)


def test_before_the_lease_is_active_nothing_counts() -> None:
    assert grace_ends_at(None, 1800) is None
    assert grace_ends_at(ago(1800), 1800) == NOW
    assert IdleRun().after(NOW, idle=True, counts_from=None, period=PERIOD) == IdleRun(last_at=NOW)
