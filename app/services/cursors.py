"""Opaque keyset cursors: where the next page of a list starts."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.domain.ids import is_typeid
from app.services.errors import FieldError, InvalidRequest

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """`limit` is within 1..200 already; `cursor` is as the caller sent it. `count`: the caller wants the total."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None
    count: bool = False

    def after(self, kind: str, parts: int = 1) -> tuple[str, ...] | None:
        """The last row's sort values, or None for the first page. Raises InvalidRequest.

        `kind` names list and order, so that a cursor of another list is refused.
        """
        if self.cursor is None:
            return None
        parts_read = _decode(self.cursor)
        if len(parts_read) != parts + 1 or parts_read[0] != kind:
            raise _wrong_cursor()
        return parts_read[1:]


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows, the cursor of the next page, and the number of rows in all pages if the caller wants it."""

    rows: Sequence[Any]
    next_cursor: str | None
    total_count: int | None = None

    @property
    def position(self) -> str:
        """What an ETag of the page must contain besides its rows."""
        return f"{self.next_cursor or ''} {self.total_count}"


def cursor(kind: str, *parts: str) -> str:
    """The cursor after a row with these sort values."""
    text = json.dumps([kind, *parts], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def last_id(page: PageRequest, kind: str, prefix: str) -> str | None:
    """The id after which the page starts, for lists ordered by id. Raises InvalidRequest for any other cursor."""
    after = page.after(kind)
    if after is None:
        return None
    if not is_typeid(prefix, after[0]):
        raise _wrong_cursor()
    return after[0]


def moment(text: str) -> datetime:
    """A time in a cursor, in UTC. Raises InvalidRequest for what no cursor of ours holds."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _wrong_cursor()


def cut(rows: Sequence[Mapping[Any, Any]], page: PageRequest, kind: str, total_count: int | None) -> RowPage:
    """The page out of `limit + 1` rows, with the cursor of the next one when there is more."""
    items = [dict(row) for row in rows[: page.limit]]
    return RowPage(items, cursor(kind, items[-1]["id"]) if len(rows) > page.limit else None, total_count)


def _decode(text: str) -> tuple[str, ...]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        parts = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError):
        raise _wrong_cursor() from None
    if not isinstance(parts, list) or not all(isinstance(part, str) and _storable(part) for part in parts):
        raise _wrong_cursor()
    return tuple(parts)


def _storable(part: str) -> bool:
    """PostgreSQL's text holds neither U+0000 nor lone surrogates."""
    return "\x00" not in part and part.isprintable()


def _wrong_cursor() -> InvalidRequest:
    return InvalidRequest(errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")])
