"""Rate limits that add no wait to a request.

Each process counts on its own. Four times a second, the process adds the counts of all its limiters to Redis in one
round trip and reads the sums. While Redis is unavailable, each process applies the limit alone. Windows start at
multiples of their length by the clock of Redis, so that all processes use the same windows. A process that has not
reached Redis yet uses its host's clock.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import redis.asyncio
import structlog
from redis import DriverInfo
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from app.domain.request_rates import RequestRate
from app.observability.metrics import ApiMetrics

SYNC_SECONDS = 0.25
_PAUSE_SECONDS = 5.0
_CLOCK_SECONDS = 0.5
"""A clock that differs less is left alone: a window must not change with the time that an answer takes."""
_SOCKET_SECONDS = 1.0
_REMEMBERED = 10_000
_DRIVER = DriverInfo()
"""Without it, the client looks up its own version anew for each connection, which takes longer than connecting."""

_log = structlog.get_logger("gpulease.rate_limits")
_BEGAN = time.time() - time.monotonic()


def _steady() -> float:
    """The host's clock as it was when the process began. Setting the clock afterwards changes no window."""
    return _BEGAN + time.monotonic()


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed. `remaining`: requests left in the window. `reset`: seconds until the next window."""

    allowed: bool
    remaining: int
    reset: int


@dataclass(slots=True)
class _Window:
    """`total`: the count of all processes, as last read from Redis. `pending`: requests not yet added there."""

    number: int
    total: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class PendingCount:
    """What a limiter has counted and Redis does not know yet. `key` is the hash of its window there."""

    key: str
    seconds: int
    windows: dict[str, _Window]


class RateLimiter:
    """`rule` such as `600/minute`. `name` keeps the counters of several limiters apart. `clock`: see `follow`."""

    def __init__(self, rule: str, *, name: str, clock: Callable[[], float] = _steady) -> None:
        self._rate = RequestRate.parse(rule)
        self._seconds = self._rate.seconds
        self._name = name
        self._clock = clock
        self._behind = 0.0
        self._windows: dict[str, _Window] = {}
        """The most recently used is last. The one that was not used for longest makes room for a new one."""
        self.policy = f'"{name}";q={self._rate.amount};w={self._seconds}'

    def hit(self, identity: str, cost: int = 1) -> Decision:
        """Counts a request of `identity` as `cost` requests, or as all that a window allows. A refused one counts as one."""
        window, cost = self._window(identity), min(cost, self._rate.amount)
        window.pending += cost
        decision = self._decide(window)
        if not decision.allowed:
            window.pending -= cost - 1
        return decision

    def peek(self, identity: str) -> Decision:
        """The result that the next `hit` would have. Counts nothing."""
        window = self._window(identity)
        used = window.total + window.pending
        return Decision(used < self._rate.amount, max(self._rate.amount - used, 0), self._reset())

    def header(self, decision: Decision) -> str:
        """The RateLimit header's value."""
        return f'"{self._name}";r={decision.remaining};t={decision.reset}'

    def follow(self, behind: float) -> None:
        """From now on, windows are those of a clock that is so many seconds ahead of the host's. What was counted stays counted."""
        before, self._behind = self._number(), behind
        number = self._number()
        for window in self._windows.values():
            if window.number == before != number:
                window.number, window.total = number, 0

    def counted(self) -> PendingCount:
        """What Redis does not know yet of the present window. Earlier windows are forgotten."""
        number = self._number()
        self._windows = {identity: window for identity, window in self._windows.items() if window.number == number}
        pending = {identity: window for identity, window in self._windows.items() if window.pending}
        return PendingCount(f"gpulease:rate:{self._name}:{number}", self._seconds, pending)

    def _decide(self, window: _Window) -> Decision:
        used = window.total + window.pending
        return Decision(used <= self._rate.amount, max(self._rate.amount - used, 0), self._reset())

    def _window(self, identity: str) -> _Window:
        number = self._number()
        window = self._windows.pop(identity, None)
        if window is None or window.number != number:
            window = _Window(number)
            if len(self._windows) >= _REMEMBERED:
                del self._windows[next(iter(self._windows))]
        self._windows[identity] = window
        return window

    def _number(self) -> int:
        return int(self._now() // self._seconds)

    def _reset(self) -> int:
        return max(int(self._seconds - self._now() % self._seconds), 1)

    def _now(self) -> float:
        return self._clock() + self._behind


class SharedCounts:
    """Keeps the limiters of this process in step with those of others, over one connection. `clock` is the host's."""

    def __init__(
        self,
        limiters: Iterable[RateLimiter],
        broker_url: str,
        metrics: ApiMetrics,
        *,
        clock: Callable[[], float] = _steady,
    ) -> None:
        self._limiters = tuple(limiters)
        self._metrics = metrics
        self._clock = clock
        self._silent_until = 0.0
        self._asked_at = 0.0
        self._behind: float | None = None
        self._endless: dict[str, tuple[int, float]] = {}
        """Keys in Redis that have no end yet: the seconds that they are to last, and until when that is tried."""
        self._redis = redis.asyncio.Redis.from_url(
            broker_url, socket_timeout=_SOCKET_SECONDS, socket_connect_timeout=_SOCKET_SECONDS, driver_info=_DRIVER
        )

    async def keep_in_step(self) -> None:
        """Call it every SYNC_SECONDS. It never raises. While Redis is unavailable, it retries every few seconds."""
        if self._clock() < self._silent_until:
            return
        try:
            await self.sync()
        except (RedisError, OSError) as error:
            self._silent_until, self._behind = self._clock() + _PAUSE_SECONDS, None
            self._metrics.redis_answered(up=False)
            _log.warning("rate limits are counted by this process alone", error=type(error).__name__)

    async def sync(self) -> None:
        """Adds the pending counts to Redis and reads the sums. Raises RedisError or OSError.

        Each answer is judged by itself: what Redis refused is sent again, and nothing else. An error that ends the
        connection leaves the answers after it unknown, and these counts may be added twice.
        """
        if self._behind is None:
            await self._follow_redis()
        await self._exchange()

    async def _exchange(self) -> None:
        counted = [each for each in (limiter.counted() for limiter in self._limiters) if each.windows]
        now = self._clock()
        self._endless |= {each.key: (2 * each.seconds, now + 2 * each.seconds) for each in counted}
        self._endless = {key: ends for key, ends in self._endless.items() if ends[1] > now}
        sent = [(each.key, *window, window[1].pending) for each in counted for window in each.windows.items()]
        ends = list(self._endless.items())
        async with self._redis.pipeline(transaction=False) as pipeline:
            self._ask(pipeline, sent, ends, now)
            answers = await pipeline.execute(raise_on_error=False)
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        for (_, _, window, amount), total in zip(sent, answers, strict=False):
            if total not in refused:
                window.total = int(total)
                window.pending -= amount
        for (key, _), answer in zip(ends, answers[len(sent) :], strict=False):
            if answer not in refused:
                del self._endless[key]
        if refused:
            raise refused[0]
        if answers:
            self._metrics.redis_answered(up=True)

    def _ask(
        self,
        pipeline: Pipeline,
        counts: Iterable[tuple[str, str, _Window, int]],
        ends: Iterable[tuple[str, tuple[int, float]]],
        now: float,
    ) -> None:
        """Asks Redis something every few seconds, although no request has come: whether it answers is then known."""
        for key, identity, _, amount in counts:
            pipeline.hincrby(key, identity, amount)
        for key, (seconds, _) in ends:
            pipeline.expire(key, seconds)
        if not len(pipeline) and now >= self._asked_at + _PAUSE_SECONDS:
            pipeline.ping()
        if len(pipeline):
            self._asked_at = now

    async def _follow_redis(self) -> None:
        """Compares the clocks. This happens at the start, and again after each failure of Redis."""
        seconds, microseconds = await self._redis.time()
        behind = seconds + microseconds / 1e6 - self._clock()
        self._behind = behind if abs(behind) > _CLOCK_SECONDS else 0.0
        for limiter in self._limiters:
            limiter.follow(self._behind)

    async def close(self) -> None:
        """Closes the connection."""
        await self._redis.aclose()
