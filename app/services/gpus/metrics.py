"""Series of GPUs: of one lease over days or months, and the utilization of many leases for lists."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.engine import fetch
from app.db.core.tenant_scope import parameter
from app.db.gpus import series as statements
from app.domain.gpus.series import (
    FINE_SECONDS,
    HOUR_SECONDS,
    SeriesGrid,
    SeriesPeriod,
    WrongPeriod,
    floor,
    mean_steps,
    series_period,
)
from app.domain.ids import is_typeid
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest, ResourceNotFound
from app.services.leases.leases import lease_key
from app.services.principal import Principal

MOST_LEASES = 100
MOST_HOURS = 24
_STEPS = (300, 600, 900, 1200, 1800)
_MOST_STEPS = 60
_MOST_THREADS = 2
"""Series that are made at once, beside the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSeries:
    """`lease` and `gpus`: see SeriesGrid."""

    lease_id: str
    period: SeriesPeriod
    lease: Mapping[str, Sequence[int | None]]
    gpus: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """Percentages of each lease in steps from `since`."""

    since: datetime
    step: int
    items: Mapping[str, Sequence[int | None]]


class GpuMetricsService:
    """Reads series. Hours that are over come from stored series and sums, later ones from samples."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database
        self._raw_days = context.settings.raw_sample_days
        self._kept_days = context.settings.metrics_days
        self._threads = asyncio.Semaphore(_MOST_THREADS)

    async def series(
        self, principal: Principal, lease_id: str, since: datetime | None, until: datetime | None, step: int | None
    ) -> LeaseSeries:
        """Raises ResourceNotFound, and InvalidRequest for a wrong range or step."""
        within, key = principal.tenant_id, lease_key(lease_id)
        scope = parameter(within)
        async with self._database.transaction(within, read_only=True) as connection:
            (progress, *_) = await fetch(connection, statements.PROGRESS, {**scope, "lease_ids": [key]})
            if progress["id"] is None:
                raise ResourceNotFound
            period = self._period(progress["now"], since, until, step)
            rows = await _rows(connection, {**scope, "lease_id": key}, period, progress["samples_rolled_until"])
        async with self._threads:
            return await asyncio.to_thread(_series, key, period, rows)

    def _period(self, now: datetime, since: datetime | None, until: datetime | None, step: int | None) -> SeriesPeriod:
        try:
            return series_period(now, since, until, step, raw_days=self._raw_days, kept_days=self._kept_days)
        except WrongPeriod as error:
            raise InvalidRequest(errors=[FieldError(f"#/query/{error.field}", str(error))]) from None

    async def utilization(self, principal: Principal, lease_ids: Sequence[str], hours: int) -> Utilization:
        """Of the leases among these that the caller may see. Raises InvalidRequest for more than MOST_LEASES ids."""
        ordered_ids = list(dict.fromkeys(lease_id for lease_id in lease_ids if is_typeid("lease", lease_id)))
        if not lease_ids or len(lease_ids) > MOST_LEASES:
            raise InvalidRequest(errors=[FieldError("#/query/ids", f"must be 1 to {MOST_LEASES} ids of leases")])
        step = next(step for step in _STEPS if hours * HOUR_SECONDS <= step * _MOST_STEPS)
        within = principal.tenant_id
        scope = parameter(within)
        async with self._database.transaction(within, read_only=True) as connection:
            known = await fetch(connection, statements.PROGRESS, {**scope, "lease_ids": ordered_ids})
            now, rolled_until = known[0]["now"], known[0]["samples_rolled_until"]
            until = floor(now, step) + timedelta(seconds=step)
            since = until - timedelta(hours=hours)
            first = floor(since, HOUR_SECONDS)
            visible = [row["id"] for row in known if row["id"] is not None]
            recent = max(rolled_until or first, first)
            query = {**scope, "lease_ids": visible, "until": until}
            stored = await fetch(connection, statements.UTILIZATION, {**query, "since": first})
            samples = await fetch(connection, statements.RECENT_UTILIZATION, {**query, "since": recent})
        cells = int((until - first).total_seconds()) // FINE_SECONDS
        items: dict[str, list[int | None]] = {lease_id: [None] * cells for lease_id in visible}
        for row in stored:
            start = int((row["starts_at"] - first).total_seconds()) // FINE_SECONDS
            items[row["lease_id"]][start : start + len(row["gpu_percent"])] = row["gpu_percent"]
        offset = int((recent - first).total_seconds()) // FINE_SECONDS
        for row in samples:
            items[row["lease_id"]][offset + row["step"]] = row["gpu_percent"]
        skipped = int((since - first).total_seconds()) // FINE_SECONDS
        ordered = {lease_id: items[lease_id] for lease_id in ordered_ids if lease_id in items}
        return Utilization(
            since=since,
            step=step,
            items={
                lease_id: mean_steps(values[skipped:cells], step // FINE_SECONDS)
                for lease_id, values in ordered.items()
            },
        )


class _Rows(NamedTuple):
    """Rows of SAMPLES, and of HOURS or SERIES, with the time from which their cells are counted."""

    recent: Sequence[Mapping[str, Any]]
    recent_since: datetime
    stored: Sequence[Mapping[str, Any]]
    stored_since: datetime


async def _rows(
    connection: AsyncConnection, query: Mapping[str, Any], period: SeriesPeriod, rolled_until: datetime | None
) -> _Rows:
    """`query`: the lease within its tenant. `rolled_until`: how far samples are summed up."""
    recent_since, stored_since = period.since, floor(period.since, HOUR_SECONDS)
    if not period.is_of_samples and rolled_until is not None:
        recent_since = max(period.since, rolled_until)
    recent: Sequence[Mapping[str, Any]] = []
    stored: Sequence[Mapping[str, Any]] = []
    query = {**query, "until": period.until, "cell": period.cell}
    if recent_since < period.until:
        recent = await fetch(connection, statements.SAMPLES, {**query, "since": recent_since})
    if recent_since > period.since:
        statement = statements.HOURS if period.cell == HOUR_SECONDS else statements.SERIES
        stored = await fetch(connection, statement, {**query, "since": stored_since})
    return _Rows(recent, recent_since, stored, stored_since)


def _series(lease_id: str, period: SeriesPeriod, rows: _Rows) -> LeaseSeries:
    grid = SeriesGrid(period)
    grid.put_cells(rows.recent, rows.recent_since)
    if period.cell == HOUR_SECONDS:
        grid.put_cells(rows.stored, rows.stored_since)
    else:
        for row in rows.stored:
            grid.put_series(row)
    return LeaseSeries(lease_id=lease_id, period=period, lease=grid.lease_series(), gpus=grid.gpu_series())
