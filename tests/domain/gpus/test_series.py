"""The steps of a series that a caller can request, and the values of each step."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.gpus.samples import GPU_SERIES, LEASE_SERIES
from app.domain.gpus.series import MOST_GPUS, MOST_POINTS, SeriesGrid, SeriesPeriod, WrongPeriod, series_period

NOW = datetime(2026, 11, 24, 10, 7, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def period(since: timedelta | None = None, step: int | None = None, until: timedelta | None = None) -> SeriesPeriod:
    start = None if since is None else NOW - since
    end = None if until is None else NOW - until
    return series_period(NOW, start, end, step, raw_days=7, kept_days=400)


def test_an_hour_by_minutes_is_the_default() -> None:
    found = period()
    assert (found.step, found.points, found.is_of_samples) == (60, 61, True)
    assert found.since <= NOW - HOUR < found.since + timedelta(seconds=60)
    assert found.until >= NOW


@pytest.mark.parametrize("days", [0.01, 0.5, 1, 2, 6.9, 7.5, 30, 399])
def test_a_range_without_a_step_gets_one_that_can_be_asked_for(days: float) -> None:
    found = period(timedelta(days=days))
    assert found.points <= MOST_POINTS
    assert period(timedelta(days=days), found.step) == found


@pytest.mark.parametrize(
    ("since", "step", "cell"),
    [(HOUR, 60, 60), (33 * HOUR, 240, 240), (HOUR, 300, 300), (6 * 24 * HOUR, 3600, 300), (8 * 24 * HOUR, 7200, 3600)],
)
def test_values_are_made_from_the_coarsest_rows_that_are_precise_enough(since: timedelta, step: int, cell: int) -> None:
    assert period(since, step).cell == cell


@pytest.mark.parametrize(
    ("since", "until", "step", "field"),
    [
        (timedelta(0), None, None, "from"),
        (HOUR, 2 * HOUR, None, "from"),
        (timedelta(days=401), None, None, "from"),
        (HOUR, None, 59, "step"),
        (HOUR, None, 90, "step"),
        (HOUR, None, 360, "step"),
        (HOUR, None, 86_460, "step"),
        (34 * HOUR, None, 60, "step"),
        (34 * HOUR, None, 240, "step"),
        (timedelta(days=8), None, 300, "step"),
        (timedelta(days=100), None, 3600, "step"),
    ],
)
def test_what_cannot_be_answered_names_its_parameter(
    since: timedelta, until: timedelta | None, step: int | None, field: str
) -> None:
    with pytest.raises(WrongPeriod) as raised:
        period(since, step, until)
    assert raised.value.field == field


def cells(uuid: str | None, found: dict[int, int | None]) -> dict[str, Any]:
    """A row of means, as the database gives them."""
    series = GPU_SERIES if uuid is not None else LEASE_SERIES
    return {"uuid": uuid, "cells": list(found), "values": [list(found.values())] * len(series)}


def test_a_step_is_the_mean_of_its_cells_and_a_gap_is_unknown() -> None:
    found = period(timedelta(minutes=17, seconds=30), 300)
    grid = SeriesGrid(found)
    grid.put_cells([cells(None, {0: 16, 3: 70}), cells("GPU-a", {0: 16}), cells("GPU-b", {3: 70})], found.since)
    assert grid.lease_series()["gpu_percent"] == [16, None, None, 70]
    series = {gpu["uuid"]: gpu["power_w"] for gpu in grid.gpu_series()}
    assert series == {"GPU-a": [16, None, None, None], "GPU-b": [None, None, None, 70]}


def test_stored_series_and_samples_after_them_make_one_series() -> None:
    found = period(2 * HOUR, 1800)
    grid = SeriesGrid(found)
    hour = NOW.replace(minute=0, second=0)
    for starts_at, percent in ((hour - 2 * HOUR, 20), (hour - HOUR, 40)):
        steps = [percent] * 6 + [percent + 10] * 6
        values = dict.fromkeys(LEASE_SERIES, steps)
        row = {"starts_at": starts_at, **values, "uuids": ["GPU-a"], "gpu_values": [steps] * len(GPU_SERIES)}
        grid.put_series(row)
    grid.put_cells([cells(None, {0: 90}), cells("GPU-a", {0: 90})], hour)
    assert grid.lease_series()["gpu_percent"] == [20, 30, 40, 50, 90]
    assert grid.gpu_series()[0]["gpu_percent"] == [20, 30, 40, 50, 90]


def test_hours_are_summed_up_to_days() -> None:
    found = period(timedelta(days=9), 86_400)
    grid = SeriesGrid(found)
    grid.put_cells([cells(None, {0: 10, 23: 30, 24: 80})], found.since)
    assert grid.lease_series()["gpu_percent"][:3] == [20, 80, None]


def test_a_vm_that_names_thousands_of_gpus_gets_a_few() -> None:
    found = period(2 * HOUR, 300)
    grid = SeriesGrid(found)
    uuids = [f"GPU-{n}" for n in range(1000)]
    values = dict.fromkeys(LEASE_SERIES, [5] * 12)
    starts_at = NOW.replace(minute=0, second=0) - HOUR
    row = {"starts_at": starts_at, **values, "uuids": uuids, "gpu_values": [[5] * 12] * len(GPU_SERIES) * 1000}
    grid.put_series(row)
    assert [gpu["uuid"] for gpu in grid.gpu_series()] == uuids[:MOST_GPUS]
