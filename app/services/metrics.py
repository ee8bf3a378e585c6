"""The database metrics of a scrape, read at most once in five seconds."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from app.db.core.api_errors import STATEMENT_ERRORS, DatabaseUnavailable
from app.db.operations import health
from app.db.operations import metrics as statements
from app.services.context import ServiceContext, stuck_after
from app.settings.providers import without_own_end

log = structlog.get_logger(__name__)

_KEPT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Rows of the statements of app.db.operations.metrics by their names, all of one moment.

    `rows` is empty while the database is unavailable or refuses a statement.
    """

    rows: Mapping[str, Sequence[Any]]
    needs_deadman: bool = False
    clock_error: float = 0.0
    """Seconds by which this host's clock differs from the database's."""
    seconds: float
    """Duration of the read."""

    @property
    def complete(self) -> bool:
        """Whether the database answered every statement."""
        return bool(self.rows)


class MetricsService:
    """Metrics of the whole installation. Every process returns the same ones, at a cost independent of the scrapes."""

    def __init__(self, context: ServiceContext, *, clock: Callable[[], float] = time.monotonic) -> None:
        settings = context.settings
        self._database = context.database
        self._clock = clock
        self._lock = asyncio.Lock()
        self._cache: tuple[float, MetricsSnapshot] | None = None
        self._statements = statements.statements(stuck_after(settings))

    async def snapshot(self) -> MetricsSnapshot:
        """A snapshot at most five seconds old. Never raises: without the database's answers it is empty."""
        async with self._lock:
            if self._cache is None or self._clock() - self._cache[0] >= _KEPT_SECONDS:
                self._cache = None
                taken = await self._take()
                self._cache = self._clock(), taken
            return self._cache[1]

    async def _take(self) -> MetricsSnapshot:
        started = self._clock()
        rows: dict[str, Sequence[Any]] = {}
        try:
            async with self._database.transaction(None, read_only=True) as connection:
                for name, statement in self._statements.items():
                    rows[name] = (await connection.execute(statement)).all()
                deadman: bool = (await connection.execute(health.needs_deadman(without_own_end()))).scalar_one()
                clock_error = abs(time.time() - (await connection.execute(health.CLOCK)).scalar_one())
        except DatabaseUnavailable:
            return MetricsSnapshot(rows={}, seconds=self._clock() - started)
        except STATEMENT_ERRORS as error:
            log.error("statement failed", error=str(error).partition("\n")[0])  # noqa: TRY400 - one line of many a minute
            return MetricsSnapshot(rows={}, seconds=self._clock() - started)
        seconds = self._clock() - started
        return MetricsSnapshot(rows=rows, needs_deadman=deadman, clock_error=clock_error, seconds=seconds)
