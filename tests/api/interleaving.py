"""Lets a writer commit between any two statements of a request, and counts the snapshots that the request reads."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest
from asyncpg.connection import Connection
from asyncpg.prepared_stmt import PreparedStatement

SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ"
_CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SET ", "SELECT set_config")


@dataclass
class Watched:
    """The statements of a request. `interrupt` runs before the statement with the number `place`, counted from 0."""

    place: int | None = None
    interrupt: Callable[[], None] | None = None
    statements: list[str] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    """The first statement that reads each snapshot."""
    _within: set[int] = field(default_factory=set)
    """Connections in a transaction that has read its one snapshot."""
    _repeatable: set[int] = field(default_factory=set)

    def see(self, connection: object, sql: str) -> None:
        """Is called before a statement is sent."""
        if len(self.statements) == self.place and self.interrupt is not None:
            self.interrupt()
        self.statements.append(sql)
        number = id(connection)
        if sql.startswith(_CONTROL):
            self._within.discard(number)
            self._repeatable.discard(number)
            if SNAPSHOT in sql:
                self._repeatable.add(number)
        elif number not in self._within:
            self.snapshots.append(sql)
            if number in self._repeatable:
                self._within.add(number)


_watched: ContextVar[Watched | None] = ContextVar("watched", default=None)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A context manager: what the calls in its block send to PostgreSQL. Background tasks of the API are not watched."""
    for name in ("execute", "fetch"):
        _patch(monkeypatch, Connection, name, lambda connection, sql: (connection, sql))
    _patch(monkeypatch, Connection, "copy_from_query", lambda connection, sql: (connection, sql))
    _patch(monkeypatch, PreparedStatement, "fetch", lambda prepared, *_: (prepared._connection, prepared.get_query()))
    return watched


def _patch(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, about: Callable[..., tuple[Any, str]]) -> None:
    original = getattr(owner, name)

    async def seen(self: Any, *arguments: Any, **options: Any) -> Any:
        watched = _watched.get()
        if watched is not None:
            connection, sql = about(self, *arguments[:1])
            watched.see(getattr(connection, "_con", connection), sql)
        return await original(self, *arguments, **options)

    monkeypatch.setattr(owner, name, seen)


@contextmanager
def watched(place: int | None = None, interrupt: Callable[[], None] | None = None) -> Iterator[Watched]:
    """Sees the statements of the block, and runs `interrupt` before the one with the number `place`."""
    made = Watched(place, interrupt)
    token = _watched.set(made)
    try:
        yield made
    finally:
        _watched.reset(token)


async def answers_around(read: Callable[[], Awaitable[Any]], write: Callable[[], None]) -> list[tuple[Any, Any, Any]]:
    """(before, between, after): for each statement of `read`, the answer when `write` is committed just before it.

    `write` makes another change at each call. Every later statement sees it, if the reader lets it.
    """
    await read()  # looks at the key, and opens a connection
    with watched() as whole:
        await read()
    answers = []
    for place in range(len(whole.statements)):
        before = await read()
        with watched(place, write) as interrupted:
            between = await read()
        assert len(interrupted.statements) > place, "the reader sends fewer statements than before"
        answers.append((before, between, await read()))
    return answers
