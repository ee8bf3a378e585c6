"""Lists that are written only when their rows changed."""

from collections.abc import Sequence
from typing import Any

import orjson

from app.api.http.responses import ListCache


def written_by(calls: list[Any]) -> ListCache:
    def write(rows: Sequence[dict[str, Any]], cursor: str | None = None) -> bytes:
        calls.append((rows, cursor))
        return orjson.dumps({"items": rows, "next_cursor": cursor})

    return ListCache(write)


def test_equal_rows_are_written_once() -> None:
    calls: list[Any] = []
    page = written_by(calls)
    first = page.of([{"id": "a", "n": 1}], "next")
    assert page.of([{"id": "a", "n": 1}], "next") == first
    assert orjson.loads(first[0]) == {"items": [{"id": "a", "n": 1}], "next_cursor": "next"}
    assert calls == [([{"id": "a", "n": 1}], "next")]


def test_any_difference_is_another_answer_with_another_tag() -> None:
    calls: list[Any] = []
    page = written_by(calls)
    lists: list[list[dict[str, Any]]] = [
        [],
        [{"id": "a", "n": 1}],
        [{"id": "a", "n": 2}],
        [{"id": "a", "m": 1}],
        [{"id": "a"}],
    ]
    tags = [page.of(rows)[1] for rows in lists]
    tags.append(page.of([{"id": "a", "n": 1}], "next")[1])
    assert len(set(tags)) == len(tags) == len(calls)
