"""The whole installation at a glance, as this process last read it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from app.db.core.compiled import Query
from app.db.operations import summary as statements
from app.domain.billing import cost
from app.services.context import ServiceContext, stuck_after
from app.services.health import HealthService
from app.services.ttl_cache import TtlCache

_MOST_STUCK = 100
_PAST_SHARE = 15
"""The figures of the past are read so many times less often than those of the present: they change slowly, and need all rows."""

Row = Mapping[str, Any]
"""A row of a statement of app.db.operations.summary: amounts are int or Decimal, times datetime."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """Rows of the statements of app.db.operations.summary. `spend_of_month` goes on from its reading at the present rate."""

    as_of: datetime
    brakes: Row
    counts: tuple[Row, ...]
    placed: tuple[Row, ...]
    tenants: tuple[Row, ...]
    spend_now: Decimal
    spend_of_month: Decimal
    trouble: tuple[Row, ...]
    time_to_ready: Row
    orphan_counts: tuple[Row, ...]
    active_brakes: tuple[Row, ...]
    refused_launches: tuple[Row, ...]
    late_jobs: tuple[Row, ...]
    failed_checks: tuple[Row, ...]
    stuck: tuple[Row, ...]
    heartbeats: tuple[Row, ...]
    lost_hosts: tuple[Row, ...]
    overdue: Row
    ghosts: tuple[Row, ...]
    unlisted_charges: int
    warnings: tuple[str, ...]
    invariants: tuple[Row, ...]
    event_lag: Row


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one statement answered."""

    as_of: datetime
    rows: Mapping[str, tuple[Row, ...]]


class SummaryReader:
    """Read once for all who ask within `catalogue_cache_seconds`; what was, _PAST_SHARE times less often than what is."""

    def __init__(self, context: ServiceContext, health: HealthService) -> None:
        settings = context.settings
        self._database = context.database
        self._health = health
        self._present = statements.present(stuck_after(settings), stuck_limit=_MOST_STUCK)
        past = statements.past()
        self._past = TtlCache(lambda: self._parts(past), settings.catalogue_cache_seconds * _PAST_SHARE)
        self._summary = TtlCache(self._read, settings.catalogue_cache_seconds)

    async def get(self) -> Summary:
        """The same object for all who share a reading. Raises DatabaseUnavailable."""
        return await self._summary.get()

    def forget(self) -> None:
        """The next summary is read anew, after a change by this process. Others show the change when their reading is old."""
        self._summary.forget()

    async def _read(self) -> Summary:
        past = await self._past.get()
        present = await self._parts(self._present)
        return _summary(present, past, (await self._health.readiness()).warnings)

    async def _parts(self, query: Query) -> _Parts:
        (row,) = await self._database.fetch(None, query)
        return _Parts(row["as_of"], {name: _rows(text) for name, text in row.items() if name != "as_of"})


def _summary(present: _Parts, past: _Parts, warnings: Sequence[str]) -> Summary:
    now, was = present.rows, past.rows
    spend_now = Decimal(now["spend_now"][0]["usd"])
    return Summary(
        as_of=present.as_of,
        brakes=now["brakes"][0],
        counts=now["running"] + was["ended"],
        placed=now["placed"],
        tenants=now["tenants"],
        spend_now=spend_now,
        spend_of_month=Decimal(was["spend_of_month"][0]["usd"]) + cost(spend_now, present.as_of - past.as_of),
        trouble=was["trouble"],
        time_to_ready=was["time_to_ready"][0],
        orphan_counts=now["orphan_counts"],
        active_brakes=_timed(now["active_brakes"], "since", "until"),
        refused_launches=_timed(now["refused_launches"], "since"),
        late_jobs=_timed(now["late_jobs"], "since"),
        failed_checks=_timed(now["failed_checks"], "checked_at"),
        stuck=_timed(now["stuck"], "since"),
        heartbeats=now["heartbeats"],
        lost_hosts=now["lost_hosts"],
        overdue=now["overdue"][0],
        ghosts=now["ghosts"],
        unlisted_charges=int(now["unlisted"][0]["resources"]),
        warnings=tuple(warnings),
        event_lag=now["event_lag"][0],
        invariants=_timed(now["invariants"], "since", "checked_at"),
    )


def _rows(text: str) -> tuple[Row, ...]:
    """Numbers with a point stay decimal."""
    return tuple(json.loads(text, parse_float=Decimal))


def _timed(rows: tuple[Row, ...], *names: str) -> tuple[Row, ...]:
    return tuple({**row, **{name: _time(row[name]) for name in names}} for row in rows)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
