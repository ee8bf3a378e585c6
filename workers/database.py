"""The workers' side of the database: sync, psycopg, as the role that sees every tenant."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Executable, Row, create_engine
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import LRUCache

from app.db.urls import sync_url

ROLE = "gpulease_worker"
_CONNECT_SECONDS = 5
_STATEMENT_MS = 60_000
_COMPILED: MutableMapping[Any, Any] = LRUCache(1000)
"""Statements are compiled once in a process, however many pools it opens."""


class Database:
    """A pool of connections. `begin` is one transaction; nothing slow may happen inside."""

    def __init__(self, url: str, *, pool_size: int) -> None:
        self._engine = create_engine(
            sync_url(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=30,
            pool_pre_ping=True,
            execution_options={"compiled_cache": _COMPILED},
            connect_args={
                "connect_timeout": _CONNECT_SECONDS,
                "options": f"-c role={ROLE} -c statement_timeout={_STATEMENT_MS} -c timezone=UTC",
                "application_name": "gpulease-worker",
            },
        )

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, rolled back when it raises."""
        with self._engine.begin() as connection:
            yield connection

    def run(self, statement: Executable) -> CursorResult[Any]:
        """One statement in a transaction of its own; for statements whose rows nobody reads."""
        with self.begin() as connection:
            return connection.execute(statement)

    def first(self, statement: Executable, parameters: dict[str, Any] | None = None) -> Row[Any] | None:
        """The first row of one statement in a transaction of its own, or None."""
        with self.begin() as connection:
            return connection.execute(statement, parameters or {}).first()

    def all(self, statement: Executable, parameters: dict[str, Any] | None = None) -> list[Row[Any]]:
        """All rows of one statement in a transaction of its own."""
        with self.begin() as connection:
            return list(connection.execute(statement, parameters or {}).all())

    def close(self) -> None:
        """Gives all connections back."""
        self._engine.dispose()


def is_outage(error: DBAPIError) -> bool:
    """Whether the database is away (restart, failover), as against a statement that is wrong."""
    return error.connection_invalidated or error.orig is None or not getattr(error.orig, "sqlstate", None)
