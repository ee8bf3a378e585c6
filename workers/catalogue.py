"""The offerings as placement sees them, read at most once a second per process."""

import threading
import time
from collections.abc import Callable

from app.db import fleet
from app.db.offering_rows import offering_from_row
from app.domain.offerings import Offering
from workers.database import Database


class Catalogue:
    """A short-lived copy of the offering table."""

    def __init__(self, database: Database, *, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._seconds = seconds
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._offerings: tuple[Offering, ...] = ()

    def offerings(self) -> tuple[Offering, ...]:
        """All offerings, at most `seconds` old."""
        with self._lock:
            if self._monotonic() - self._read_at >= self._seconds:
                self._offerings = tuple(offering_from_row(row) for row in self._database.all(fleet.candidates()))
                self._read_at = self._monotonic()
            return self._offerings

    def forget(self) -> None:
        """The table changed: the next look reads it anew."""
        with self._lock:
            self._read_at = float("-inf")
