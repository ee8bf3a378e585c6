"""Which request runs next in this process: one tenant's requests wait for each other, not for those of others.

All of it happens in the event loop. A request that finds room starts without a wait.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from app.services.errors import RateLimited

MOST_WAITING = 256
"""Requests of one identity that wait in one process. Further ones are refused."""
LONGEST_WAIT = 20.0
"""Seconds that a request waits for its turn before it is refused."""
LONGEST_PRECEDENCE = 0.05
"""Seconds for which plain requests come before a costly one that waits."""
_PASSES = 3
"""Passes of the event loop before a waiting costly request starts. By then, the requests that have arrived run."""
_RETRY_AFTER = {"Retry-After": "1"}
_TOO_MANY = "Too many requests of this tenant are under way. Send fewer at once."


@dataclass(frozen=True, slots=True)
class Share:
    """How many requests run at once in one process.

    `each`: of one identity. `total`: of all. `costly`: costly ones of all, of which an identity has one at once.
    """

    each: int
    total: int
    costly: int

    @classmethod
    def of_pool(cls, connections: int) -> Self:
        """A tenant has a quarter of a connection pool. Two connections remain for health and key checks."""
        return cls(each=max(1, connections // 4), total=max(1, connections - 2), costly=max(1, connections // 2))


class FairQueue:
    """Places for at most `each` requests of one identity and `total` of all. Identities that wait take turns.

    `on_room` runs when a place becomes free. By default, every waiting request with room starts then.
    """

    def __init__(self, *, each: int, total: int, on_room: Callable[[], None] | None = None) -> None:
        self._each = each
        self._total = total
        self._on_room = on_room or self._start_all
        self._of: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.running = 0

    @property
    def waits(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    def try_enter(self, identity: str) -> bool:
        """Takes a place if there is room and no request of `identity` waits."""
        taken = self._of.get(identity, 0)
        if self.running >= self._total or taken >= self._each or identity in self._waiting:
            return False
        self.running += 1
        self._of[identity] = taken + 1
        return True

    async def enter(self, identity: str) -> None:
        """Waits for a place. Raises RateLimited when too many requests of `identity` wait, and after LONGEST_WAIT."""
        if not self.try_enter(identity):
            await self.wait(identity)

    async def wait(self, identity: str) -> None:
        """As `enter`, behind what has a place now."""
        waiting = self._waiting.setdefault(identity, deque())
        if len(waiting) >= MOST_WAITING:
            raise RateLimited(_TOO_MANY, headers=_RETRY_AFTER)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(place)
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await place
        except BaseException as error:
            self._give_up(identity, place)
            if isinstance(error, TimeoutError):
                raise RateLimited(_TOO_MANY, headers=_RETRY_AFTER) from None
            raise

    def leave(self, identity: str) -> None:
        """Frees the place."""
        self.running -= 1
        left = self._of.pop(identity) - 1
        if left:
            self._of[identity] = left
        if self._waiting:
            self._on_room()

    def start_one(self) -> bool:
        """Starts the next waiting request. False: none waits, or there is no room for it."""
        if self.running >= self._total:
            return False
        identity = next((candidate for candidate in self._waiting if self._of.get(candidate, 0) < self._each), None)
        if identity is None:
            return False
        place = self._waiting[identity].popleft()
        self._waiting.move_to_end(identity)
        if not self._waiting[identity]:
            del self._waiting[identity]
        self.running += 1
        self._of[identity] = self._of.get(identity, 0) + 1
        if not place.done():  # one that was just cancelled gives the place up itself
            place.set_result(None)
        return True

    def _start_all(self) -> None:
        while self.start_one():
            pass

    def _give_up(self, identity: str, place: asyncio.Future[None]) -> None:
        """The request waits no longer. It may have got its place at the same moment."""
        waiting = self._waiting.get(identity, ())
        if place not in waiting:
            self.leave(identity)
            return
        self._waiting[identity].remove(place)
        if not self._waiting[identity]:
            del self._waiting[identity]


class RequestQueue:
    """The turns of all requests with a key. A costly request has a place among the costly ones and a plain place.

    A costly request that has waited starts when no plain request runs, or after LONGEST_PRECEDENCE. One that comes while
    another has just ended waits too: without that, those that need no wait themselves would all run in one pass.
    """

    def __init__(self, share: Share) -> None:
        self._plain = FairQueue(each=share.each, total=share.total)
        self._costly = FairQueue(each=1, total=share.costly, on_room=self._start_soon)
        self._outside = 0
        self._passes_left = 0
        self._overdue: asyncio.TimerHandle | None = None

    def turn(self, identity: str, *, costly: bool) -> "Turn":
        """The turn of one request, as a context manager."""
        return Turn(self, identity, costly=costly)

    def try_enter(self, identity: str, *, costly: bool) -> bool:
        """Takes the turn of a plain request if there is room."""
        return not costly and self._plain.try_enter(identity)

    async def enter(self, identity: str, *, costly: bool) -> None:
        """Waits for a turn. Raises RateLimited."""
        if costly and (self._passes_left or not self._costly.try_enter(identity)):
            await self._costly.wait(identity)
        try:
            await self._plain.enter(identity)
        except BaseException:
            if costly:
                self._costly.leave(identity)
            raise

    def leave(self, identity: str, *, costly: bool) -> None:
        """Ends a turn."""
        self._plain.leave(identity)
        if costly:
            self._costly.leave(identity)
        if costly or self._costly.waits:
            self._start_soon()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A request that needs no turn. Waiting costly requests let it run first, as they do a plain one."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1
            if self._costly.waits:
                self._start_soon()

    def _start_soon(self) -> None:
        if not self._passes_left:
            self._passes_left = _PASSES
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._passes_left -= 1
        if self._passes_left:
            asyncio.get_running_loop().call_soon(self._pass)
        elif self._plain.running + self._outside <= self._costly.running:
            self._start_next()
        elif self._costly.waits and self._overdue is None:
            self._overdue = asyncio.get_running_loop().call_later(LONGEST_PRECEDENCE, self._start_next)

    def _start_next(self) -> None:
        """One costly request at a time, so that plain requests come between."""
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if self._costly.start_one():
            self._start_soon()


class Turn:
    """The turn of one request."""

    __slots__ = ("_costly", "_identity", "_is_inside", "_queue")

    def __init__(self, queue: RequestQueue, identity: str, *, costly: bool) -> None:
        self._queue = queue
        self._identity = identity
        self._costly = costly
        self._is_inside = False

    async def __aenter__(self) -> Self:
        """Waits for the turn. Raises RateLimited."""
        if not self._queue.try_enter(self._identity, costly=self._costly):
            await self._queue.enter(self._identity, costly=self._costly)
        self._is_inside = True
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Ends the turn."""
        self._end()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Lets others run during the block, which waits for an event. Raises RateLimited at its end."""
        self._end()
        yield
        await self.__aenter__()

    def _end(self) -> None:
        if self._is_inside:
            self._is_inside = False
            self._queue.leave(self._identity, costly=self._costly)
