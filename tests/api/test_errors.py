"""One shape for every refusal."""

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI

from app.api.http.problems import Problem
from app.api.http.query_parameters import known_parameters
from app.api.http.routing import SecuredRoute
from app.api.schemas.patterns import RULES
from app.prerequisites import ensure_operator_key
from app.services.errors import every_error
from app.settings import Settings
from tests.api.conftest import Caller, serving
from tests.harness.databases import hang_up

JSON = {"Content-Type": "application/json"}


def code_of(answer: Any) -> tuple[int, str]:
    found = Problem.model_validate(answer.json(), strict=True)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == found.request_id
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
    assert {part.strip() for part in refused.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}


async def test_allow_lists_the_methods_of_the_path_alone(anonymous: Caller, spec: dict[str, Any]) -> None:
    """A fixed path wins over a pattern in every answer about a path, not in routing alone."""
    for path, operations in spec["paths"].items():
        own = {name.upper() for name in operations if name in {"get", "put", "post", "patch", "delete"}}
        own |= {"HEAD"} if "GET" in own else set()
        for method in {"OPTIONS", "GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"} - own:
            refused = await anonymous.request(method, path.replace("{", "").replace("}", ""))
            assert refused.status_code == 405, (method, path)
            assert set(refused.headers["allow"].split(", ")) == own, (method, path)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [("limit=many", "#/query/limit"), ("cursor=nonsense", "#/query/cursor"), ("cursor=W10", "#/query/cursor")],
)
async def test_a_wrong_query_is_pointed_at(operator: Caller, query: str, pointer: str) -> None:
    refused = await operator.get(f"/v1/tenants?{query}")
    assert code_of(refused) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


@pytest.mark.parametrize(("limit", "status"), [(-3, 422), (0, 422), (1, 200), (200, 200), (201, 422), (10**30, 422)])
async def test_a_limit_out_of_range_is_refused(operator: Caller, limit: int, status: int) -> None:
    assert (await operator.get("/v1/tenants", params={"limit": limit})).status_code == status


async def test_an_unknown_query_parameter_is_refused_with_the_nearest_name(operator: Caller) -> None:
    refused = await operator.get("/v1/offerings?gpu=A100&limit=1&made%2Fup=2")
    assert code_of(refused) == (422, "invalid_request")
    first, second = refused.json()["errors"]
    assert first["pointer"] == "#/query/gpu"
    assert first["detail"].startswith("is unknown: did you mean gpu_model? this operation takes account,")
    assert second["pointer"] == "#/query/made~1up"
    without = await operator.get("/v1/me?verbose=1")
    assert without.json()["errors"][0]["detail"] == "is unknown: this operation takes no query parameters"


def test_a_route_knows_the_parameters_that_the_document_names(app: FastAPI, spec: dict[str, Any]) -> None:
    routes = [route for route in app.routes if isinstance(route, SecuredRoute)]
    for route in routes:
        operation = spec["paths"][route.path_format][min(route.methods or ()).lower()]
        documented = {entry["name"] for entry in operation.get("parameters", ()) if entry["in"] == "query"}
        assert known_parameters(route) == documented, route.path
    assert len(routes) > 40


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
        connection.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT 0'.encode())
        hang_up(connection)
        refused = await operator.get("/v1/tenants")
        connection.execute(f'ALTER DATABASE "{name}" CONNECTION LIMIT -1'.encode())
    assert code_of(refused) == (503, "database_unavailable")
    assert refused.json()["retryable"] is True
    assert refused.headers["retry-after"] == "1"
    assert (await operator.get("/v1/tenants")).status_code == 200


async def test_malformed_json_is_located(operator: Caller) -> None:
    text = b'{\n  "name": "x",\n  "max_ttl_seconds": ,\n}'
    refused = await operator.post("/v1/tenants", content=text, headers=JSON)
    assert code_of(refused) == (400, "malformed_body")
    assert refused.json()["detail"] == "Line 3, column 22 is not valid JSON: expecting value."


async def test_the_detail_is_the_first_field_error(operator: Caller) -> None:
    body = {"name": "", "max_ttl_seconds": 1, "more": 1}
    problem = (await operator.post("/v1/tenants", json=body)).json()
    assert [error["pointer"] for error in problem["errors"]] == [f"#/body/{name}" for name in body]
    assert problem["detail"].startswith("name must have 1 to 63 letters, digits")
    assert problem["detail"].endswith("(2 more: see `errors`).")
    query = (await operator.get("/v1/tenants?limit=0")).json()
    assert query["detail"] == "query parameter limit must be at least 1."


NAME_OF_A_LABEL = (
    r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"
)
IN_THEIR_OWN_WORDS = {
    r"^[^\x00-\x1f\x7f-\x9f]*$",
    r"^lease_[0-7][0-9a-hjkmnp-tv-z]{25}$",
    ":",
    NAME_OF_A_LABEL,
    r"^#![ \t]*/",
}
"""Patterns for the reader of the document: functions check these fields (labels, ids and labels of a bulk release, scripts)."""


def test_no_message_shows_a_regular_expression_or_an_internal_type(spec: dict[str, Any]) -> None:
    patterns = set(re.findall(r'"pattern": "((?:[^"\\\\]|\\\\.)*)"', json.dumps(request_schemas(spec))))
    decimals = {one for one in patterns if "[0-9]{1,8}" in one}
    found = {json.loads(f'"{one}"') for one in patterns - decimals}
    assert found >= IN_THEIR_OWN_WORDS
    assert found - IN_THEIR_OWN_WORDS <= RULES.keys(), "describe it in schemas/patterns.py"


def request_schemas(document: dict[str, Any]) -> list[Any]:
    """The schemas of all bodies and parameters."""
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    pending: list[Any] = [[one.get("requestBody"), one.get("parameters")] for one in operations]
    found, seen = [], set()
    while pending:
        part = pending.pop()
        found.append(part)
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(part)):
            if name not in seen:
                seen.add(name)
                pending.append(document["components"]["schemas"][name])
    return found


@pytest.mark.parametrize("tag", ["", "lease.3", '"lease.3', "*, x"])
async def test_a_malformed_if_match_is_refused(alice: Caller, tag: str) -> None:
    refused = await alice.delete("/v1/leases/lease_01jz0000000000000000000000", headers={"If-Match": tag})
    assert code_of(refused) == (400, "bad_header")
    assert [error["pointer"] for error in refused.json()["errors"]] == ["#/header/If-Match"]


async def test_the_type_of_an_error_is_a_section_of_a_page(anonymous: Caller) -> None:
    refused = await anonymous.get("/v1/me")
    path, _, anchor = refused.json()["type"].partition("#")
    page = await anonymous.get(path)
    assert (page.status_code, anchor) == (200, "unauthenticated")
    assert all(f'id="{error.code}"' in page.text for error in every_error())


async def test_head_answers_as_get_without_a_body(alice: Caller, anonymous: Caller) -> None:
    for caller, path in ((alice, "/v1/me"), (alice, "/v1/nothing"), (anonymous, "/v1/me"), (anonymous, "/livez")):
        got, head = await caller.get(path), await caller.request("HEAD", path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.headers.get("etag") == got.headers.get("etag")
    assert (await alice.request("HEAD", "/v1/leases/plan")).status_code == 405


def test_every_code_is_unique_and_says_what_to_do() -> None:
    codes = [error.code for error in every_error()]
    assert len(codes) == len(set(codes))
    assert all(error.title() and error.advice for error in every_error())
