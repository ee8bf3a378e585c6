"""The whole installation at a glance, as this process last read it."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from app.db import ops_summary as statements
from app.db.reads import Query
from app.services.context import Context

_MOST_STUCK = 100
_PAST_SHARE = 15
"""What was is read so many times less often than what is: it changes slowly, and all rows tell of it."""
_HOUR = Decimal(3600)

Row = Mapping[str, Any]
"""A row of a statement of app.db.ops_summary: amounts are int or Decimal, times datetime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Rows of the statements of app.db.ops_summary. `spend_of_month` goes on from its reading at the present rate."""

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
    stuck: tuple[Row, ...]
    heartbeats: tuple[Row, ...]
    invariants: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one statement answered."""

    as_of: datetime
    rows: Mapping[str, tuple[Row, ...]]


class SummaryReader:
    """What is, is read when asked for; what was, when it is older than _PAST_SHARE times `catalogue_cache_seconds`."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._database = context.database
        self._present = statements.present(
            release=settings.release_alarm_seconds,
            launch=settings.launch_timeout,
            boot=settings.boot_timeout,
            stuck_limit=_MOST_STUCK,
        )
        self._past = statements.past()
        self._past_seconds = settings.catalogue_cache_seconds * _PAST_SHARE
        self._known: _Parts | None = None
        self._known_at = float("-inf")
        self._reading = asyncio.Lock()

    async def read(self) -> Summary:
        """Raises DatabaseUnavailable."""
        past = await self._what_was()
        return _summary(await self._read(self._present), past)

    async def _what_was(self) -> _Parts:
        """Those who ask at the same time wait for one reading."""
        async with self._reading:
            if self._known is None or time.monotonic() - self._known_at >= self._past_seconds:
                self._known_at, self._known = time.monotonic(), await self._read(self._past)
            return self._known

    async def _read(self, query: Query) -> _Parts:
        (row,) = await self._database.fetch(None, query)
        return _Parts(row["as_of"], {name: _rows(text) for name, text in row.items() if name != "as_of"})


def _summary(present: _Parts, past: _Parts) -> Summary:
    now, was = present.rows, past.rows
    seconds = int((present.as_of - past.as_of).total_seconds())
    spend_now = Decimal(now["spend_now"][0]["usd"])
    return Summary(
        as_of=present.as_of,
        brakes=now["brakes"][0],
        counts=now["running"] + was["ended"],
        placed=now["placed"],
        tenants=now["tenants"],
        spend_now=spend_now,
        spend_of_month=Decimal(was["spend_of_month"][0]["usd"]) + spend_now * seconds / _HOUR,
        trouble=was["trouble"],
        time_to_ready=was["time_to_ready"][0],
        orphan_counts=now["orphan_counts"],
        stuck=_timed(now["stuck"], "since"),
        heartbeats=now["heartbeats"],
        invariants=_timed(now["invariants"], "since", "checked_at"),
    )


def _rows(text: str) -> tuple[Row, ...]:
    """Numbers with a point stay decimal."""
    return tuple(json.loads(text, parse_float=Decimal))


def _timed(rows: tuple[Row, ...], *names: str) -> tuple[Row, ...]:
    return tuple({**row, **{name: _time(row[name]) for name in names}} for row in rows)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
