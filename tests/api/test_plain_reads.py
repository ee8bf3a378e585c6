"""What a read answers does not depend on whether FastAPI parsed its query."""

import pytest
from fastapi import Request

from app.api.http.pagination import plain_page
from app.services.cursors import DEFAULT_LIMIT, PageRequest


def page(query: str) -> PageRequest | None:
    return plain_page(Request({"type": "http", "query_string": query.encode(), "headers": []}))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", PageRequest()),
        ("limit=1", PageRequest(limit=1)),
        ("limit=200", PageRequest(limit=200)),
        ("cursor=a%2Bb", PageRequest(limit=DEFAULT_LIMIT, cursor="a+b")),
        ("limit=7&cursor=", PageRequest(limit=7, cursor="")),
        ("limit=7&limit=8", PageRequest(limit=8)),
    ],
)
def test_limit_and_cursor_are_read(query: str, wanted: PageRequest) -> None:
    assert page(query) == wanted


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=",
        "limit=-1",
        "limit=1.0",
        "limit=%D9%A1",
        "limit=00001",
        "count=true",
        "state=active",
        f"cursor={'x' * 1001}",
    ],
)
def test_everything_else_is_left_to_fastapi(query: str) -> None:
    assert page(query) is None
