"""Endpoints called without FastAPI's solver answer exactly as with it."""

from typing import Annotated, Any

import pytest
from fastapi import Depends, Header, Query, Request, Response
from fastapi.routing import APIRoute

from app.api.http.shortcut import Shortcut, Sources


async def _who(request: Request) -> str:
    return request.headers["x-who"]


async def _numbers(at_most: Annotated[int, Query(le=10)] = 5) -> range:
    return range(at_most)


SOURCES: Sources = {_who: lambda request: request.headers["x-who"]}


async def plain(name: str, who: Annotated[str, Depends(_who)]) -> Response:
    return Response(f"{name} {who}")


async def counted(request: Request, name: str, numbers: Annotated[range, Depends(_numbers)]) -> Response:
    return Response(f"{name} {len(numbers)} {request.url.path}")


async def with_header(x_extra: Annotated[str, Header()]) -> Response:
    return Response(x_extra)


async def with_number(number: int) -> Response:
    return Response(str(number))


async def with_body(body: dict[str, Any]) -> Response:
    return Response(str(body))


async def without_request(numbers: Annotated[range, Depends(_numbers)]) -> Response:
    return Response(str(numbers))


def made(path: str, endpoint: Any) -> Shortcut | None:
    return Shortcut.of(APIRoute(path, endpoint).dependant, SOURCES)


def request(query: str, name: str = "a", who: str = "w") -> Request:
    path, headers = f"/counted/{name}", [(b"x-who", who.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": headers}
    return Request({**scope, "path_params": {"name": name}, "server": ("test", 80), "scheme": "http"})


async def answer(shortcut: Shortcut, asked: Request) -> str | None:
    arguments = shortcut.arguments(asked)
    return None if arguments is None else bytes((await shortcut.call(arguments)).body).decode()


async def test_path_and_caller_are_those_of_each_request() -> None:
    shortcut = made("/plain/{name}", plain)
    assert shortcut is not None
    answers = [await answer(shortcut, request("", name, who)) for name, who in ("ab", "cd", "ad")]
    assert answers == ["a b", "c d", "a d"]


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/header", with_header),
        ("/number/{number}", with_number),
        ("/body", with_body),
        ("/request", without_request),
    ],
)
def test_an_endpoint_that_asks_for_more_is_left_to_fastapi(path: str, endpoint: Any) -> None:
    assert made(path, endpoint) is None


async def test_a_query_string_is_worked_out_once_and_is_not_taken_for_another() -> None:
    shortcut = made("/counted/{name}", counted)
    assert shortcut is not None
    for at_most in (3, 4):
        asked = request(f"at_most={at_most}")
        assert await answer(shortcut, asked) is None
        await shortcut.solved(request=asked, name="a", numbers=range(at_most))
    assert await answer(shortcut, request("at_most=3", "b")) == "b 3 /counted/b"
    assert await answer(shortcut, request("at_most=4", "c")) == "c 4 /counted/c"
    assert await answer(shortcut, request("")) is None


async def test_only_so_many_and_only_short_query_strings_are_kept() -> None:
    shortcut = made("/counted/{name}", counted)
    assert shortcut is not None
    for number in range(300):
        await shortcut.solved(request=request(f"at_most=3&x={number}"), name="a", numbers=range(3))
    long = request("at_most=3&x=" + "y" * 600)
    await shortcut.solved(request=long, name="a", numbers=range(3))
    kept = [number for number in range(300) if shortcut.arguments(request(f"at_most=3&x={number}")) is not None]
    assert 0 < len(kept) <= 256
    assert shortcut.arguments(long) is None
