"""New events for those who wait: one look at the database serves every stream of this process.

What was looked at lately is kept once for all. A stream is only a position in it: one whose reader is slow falls behind, holds
nothing for itself, and reads the database when it is too late for what is kept.
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
from app.services.errors import TooManyStreams
from app.services.principal import Principal

POLL_SECONDS = 0.25
_LOOK = 1000
_KEPT = 5000
_PAGE = 500
_TENANTS_SHARE = 4
"""One tenant has the fourth part of all streams."""
MOST_OF_A_KEY = 50

_sequence = attrgetter("sequence")


@dataclass(slots=True)
class Told:
    """A numbered event. `rendered` is for the API, which writes an event once for all streams."""

    sequence: int
    tenant_id: str
    lease_id: str | None
    row: Any
    rendered: bytes | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stream tells: everything, or a tenant's, or a lease's."""

    tenant_id: str | None = None
    lease_id: str | None = None

    def fits(self, one: Told) -> bool:
        """Whether it is to be told."""
        return self.tenant_id in {None, one.tenant_id} and self.lease_id in {None, one.lease_id}


class EventStreams:
    """`most` streams and waits at a time, a quarter of them for one tenant, 50 for one key. `look` is to be called every POLL_SECONDS."""

    def __init__(self, database: ApiDatabase, *, most: int) -> None:
        self._database = database
        self._most = most
        self._open: Counter[str | None] = Counter()
        """By tenant; operators together count as one."""
        self._open_of_key: Counter[str | None] = Counter()
        self._kept: list[Told] = []
        self._newest: int | None = None
        self._looking = asyncio.Lock()
        self._news = asyncio.Event()
        self._ended = False

    def end(self) -> None:
        """Every stream ends soon, so that the process can: its reader goes on at another one."""
        self._ended = True
        self._wake()

    async def look(self) -> None:
        """Reads what is new, when anybody waits for it. Raises DatabaseUnavailable."""
        if not self._open:
            self._kept, self._newest = [], None
            return
        async with self._looking:
            if self._newest is None:
                self._newest = await self._last_number()
            rows = await self._numbered(self._newest, _LOOK, Wanted(), None)
        if rows:
            self._kept = [*self._kept, *rows][-_KEPT:]
            self._newest = rows[-1].sequence
            self._wake()

    async def follow(
        self, principal: Principal, wanted: Wanted, *, after: int | None, heartbeat_seconds: float
    ) -> AsyncIterator[Sequence[Told]]:
        """Events above `after` (None: from now on) as they come, in order, and nothing for each `heartbeat_seconds` without any.

        Ends when the process does. Raises TooManyStreams, DatabaseUnavailable.
        """
        with self._opened(principal):
            await self._look_first()
            at = self._at if after is None else after
            yield ()
            while not self._ended:
                found, at = await self._after(principal, wanted, at, heartbeat_seconds)
                yield found

    async def wait(
        self, principal: Principal, lease_id: str, unchanged: Callable[[], Awaitable[bool]], seconds: float
    ) -> None:
        """Until something happens to the lease, or `seconds` have passed; not at all unless `unchanged` says so."""
        ends = time.monotonic() + seconds
        with self._opened(principal):
            await self._look_first()
            at, wanted = self._at, Wanted(lease_id=lease_id)
            while not self._ended and await unchanged() and (left := ends - time.monotonic()) > 0:
                _, at = await self._after(principal, wanted, at, left)

    async def _after(self, principal: Principal, wanted: Wanted, at: int, seconds: float) -> tuple[Sequence[Told], int]:
        """What is to be told after `at`, and the position after it; nothing after so many seconds, or when all is ending."""
        ends = time.monotonic() + seconds
        while True:
            news = self._news
            found, at = await self._next(principal, wanted, at)
            left = ends - time.monotonic()
            if found or self._ended or left <= 0:
                return found, at
            if at >= self._at:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), left)

    async def _look_first(self) -> None:
        """Makes sure that there is a position to begin at."""
        if self._newest is None:
            await self.look()

    @property
    def _at(self) -> int:
        return self._newest or 0

    async def _next(self, principal: Principal, wanted: Wanted, at: int) -> tuple[Sequence[Told], int]:
        """What is to be told after `at`, and the position after it."""
        newest = self._at
        if at >= newest:
            return (), at
        if self._kept and self._kept[0].sequence <= at + 1:
            start = bisect_right(self._kept, at, key=_sequence)
            found = [one for one in self._kept[start : start + _PAGE] if wanted.fits(one)]
            return found, self._kept[min(start + _PAGE, len(self._kept)) - 1].sequence
        found = await self._numbered(at, _PAGE, wanted, principal.tenant_id)
        return found, found[-1].sequence if len(found) == _PAGE else max(newest, *map(_sequence, found), at)

    async def _numbered(self, after: int, limit: int, wanted: Wanted, tenant: str | None) -> list[Told]:
        statement = reads.numbered(after=after, limit=limit, tenant_id=wanted.tenant_id, lease_id=wanted.lease_id)
        async with self._database.transaction(tenant, read_only=True) as connection:
            rows = (await connection.execute(statement)).all()
        return [Told(row.sequence, row.tenant_id, row.lease_id, row) for row in rows]

    async def _last_number(self) -> int:
        async with self._database.transaction(None, read_only=True) as connection:
            last: int = (await connection.execute(reads.last_number())).scalar_one()
        return last

    @contextlib.contextmanager
    def _opened(self, principal: Principal) -> Iterator[None]:
        """Raises TooManyStreams."""
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
