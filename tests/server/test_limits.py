"""Slow and endless senders lose their connection, at the API and at `gpulease mcp --http`. Everybody else notices nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from app.cli.mcp.http import BoundedProtocol as OfMcp
from app.local.ports import LOOPBACK
from app.server.limits import BoundedProtocol as OfApi

Message = MutableMapping[str, Any]


class ImpatientApi(OfApi):
    header_seconds = 0.3
    request_seconds = 0.6
    header_bytes = 4_096


class ImpatientMcp(OfMcp):
    header_seconds = 0.3
    request_seconds = 0.6


async def echo(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answers with the body once it is complete; /slow takes longer than any limit for senders."""
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(0.8)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(params=[ImpatientApi, ImpatientMcp])
async def port(request: pytest.FixtureRequest) -> AsyncIterator[int]:
    listener = socket.create_server((LOOPBACK, 0))
    config = uvicorn.Config(
        echo, http=request.param, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving


async def say(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """All that comes back until the server hangs up, or until it has said nothing for a second after the last part."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    answer = bytearray()

    async def listen() -> None:
        with suppress(ConnectionResetError):
            while chunk := await reader.read(65_536):
                answer.extend(chunk)

    listening = asyncio.create_task(listen())
    for part in parts:
        if not listening.done():
            writer.write(part)
        await asyncio.sleep(pause)
    heard = -1
    while not listening.done() and len(answer) > heard:
        heard = len(answer)
        await asyncio.wait([listening], timeout=1.0)
    if not listening.done():
        answer.extend(b"<still open>")
    listening.cancel()
    writer.close()
    return bytes(answer)


LAST = b"host: x\r\nconnection: close\r\n\r\n"


async def test_a_whole_request_is_answered_and_the_connection_stays(port: int) -> None:
    answer = await say(port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"hi<still open>")


async def test_two_requests_on_one_connection_each_have_their_own_time(port: int) -> None:
    answer = await say(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"GET / HTTP/1.1\r\n" + LAST, pause=0.5)
    assert answer.count(b"HTTP/1.1 200") == 2


async def test_headers_that_never_end_are_hung_up_on(port: int) -> None:
    assert (await say(port, b"GET / HTTP/1.1\r\nhost: x\r\n")).startswith(b"HTTP/1.1 408")


async def test_a_connection_that_says_nothing_is_hung_up_on(port: int) -> None:
    assert (await say(port)).startswith(b"HTTP/1.1 408")


async def test_a_second_request_that_never_ends_is_hung_up_on(port: int) -> None:
    answer = await say(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"GET / HTTP/1.1\r\n", pause=0.1)
    assert b"HTTP/1.1 408" in answer
    assert not answer.endswith(b"<still open>")


async def test_a_body_that_stalls_is_hung_up_on(port: int) -> None:
    assert await say(port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhi") == b""


async def test_a_body_that_comes_bit_by_bit_is_hung_up_on(port: int) -> None:
    assert await say(port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", *[b"h"] * 8, pause=0.1) == b""


async def test_two_requests_at_once_are_answered_one_after_the_other(port: int) -> None:
    both = b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n" + b"GET / HTTP/1.1\r\n" + LAST
    assert (await say(port, both)).count(b"HTTP/1.1 200") == 2


async def test_a_second_request_that_began_during_the_first_answer_has_its_time(port: int) -> None:
    answer = await say(port, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer
    assert not answer.endswith(b"<still open>")


async def test_endless_headers_are_refused_before_they_fill_the_memory(port: int) -> None:
    filler = b"x-filler: " + b"y" * 30_000 + b"\r\n"
    answer = await say(port, b"GET / HTTP/1.1\r\nhost: x\r\n", *[filler] * 3, pause=0.01)
    assert not answer.endswith(b"<still open>")
    assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


async def test_an_answer_may_take_longer_than_a_sender_may(port: int) -> None:
    assert (await say(port, b"GET /slow HTTP/1.1\r\n" + LAST)).startswith(b"HTTP/1.1 200")
