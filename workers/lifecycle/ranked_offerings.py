"""The offerings as placement sees them, read at most once a second per process, and ranked once for equal wishes."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Row

from app.db.fleet import offerings
from app.db.fleet.offerings import offering_from_row
from app.domain.offerings import Offering
from app.domain.placement import Ranking, Requirements, rank
from workers.database import WorkerDatabase

_key = attrgetter("account", "region", "zone", "instance_type", "market")


class RankedOfferings:
    """A short-lived copy of the offering table."""

    def __init__(
        self, database: WorkerDatabase, *, seconds: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._seconds = seconds
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._rows: dict[tuple[Any, ...], tuple[Row[Any], Offering]] = {}
        self._offerings: tuple[Offering, ...] = ()
        self._rankings: dict[Requirements, Ranking] = {}

    def offerings(self) -> tuple[Offering, ...]:
        """All offerings, at most `seconds` old."""
        with self._lock:
            return self._read()

    def ranking(self, wish: Requirements, now: datetime) -> Ranking:
        """The offerings ranked for a wish, as of a moment at most `seconds` ago."""
        with self._lock:
            offerings = self._read()
            if wish not in self._rankings:
                self._rankings[wish] = rank(wish, offerings, now)
            return self._rankings[wish]

    def forget(self) -> None:
        """The table changed: the next look reads it anew."""
        with self._lock:
            self._read_at = float("-inf")

    def _read(self) -> tuple[Offering, ...]:
        if self._monotonic() - self._read_at >= self._seconds:
            found = self._database.all(offerings.candidates())
            self._rows = {key: self._parsed(key, row) for key, row in zip(map(_key, found), found, strict=True)}
            self._offerings = tuple(offering for _, offering in self._rows.values())
            self._rankings.clear()
            self._read_at = self._monotonic()
        return self._offerings

    def _parsed(self, key: tuple[Any, ...], row: Row[Any]) -> tuple[Row[Any], Offering]:
        """Most rows are what they were a second ago: taking them apart costs more than reading them."""
        known = self._rows.get(key)
        return known if known is not None and known[0] == row else (row, offering_from_row(row))
