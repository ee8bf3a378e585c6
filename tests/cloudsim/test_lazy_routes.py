"""Routes that are made when somebody asks for one of them."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from cloudsim.lazy_routes import LazyRoutes


async def who(request: Request) -> Response:
    return PlainTextResponse(f"{request.method} {request.path_params['name']}")


def client(*, made: list[str], path: str = "/a/{name}") -> TestClient:
    def routes() -> list[Route]:
        made.append(path)
        return [Route(path, who, methods=["PUT"]), Route(path, who, methods=["POST"])]

    return TestClient(Starlette(routes=[LazyRoutes(("/a/", "/b/"), routes)]))


def test_they_are_made_once_and_only_for_a_request_that_is_theirs() -> None:
    made: list[str] = []
    asks = client(made=made)
    assert (asks.get("/c/x").status_code, made) == (404, [])
    assert [asks.put("/a/x").text, asks.post("/a/y").text, made] == ["PUT x", "POST y", ["/a/{name}"]]


def test_a_path_with_another_method_is_not_allowed_and_another_path_not_found() -> None:
    asks = client(made=[])
    assert [asks.delete("/a/x").status_code, asks.put("/b/x").status_code] == [405, 404]


def test_a_route_that_no_request_would_find_is_refused() -> None:
    with pytest.raises(ValueError, match="would never be found"):
        client(made=[], path="/other/{name}").put("/a/x")
