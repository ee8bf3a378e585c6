"""The offerings for placement, read at most once per `seconds` in a process and ranked once for equal requirements."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Row

from app.db.fleet import offerings, reservations
from app.db.fleet.offerings import offering_from_row
from app.domain.offerings import Offering
from app.domain.placement import Ranking, Requirements, rank
from workers.runtime.database import WorkerDatabase

_key = attrgetter("account", "region", "zone", "instance_type", "market")


class RankedOfferings:
    """A short-lived copy of the offerings and reservations."""

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

    def ranking(self, requirements: Requirements, now: datetime) -> Ranking:
        """The offerings ranked for the requirements, as of a moment at most `seconds` ago."""
        with self._lock:
            offerings = self._read()
            if requirements not in self._rankings:
                self._rankings[requirements] = rank(requirements, offerings, now)
            return self._rankings[requirements]

    def forget(self) -> None:
        """Drops the copy because the table changed. The next call reads the table again."""
        with self._lock:
            self._read_at = float("-inf")

    def _read(self) -> tuple[Offering, ...]:
        if self._monotonic() - self._read_at >= self._seconds:
            rows = self._database.all(offerings.candidates())
            self._rows = {key: self._parsed(key, row) for key, row in zip(map(_key, rows), rows, strict=True)}
            reserved = self._database.all(reservations.candidates())
            self._offerings = (
                *(offering for _, offering in self._rows.values()),
                *map(reservations.reserved_offering, reserved),
            )
            self._rankings.clear()
            self._read_at = self._monotonic()
        return self._offerings

    def _parsed(self, key: tuple[Any, ...], row: Row[Any]) -> tuple[Row[Any], Offering]:
        """Reuses the parsed offering of an unchanged row: few rows change, and parsing costs more than reading."""
        known = self._rows.get(key)
        return known if known is not None and known[0] == row else (row, offering_from_row(row))
