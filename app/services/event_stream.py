"""Event streams and long polls: one poll of the database serves every stream of this process.

The process caches recent events once for all streams. A stream is only a position in the event sequence. A stream with
a slow reader falls behind and buffers nothing of its own. It reads the database once its position is older than the
cache.
"""

import asyncio
import contextlib
import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from app.db.core.engine import ApiDatabase
from app.db.events import reads
from app.db.events.reads import ANY
from app.domain.list_filters import EventFilter
from app.services.errors import TooManyStreams
from app.services.principal import Principal

POLL_SECONDS = 0.25
_LOOK = 1000
_KEPT = 5000
_PAGE = 500
_TENANTS_SHARE = 4
"""One tenant may open a quarter of all streams."""
MOST_OF_A_KEY = 50

_sequence = attrgetter("sequence")


@dataclass(slots=True)
class StreamEvent:
    """A numbered event. The API caches its text in `rendered`, so that it renders an event once for all streams."""

    sequence: int
    row: Any
    rendered: bytes | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The next events of a stream, and its position after them: a reader who continues there misses nothing."""

    events: Sequence[StreamEvent]
    position: int


class EventStreams:
    """The open streams and long polls of this process. The caller runs `look` every POLL_SECONDS.

    At most `most` are open at a time, at most a quarter of them for one tenant and at most 50 for one key.
    """

    def __init__(self, database: ApiDatabase, *, most: int) -> None:
        self._database = database
        self._most = most
        self._open: Counter[str | None] = Counter()
        """By tenant. All operators together count as one tenant."""
        self._open_of_key: Counter[str | None] = Counter()
        self._newest_events: list[StreamEvent] = []
        self._newest: int | None = None
        self._looking = asyncio.Lock()
        self._news = asyncio.Event()
        self._ended = False
        self._histories = 0
        """How often a restore of the database was noticed. Each ends the streams that followed the history before it."""

    def end(self) -> None:
        """Ends every stream soon, so that the process can stop. A reader continues at another process."""
        self._ended = True
        self._wake()

    async def look(self) -> None:
        """Reads new events when a stream is open. Raises DatabaseUnavailable."""
        if not self._open:
            self._newest_events, self._newest = [], None
            return
        async with self._looking:
            if self._newest is None:
                self._newest = await self._last_number()
            rows = await self._numbered(self._newest, _LOOK, ANY, None)
        if rows and rows[0].sequence > self._newest + 1:
            # numbers have no gaps: the database was restored. Readers come back with a position that is refused.
            self._histories += 1
            self._newest_events, self._newest = [], None
            self._wake()
        elif rows:
            self._newest_events = [*self._newest_events, *rows][-_KEPT:]
            self._newest = rows[-1].sequence
            self._wake()

    async def follow(
        self, principal: Principal, criteria: EventFilter, *, after: int | None, heartbeat_seconds: float
    ) -> AsyncIterator[Batch]:
        """Yields events above `after` (None: from now on) as they come, in order.

        Yields an empty batch at the start and after each `heartbeat_seconds` without events. Ends when the process ends. Raises
        TooManyStreams, DatabaseUnavailable.
        """
        with self._opened(principal):
            await self._look_first()
            at = self._at if after is None else after
            history = self._histories
            yield Batch((), at)
            while not self._ended:
                events, at = await self._after(principal, criteria, at, heartbeat_seconds)
                if history != self._histories:
                    return
                yield Batch(events, at)

    async def wait(
        self, principal: Principal, lease_id: str, unchanged: Callable[[], Awaitable[bool]], seconds: float
    ) -> None:
        """Waits until the lease has an event or `seconds` have passed. Returns at once if `unchanged` returns false."""
        ends = time.monotonic() + seconds
        with self._opened(principal):
            await self._look_first()
            at, lease_events = self._at, EventFilter(lease_id=lease_id)
            while not self._ended and await unchanged() and (left := ends - time.monotonic()) > 0:
                _, at = await self._after(principal, lease_events, at, left)

    async def _after(
        self, principal: Principal, criteria: EventFilter, at: int, seconds: float
    ) -> tuple[Sequence[StreamEvent], int]:
        """The events after `at`, and the position after them. None after `seconds`, or when all streams end."""
        ends = time.monotonic() + seconds
        while True:
            news = self._news
            events, at = await self._next(principal, criteria, at)
            left = ends - time.monotonic()
            if events or self._ended or left <= 0 or self._newest is None:
                return events, at
            if at >= self._at:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), left)

    async def _look_first(self) -> None:
        """Reads the newest position when it is not known yet."""
        if self._newest is None:
            await self.look()

    @property
    def _at(self) -> int:
        return self._newest or 0

    async def _next(self, principal: Principal, criteria: EventFilter, at: int) -> tuple[Sequence[StreamEvent], int]:
        """The events after `at`, and the position after them."""
        newest = self._at
        if at >= newest:
            return (), at
        if self._newest_events and self._newest_events[0].sequence <= at + 1:
            start = bisect_right(self._newest_events, at, key=_sequence)
            events = [event for event in self._newest_events[start : start + _PAGE] if criteria.matches(event.row)]
            return events, self._newest_events[min(start + _PAGE, len(self._newest_events)) - 1].sequence
        events = await self._numbered(at, _PAGE, criteria, principal.tenant_id)
        return events, events[-1].sequence if len(events) == _PAGE else max(newest, *map(_sequence, events), at)

    async def _numbered(self, after: int, limit: int, criteria: EventFilter, tenant: str | None) -> list[StreamEvent]:
        statement = reads.numbered(after=after, limit=limit, criteria=criteria)
        async with self._database.transaction(tenant, read_only=True) as connection:
            rows = (await connection.execute(statement)).all()
        return [StreamEvent(row.sequence, row) for row in rows]

    async def _last_number(self) -> int:
        async with self._database.transaction(None, read_only=True) as connection:
            last: int = (await connection.execute(reads.last_number())).scalar_one()
        return last

    @contextlib.contextmanager
    def _opened(self, principal: Principal) -> Iterator[None]:
        """Counts an open stream for the time of the block. Raises TooManyStreams."""
        self._check_room(principal)
        counted = ((self._open, principal.tenant_id), (self._open_of_key, principal.key_id))
        for counter, name in counted:
            counter[name] += 1
        try:
            yield
        finally:
            for counter, name in counted:
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]

    def _check_room(self, principal: Principal) -> None:
        if self._open_of_key[principal.key_id] >= MOST_OF_A_KEY:
            raise TooManyStreams(f"This key has {MOST_OF_A_KEY} open streams and long polls, the most for one key.")
        most = math.ceil(self._most / _TENANTS_SHARE)
        if self._open[principal.tenant_id] >= most:
            raise TooManyStreams(f"This tenant has {most} open streams and long polls, the most for one tenant.")
        if self._open.total() >= self._most:
            raise TooManyStreams

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
