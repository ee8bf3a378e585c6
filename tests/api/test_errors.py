"""One shape for every refusal."""

from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
from fastapi import FastAPI

from app.api.http.problems import Problem
from app.prerequisites import ensure_operator_key
from app.services.errors import every_error
from app.settings import Settings
from tests.api.conftest import Caller, serving
from tests.databases import hang_up

JSON = {"Content-Type": "application/json"}


def code_of(answer: object) -> tuple[int, str]:
    found = Problem.model_validate(answer.json(), strict=True)  # type: ignore[attr-defined]
    assert answer.headers["content-type"] == "application/problem+json"  # type: ignore[attr-defined]
    assert answer.headers["x-request-id"] == found.request_id  # type: ignore[attr-defined]
    return found.status, found.code


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (422, "invalid_request")),
        (b"{", (400, "malformed_body")),
        (b'{"name": "\xff"}', (400, "malformed_body")),
        (b"[" * 100_000, (400, "malformed_body")),
        (b'{"name": ' + b"9" * 5000 + b"}", (400, "malformed_body")),
        (b'{"name": NaN}', (422, "invalid_request")),
        (b'{"name": 1e999}', (422, "invalid_request")),
        (b'{"name": "\\ud800"}', (422, "invalid_request")),
        (b'{"\\ud800": 1, "name": "x"}', (422, "invalid_request")),
        (b'{"name": "a\\u0000b"}', (422, "invalid_request")),
        (b'{"name": "x", "max_ttl_seconds": 99999999999999999999}', (422, "invalid_request")),
        (b'{"name": "x", "max_ttl_seconds": 3600.0}', (422, "invalid_request")),
        (b'{"name": "x", "max_ttl_seconds": "3600"}', (422, "invalid_request")),
        (b'{"name": "x", "max_ttl_seconds": true}', (422, "invalid_request")),
        (b"null", (422, "invalid_request")),
        (b"[]", (422, "invalid_request")),
        (b'"text"', (422, "invalid_request")),
    ],
)
async def test_a_bad_body_is_refused_and_never_an_error_of_ours(
    operator: Caller, body: bytes, expected: tuple[int, str]
) -> None:
    assert code_of(await operator.post("/v1/tenants", content=body, headers=JSON)) == expected


async def test_what_the_caller_sent_is_not_repeated(operator: Caller) -> None:
    refused = await operator.post("/v1/tenants", json={"name": {"password": "hunter2"}})
    assert "hunter2" not in refused.text


async def test_a_body_of_another_type_is_refused(operator: Caller) -> None:
    refused = await operator.post("/v1/tenants", content=b"name=x", headers={"Content-Type": "text/plain"})
    assert code_of(refused) == (415, "unsupported_media_type")


async def test_a_large_body_is_refused_announced_or_not(
    make_settings: Callable[..., Settings], database_url: str
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    async with serving(make_settings(body_limit_bytes=1024)) as app:
        operator = Caller(app, ensure_operator_key(database_url, None))
        assert code_of(await operator.post("/v1/tenants", content=b" " * 1025, headers=JSON)) == (413, "body_too_large")
        assert code_of(await operator.post("/v1/tenants", content=chunks(), headers=JSON)) == (413, "body_too_large")


async def test_unknown_paths_and_methods_answer_in_the_same_shape(operator: Caller) -> None:
    assert code_of(await operator.get("/v1/nothing")) == (404, "not_found")
    refused = await operator.delete("/v1/tenants")
    assert code_of(refused) == (405, "method_not_allowed")
    assert {part.strip() for part in refused.headers["allow"].split(",")} == {"GET", "POST"}


@pytest.mark.parametrize(
    ("query", "pointer"),
    [("limit=many", "#/query/limit"), ("cursor=nonsense", "#/query/cursor"), ("cursor=W10", "#/query/cursor")],
)
async def test_a_wrong_query_is_pointed_at(operator: Caller, query: str, pointer: str) -> None:
    refused = await operator.get(f"/v1/tenants?{query}")
    assert code_of(refused) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


@pytest.mark.parametrize("limit", [-3, 0, 1, 200, 10**6, 10**30])
async def test_a_limit_is_brought_into_range(operator: Caller, limit: int) -> None:
    assert (await operator.get("/v1/tenants", params={"limit": limit})).status_code == 200


async def test_an_error_of_ours_tells_nothing_but_its_request_id(operator: Caller, app: FastAPI) -> None:
    async def broken() -> None:
        raise RuntimeError("secret detail")

    app.add_api_route("/broken", broken)
    failed = await operator.get("/broken")
    assert code_of(failed) == (500, "internal_error")
    assert "secret" not in failed.text


async def test_without_a_database_the_answer_is_503_and_comes_back_by_itself(
    operator: Caller, database_url: str
) -> None:
    name = database_url.rpartition("/")[2]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT 0')
        hang_up(connection)
        refused = await operator.get("/v1/tenants")
        connection.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT -1')
    assert code_of(refused) == (503, "database_unavailable")
    assert refused.json()["retryable"] is True
    assert refused.headers["retry-after"] == "1"
    assert (await operator.get("/v1/tenants")).status_code == 200


def test_every_code_is_unique_and_says_what_to_do() -> None:
    codes = [error.code for error in every_error()]
    assert len(codes) == len(set(codes))
    assert all(error.title() and error.advice for error in every_error())
