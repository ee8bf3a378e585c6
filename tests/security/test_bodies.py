"""Hostile bodies on every route that takes one: refused with a problem, never an error of ours."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from app.api.http.problems import Problem
from app.api.http.routing import OneTimeRoute
from app.domain.gpus.reports import LONGEST_REPORT
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.described import document
from tests.security.routes import OPERATIONS, WITH_BODY, Operation

JSON = {"Content-Type": "application/json"}
IDS = {
    "tenant_id": "tenant_01h455vb4pex5vsknk084sn02q",
    "lease_id": "lease_01h455vb4pex5vsknk084sn02q",
    "key_id": "key_01h455vb4pex5vsknk084sn02q",
    "budget_id": "budget_01h455vb4pex5vsknk084sn02q",
    "group_id": "group_01h455vb4pex5vsknk084sn02q",
    "webhook_id": "webhook_01h455vb4pex5vsknk084sn02q",
    "delivery_id": "delivery_01h455vb4pex5vsknk084sn02q",
    "ssh_key_id": "sshkey_01h455vb4pex5vsknk084sn02q",
    "volume_id": "vol_01h455vb4pex5vsknk084sn02q",
    "quote_id": "quote_01h455vb4pex5vsknk084sn02q",
    "name": "main",
}
TELLTALE = re.compile(
    r'Traceback|File \\?"|site-packages|\.py\b|/(?:usr|opt|etc|tmp|home|proc)/|SELECT |INSERT |UPDATE |psycopg|asyncpg|sqlalchemy|gpulease_(?!only)'
)
"""What no answer may tell: a stack, SQL, a path of ours."""

UNREADABLE = {
    "unfinished": b'{"name": ',
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "a number of 5,000 digits": b'{"name": ' + b"9" * 5_000 + b"}",
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"text"',
    "deep and closed": b"[" * 900 + b"]" * 900,
}
LEAVES = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "out of range": "1e999",
    "twenty digits": "99999999999999999999",
    "4,001 digits": "1" + "0" * 4_000,
    "far below zero": "-9223372036854775809",
    "NUL": '"a\\u0000b"',
    "lone surrogate": '"\\ud800"',
    "line break": '"a\\r\\nX-Injected: 1"',
    "long": json.dumps("x" * 200_000),
    "an object": '{"$ref": "#"}',
    "a list of lists": "[[[[]]]]",
}
AGENT = frozenset({"report_proof", "report_gpu_samples", "report_group_check"})
"""A later agent may send a few more members than this version knows."""
MARK = "\x01leaf\x01"


@pytest.fixture
async def vm(alice: Caller, fleet: Fleet) -> Caller:
    """The operator may call everything; a VM has a one-time token and no key."""
    made = await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    fleet.activate(made.json()["id"])
    token = fleet.give_token(made.json()["id"])
    fleet.run("UPDATE attempt SET agent_hash = host_key_hash")
    return Caller(alice.app, token)


def caller_of(one: Operation, operator: Caller, vm: Caller) -> Caller:
    return operator if one.role else vm


async def send(caller: Caller, one: Operation, content: Any, **headers: str) -> httpx.Response:
    return await caller.request(one.method, one.url(IDS), content=content, headers={**JSON, **headers})


def check(answer: httpx.Response, allowed: set[int]) -> None:
    assert answer.status_code in allowed, answer.text[:500]
    problem = Problem.model_validate_json(answer.content, strict=True)
    assert problem.status == answer.status_code
    assert not TELLTALE.search(answer.text), answer.text
    assert len(answer.content) < 20_000


def most_bytes(one: Operation) -> int:
    """The largest body that is read."""
    if one.id in AGENT:
        return LONGEST_REPORT
    return 1_048_576 if one.role else OneTimeRoute.largest_body


def refusals(one: Operation, content: bytes) -> set[int]:
    return {413} if len(content) > most_bytes(one) else {400, 422}


async def test_what_is_no_document_of_ours_is_refused(operator: Caller, vm: Caller) -> None:
    for content in UNREADABLE.values():
        for one in WITH_BODY:
            check(await send(caller_of(one, operator, vm), one, content), refusals(one, content))


def spoiled(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The document once for each value in it, with a mark in that value's place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ((where, {**value, name: changed}) for where, changed in spoiled(inner, (*path, name)))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            for where, changed in spoiled(inner, (*path, number)):
                yield where, [*value[:number], changed, *value[number + 1 :]]
    if path:
        yield path, MARK


async def test_no_value_in_a_body_is_an_error_of_ours(operator: Caller, vm: Caller, fleet: Fleet) -> None:
    for name, leaf in LEAVES.items():
        for one in WITH_BODY:
            for where, changed in spoiled(one.body):
                content = json.dumps(changed).replace(json.dumps(MARK), leaf).encode()
                answer = await send(caller_of(one, operator, vm), one, content)
                assert answer.status_code < 500, (one.id, where, answer.text[:300])
                assert not TELLTALE.search(answer.text), answer.text
                if name in {"NUL", "lone surrogate", "4,001 digits"}:
                    assert answer.status_code == 422, (one.id, where, answer.text)


def with_more(value: Any) -> Iterator[Any]:
    """The document once for each object in it, with a member there that nobody knows."""
    if isinstance(value, dict):
        yield {**value, "unexpected": 1}
        for name, inner in value.items():
            yield from ({**value, name: changed} for changed in with_more(inner))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from ([*value[:number], changed, *value[number + 1 :]] for changed in with_more(inner))


async def test_no_body_may_carry_more_than_is_declared(operator: Caller, vm: Caller) -> None:
    for one in (each for each in WITH_BODY if each.id not in AGENT):
        for changed in with_more(one.body):
            if changed.get("lease", changed).get("labels", {}).get("unexpected"):
                continue  # any key is a label
            answer = await send(caller_of(one, operator, vm), one, json.dumps(changed).encode())
            check(answer, {422})
            assert answer.json()["errors"][0]["detail"] == "is not a field of this request", (one.id, answer.text)


def answered_only(one: Operation) -> set[str]:
    """Fields that the answers of the same path show and the body does not take."""
    name = one.success()[1]
    if name is None:
        return set()
    properties = set(document()["components"]["schemas"][name]["properties"])
    return properties - set(one.body)


async def test_what_the_service_decides_cannot_be_sent(operator: Caller, vm: Caller) -> None:
    """Ids, owners, states, versions and times of the answer are refused in the body, every one of them."""
    decided = set()
    for one in WITH_BODY:
        more = answered_only(one)
        decided |= more
        content = json.dumps({**one.body, **dict.fromkeys(more, "x")}).encode()
        refused = await send(caller_of(one, operator, vm), one, content)
        if more:
            check(refused, {422})
            assert {f"#/body/{name}" for name in more} <= {error["pointer"] for error in refused.json()["errors"]}, (
                one.id
            )
    assert {"id", "tenant_id", "state", "version", "cost", "secret", "created_at", "reason"} <= decided


async def test_a_body_over_its_limit_is_refused_announced_or_not(operator: Caller, vm: Caller) -> None:
    """One mebibyte, and far less where a one-time token stands for a key."""

    async def chunks(size: int) -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * (size // 16)

    for one in WITH_BODY:
        caller, most = caller_of(one, operator, vm), most_bytes(one)
        check(await send(caller, one, b" " * (most + 1)), {413})
        check(await send(caller, one, chunks(most)), {413})
        check(await send(caller, one, b" " * most), {400, 422})


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Content-Encoding", "gzip", 415),
        ("Content-Encoding", "identity, br", 415),
        ("Content-Type", "application/json; charset=utf-16", 415),
        ("Content-Type", 'application/json; charset="latin-1"', 415),
        ("Content-Range", "bytes 0-1/2", 400),
    ],
)
async def test_a_header_that_changes_the_meaning_of_a_body_is_refused_by_name(
    operator: Caller, vm: Caller, header: str, value: str, status: int
) -> None:
    for one in WITH_BODY:
        answer = await send(caller_of(one, operator, vm), one, json.dumps(one.body).encode(), **{header: value})
        check(answer, {status})
        word = {"Content-Encoding": "Content-Encoding", "Content-Type": "UTF-8", "Content-Range": "Content-Range"}
        assert word[header] in answer.json()["detail"], answer.text
        assert (answer.headers.get("accept-encoding") == "identity") is (header == "Content-Encoding")


async def test_a_body_that_is_encoded_in_no_way_is_read(alice: Caller) -> None:
    for header in ({"Content-Encoding": "identity"}, {"Content-Type": "application/json; charset=UTF-8"}):
        made = await alice.post(
            "/v1/sizings", content=b'{"task": "inference", "parameters": "7b"}', headers={**JSON, **header}
        )
        assert made.status_code == 200, made.text


async def test_a_body_of_another_type_is_refused(operator: Caller, vm: Caller) -> None:
    for one in WITH_BODY:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = await caller_of(one, operator, vm).request(
                one.method, one.url(IDS), content=json.dumps(one.body).encode(), headers={"Content-Type": kind}
            )
            check(answer, {415})


UNBOUNDED = re.compile(r"[*+]|\{\d+,\}")


def parts(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas within a schema, with the names of their places."""
    for choices in ("anyOf", "oneOf", "allOf"):
        yield from (("", choice) for choice in schema.get(choices, ()))
    if "$ref" in schema:
        yield "", document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    yield from ((f"/{name}", inner) for name, inner in schema.get("properties", {}).items())
    inside = (schema.get("items"), schema.get("additionalProperties"), *schema.get("patternProperties", {}).values())
    yield from (("/…", inner) for inner in inside if isinstance(inner, dict))


