"""A small bounded HTTP load generator: keep-alive connections, raw requests, answers with Content-Length.

It costs about a tenth of the CPU of what it measures, so that both fit on two cores.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import uvloop

_ANSWER_SECONDS = 30.0
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"

NextRequest = Callable[[int], bytes]
"""The n-th request, complete, as it goes over the wire."""


@dataclass
class Result:
    """What came back. Latencies in seconds, `seconds` from the first request to the last answer."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    received: int = 0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def percentile_ms(self, share: float) -> float:
        """Milliseconds within which that share of the answers came."""
        return sorted(self.latencies)[math.ceil(share * len(self.latencies)) - 1] * 1000

    def must_all_be(self, status: int) -> None:
        """Raises SystemExit when anything else came back: such a figure would mean nothing."""
        if set(self.statuses) != {status}:
            raise SystemExit(f"expected only {status}, got {dict(self.statuses)}")


def closed_loop(port: int, make: NextRequest, *, count: int, connections: int) -> Result:
    """`count` requests, each connection sending the next as soon as it has an answer: the highest rate."""
    return uvloop.run(_closed(port, make, count, connections))


def open_loop(port: int, make: NextRequest, *, count: int, connections: int, rate: float) -> Result:
    """`count` requests at `rate` a second. A latency counts from when its request was due: a stall shows in full."""
    return uvloop.run(_open(port, make, count, connections, rate))


async def _closed(port: int, make: NextRequest, count: int, connections: int) -> Result:
    result, pool = Result(), await _connect(port, connections)
    loop = asyncio.get_running_loop()
    numbers = iter(range(count))
    started = loop.time()

    async def one(connection: _Connection) -> None:
        for number in numbers:
            sent = loop.time()
            await connection.exchange(make(number), result)
            result.latencies.append(loop.time() - sent)

    await asyncio.gather(*(one(connection) for connection in pool))
    result.seconds = loop.time() - started
    _close(pool)
    return result


async def _open(port: int, make: NextRequest, count: int, connections: int, rate: float) -> Result:
    result, pool = Result(), await _connect(port, connections)
    loop = asyncio.get_running_loop()
    numbers = iter(range(count))
    started = loop.time()

    async def one(connection: _Connection) -> None:
        for number in numbers:
            due = started + number / rate
            await asyncio.sleep(due - loop.time())
            await connection.exchange(make(number), result)
            result.latencies.append(loop.time() - due)

    await asyncio.gather(*(one(connection) for connection in pool))
    result.seconds = loop.time() - started
    _close(pool)
    return result


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._missing = -1
        self._status = 0
        self._waiter: asyncio.Future[None] | None = None

    async def exchange(self, request: bytes, result: Result) -> None:
        """Send and wait for the whole answer. Raises ConnectionError, TimeoutError."""
        assert self._transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await asyncio.wait_for(self._waiter, _ANSWER_SECONDS)
        result.statuses[self._status] += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._missing < 0:
            end = self._buffer.find(_HEAD_END)
            if end < 0:
                return
            self._status = int(self._buffer[9:12])
            self._missing = end + len(_HEAD_END) + _content_length(self._buffer[:end])
        if len(self._buffer) >= self._missing and self._waiter is not None:
            self._buffer, self._missing = b"", -1
            self._waiter.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _connect(port: int, connections: int) -> Sequence[_Connection]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(_Connection, "127.0.0.1", port))[1] for _ in range(connections)]


def _close(pool: Sequence[_Connection]) -> None:
    for connection in pool:
        connection.close()


def _content_length(head: bytes) -> int:
    at = head.lower().find(_LENGTH)
    return int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
