"""Answers as bytes: the model is dumped once, and FastAPI neither validates nor encodes it again."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fastapi import Response
from pydantic import BaseModel

from app.services.preconditions import list_tag

JSON = "application/json"
_RENDERINGS = 8


def answer(model: BaseModel | bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`model` (or JSON that is ready to go) with no ETag: for changes."""
    content = model if isinstance(model, bytes) else model.model_dump_json().encode()
    return Response(content, status, dict(headers or {}), JSON)


class ListCache:
    """A list as it was written last: those who poll what did not change cost the reading of its rows, not the writing.

    `write` gets the rows and whatever else it was called with; all of it must be hashable. A few lists are remembered.
    """

    def __init__(self, write: Callable[..., bytes]) -> None:
        self._write = write
        self._written = lru_cache(maxsize=_RENDERINGS)(self._write_anew)

    def of(self, rows: Sequence[Mapping[str, Any]], *more: Any) -> tuple[bytes, str]:
        """The answer and its ETag."""
        names = tuple(rows[0]) if rows else ()
        return self._written(names, tuple(tuple(row.values()) for row in rows), *more)

    def _write_anew(self, names: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], *more: Any) -> tuple[bytes, str]:
        content = self._write([dict(zip(names, row, strict=True)) for row in rows], *more)
        return content, list_tag((), also=content.decode())