def has_limit(schema: dict[str, Any]) -> bool:
    """Whether a document of this very schema cannot be as large as its sender likes, what is within it apart."""
    match schema.get("type"):
        case "string":
            pattern = schema.get("pattern", "*")
            limited = {"maxLength", "enum", "const"} & schema.keys() or schema.get("format") == "date-time"
            return bool(limited) or not UNBOUNDED.search(pattern)
        case "array":
            return "maxItems" in schema
        case "integer" | "number":
            return bool({"maximum", "exclusiveMaximum", "enum", "const"} & schema.keys())
        case "object":
            closed = schema.get("additionalProperties", False) is False and "patternProperties" not in schema
            return closed or "maxProperties" in schema
    return True


def places(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of a document, with its schema."""
    yield where, schema
    for name, inner in parts(schema):
        yield from places(inner, where + name)


def unbounded(schema: dict[str, Any], where: str) -> list[str]:
    """Places of a document that have no limit."""
    return [place for place, inner in places(schema, where) if not has_limit(inner)]


def endless_numbers(one: Operation) -> list[str]:
    """Query parameters that are numbers without a limit. The length of a URL limits every other one."""
    asked = [parameter for parameter in one.spec.get("parameters", ()) if parameter["in"] == "query"]
    found = (place for parameter in asked for place in places(parameter["schema"], parameter["name"]))
    return [place for place, schema in found if schema.get("type") in {"integer", "number"} and not has_limit(schema)]


def test_everything_that_can_be_sent_has_a_limit() -> None:
    """Rows are made of it: a text without a length would fill the database. A number without a limit is no `float`."""
    assert unbounded({"type": "object", "properties": {"a": {"type": "string"}}}, "") == ["/a"]
    assert unbounded({"type": "array", "maxItems": 1, "items": {"type": "integer"}}, "") == ["/…"]
    for one in WITH_BODY:
        schema = one.spec["requestBody"]["content"]["application/json"]["schema"]
        assert unbounded(schema, one.id) == []
    assert {one.id: endless_numbers(one) for one in OPERATIONS if endless_numbers(one)} == {}
