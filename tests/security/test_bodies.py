"""Hostile bodies on every route that takes one: refused with a problem, never an error of ours."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from app.api.problems import Problem
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.security.routes import WITH_BODY, Operation, document

JSON = {"Content-Type": "application/json"}
IDS = {
    "tenant_id": "tenant_01h455vb4pex5vsknk084sn02q",
    "lease_id": "lease_01h455vb4pex5vsknk084sn02q",
    "key_id": "key_01h455vb4pex5vsknk084sn02q",
    "webhook_id": "webhook_01h455vb4pex5vsknk084sn02q",
    "delivery_id": "delivery_01h455vb4pex5vsknk084sn02q",
    "name": "main",
}
TELLTALE = re.compile(
    r'Traceback|File \\?"|site-packages|\.py\b|/(?:usr|opt|etc|tmp|home|proc)/|SELECT |INSERT |UPDATE |psycopg|asyncpg|sqlalchemy|gpulease_'
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
    "far below zero": "-9223372036854775809",
    "NUL": '"a\\u0000b"',
    "lone surrogate": '"\\ud800"',
    "line break": '"a\\r\\nX-Injected: 1"',
    "long": json.dumps("x" * 200_000),
    "an object": '{"$ref": "#"}',
    "a list of lists": "[[[[]]]]",
}
MARK = "\x01leaf\x01"


@pytest.fixture
def vm(operator: Caller) -> Caller:
    """The operator may call everything; a VM has no key."""
    return Caller(operator.app, "f" * 64)


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


async def test_what_is_no_document_of_ours_is_refused(operator: Caller, vm: Caller) -> None:
    for content in UNREADABLE.values():
        for one in WITH_BODY:
            check(await send(caller_of(one, operator, vm), one, content), {400, 422})


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
                if name in {"NUL", "lone surrogate"}:
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
    for one in WITH_BODY:
        for changed in with_more(one.body):
            if changed.get("labels", {}).get("unexpected"):
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
            assert {f"/{name}" for name in more} <= {error["pointer"] for error in refused.json()["errors"]}, one.id
    assert {"id", "tenant_id", "state", "version", "cost", "secret", "created_at", "reason"} <= decided


async def test_a_body_over_one_mebibyte_is_refused_announced_or_not(operator: Caller, vm: Caller) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * 65_536

    for one in WITH_BODY:
        caller = caller_of(one, operator, vm)
        check(await send(caller, one, b" " * 1_048_577), {413})
        check(await send(caller, one, chunks()), {413})
        check(await send(caller, one, b" " * 1_048_576), {400, 422})


async def test_a_body_of_another_type_is_refused(operator: Caller, vm: Caller) -> None:
    for one in WITH_BODY:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = await caller_of(one, operator, vm).request(
                one.method, one.url(IDS), content=json.dumps(one.body).encode(), headers={"Content-Type": kind}
            )
            check(answer, {415})
