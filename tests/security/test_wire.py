"""The application behind the real server, asked byte by byte."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from itertools import chain, repeat

import pytest
import uvicorn
from fastapi import FastAPI

from app.local.ports import LOOPBACK
from app.server.limits import BoundedProtocol
from tests.api.conftest import Caller

HURRY = 10.0
"""So many times faster than in production."""


class Hurried(BoundedProtocol):
    header_seconds = BoundedProtocol.header_seconds / HURRY
    request_seconds = BoundedProtocol.request_seconds / HURRY


@pytest.fixture
async def port(app: FastAPI) -> AsyncIterator[int]:
    """The application is started already: `lifespan` would start it twice."""
    listener = socket.create_server((LOOPBACK, 0))
    config = uvicorn.Config(
        app, http=Hurried, ws="none", lifespan="off", log_config=None, server_header=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving


async def say(port: int, parts: "list[bytes]", *, pause: float = 0.0, seconds: float = 5.0) -> tuple[bytes, float]:
    """All that comes back until the server hangs up, and after how many seconds it did. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    began = loop.time()

    async def send() -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    sending = asyncio.create_task(send())
    try:
        answer = await asyncio.wait_for(reader.read(), seconds)
    except ConnectionResetError:
        answer = b""
    took = loop.time() - began
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    writer.close()
    return answer, took


def head(method: str, path: str, key: str, *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", f"authorization: Bearer {key}", *more]
    return "\r\n".join(["", *lines, "", ""]).removeprefix("\r\n").encode()


JSON = "content-type: application/json"


def test_a_request_has_fifteen_seconds_in_all() -> None:
    assert BoundedProtocol.header_seconds <= BoundedProtocol.request_seconds <= 15


async def test_slow_senders_are_hung_up_on_and_others_notice_nothing(port: int, alice: Caller) -> None:
    key = alice.key
    announced = head("POST", "/v1/leases", key, JSON, "content-length: 1000000")
    chunked = head("POST", "/v1/leases", key, JSON, "transfer-encoding: chunked")
    slow = {
        "says nothing": [b""],
        "a header a time": list(chain([b"GET /v1/me HTTP/1.1\r\n"], repeat(b"x-more: 1\r\n", 1000))),
        "a body that stalls": [announced + b'{"name"'],
        "a body byte by byte": [announced, *[b" "] * 1000],
        "a chunk a time": [chunked, *[b"1\r\n \r\n"] * 1000],
        "slow in both": [*(announced[n : n + 9] for n in range(0, len(announced), 9)), *[b" "] * 1000],
    }
    async with asyncio.TaskGroup() as group:
        sends = {name: group.create_task(say(port, parts, pause=0.02)) for name, parts in slow.items()}
        others = [
            group.create_task(say(port, [head("GET", "/v1/me", key, "connection: close")], seconds=1.0))
            for _ in range(20)
        ]
    for name, task in sends.items():
        assert task.result()[1] < BoundedProtocol.request_seconds / HURRY + 0.7, name
    assert all(task.result()[0].startswith(b"HTTP/1.1 200") for task in others)


async def test_a_second_request_on_one_connection_has_its_own_time(port: int, alice: Caller) -> None:
    whole = head("GET", "/v1/me", alice.key)
    last = head("GET", "/v1/me", alice.key, "connection: close")
    answer, took = await say(port, [whole, whole, last], pause=BoundedProtocol.request_seconds / HURRY * 0.7)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert took > BoundedProtocol.request_seconds / HURRY


async def test_a_large_body_is_refused_as_soon_as_it_is_too_large(port: int, alice: Caller) -> None:
    announced = head("POST", "/v1/leases", alice.key, JSON, "content-length: 10000000")
    chunked = head("POST", "/v1/leases", alice.key, JSON, "transfer-encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    for parts in ([announced], [chunked, *[chunk] * 17]):
        answer, _ = await say(port, [*parts])
        assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
        assert b"body_too_large" in answer


REFUSED = {400, 401, 404, 405, 415, 422, 431}
BROKEN: dict[str, Callable[[str], bytes]] = {
    "no HTTP": lambda _: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a line break in a header's name": lambda key: head("GET", "/v1/me", key, "x\rinjected: 1", "connection: close"),
    "two lengths": lambda key: head("POST", "/v1/leases", key, JSON, "content-length: 1", "content-length: 9") + b"{",
    "a length that is none": lambda key: head("POST", "/v1/leases", key, JSON, "content-length: -1") + b"{",
    "length and chunks": lambda key: (
        head("POST", "/v1/leases", key, JSON, "content-length: 4", "transfer-encoding: chunked") + b"0\r\n\r\n"
    ),
    "a broken chunk": lambda key: head("POST", "/v1/leases", key, JSON, "transfer-encoding: chunked") + b"zz\r\n",
    "an encoded body": lambda key: (
        head("POST", "/v1/leases", key, JSON, "content-encoding: gzip", "content-length: 2", "connection: close")
        + b"\x1f\x8b"
    ),
    "a path that is no text": lambda key: head("GET", "/v1/leases/%ff%fe", key, "connection: close"),
    "raw bytes in the path": lambda _: b"GET /v1/leases/\xff\xfe HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    "another host as the target": lambda key: head("GET", "http://elsewhere/v1/me", key, "connection: close"),
    "an unknown method": lambda key: head("PROPFIND", "/v1/leases", key, "connection: close"),
    "a NUL in a header": lambda key: head("GET", "/v1/me", key, "x-odd: a\x00b", "connection: close"),
    "odd bytes for a key": lambda _: (
        b"GET /v1/me HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \xff\xfe\r\nconnection: close\r\n\r\n"
    ),
    "endless headers": lambda key: head("GET", "/v1/me", key, *[f"x-{n}: {'y' * 1000}" for n in range(300)]),
}


async def test_broken_requests_are_refused_and_tell_nothing(port: int, alice: Caller) -> None:
    for name, request in BROKEN.items():
        answer, _ = await say(port, [request(alice.key)])
        # who still sends when the server hangs up may lose the answer
        status = int(answer.split(b" ", 2)[1]) if answer else 431
        assert status in ({200} if name == "another host as the target" else REFUSED), (name, answer)
        for word in (b"Traceback", b".py", b"uvicorn", b"asyncpg", alice.key.encode()):
            assert word not in answer, (name, answer)
        alive, _ = await say(port, [head("GET", "/v1/me", alice.key, "connection: close")])
        assert alive.startswith(b"HTTP/1.1 200")
