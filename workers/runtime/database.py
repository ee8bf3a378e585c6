"""The workers' database access: synchronous, psycopg, with the role that sees every tenant."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, ExceptionContext, Executable, Row, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError

from app.db.core.compiled import CompiledCache
from app.db.core.connections import CONNECT_SECONDS, WORKER_SESSION, configure_connections
from app.db.core.direct import DirectConnection, fetch_at_once
from app.db.core.prepared import Bound
from app.db.core.server_state import READ_ONLY, ends_connection, is_about_server, opened_read_only
from app.db.core.session_limits import IDLE_IN_TRANSACTION_SECONDS, LIBPQ_PARAMETERS
from app.db.core.urls import sync_url

_FRESH_SECONDS = 1.0
"""The pool does not ping a connection that was used so recently: a ping costs as much as a short statement."""
_COMPILED = CompiledCache(1000)


class WorkerDatabase:
    """A pool of connections. `begin` is one transaction; nothing slow may happen inside.

    The server ends a connection that is idle inside a transaction for `idle_in_transaction_seconds`.
    """

    def __init__(
        self, url: str, *, pool_size: int, idle_in_transaction_seconds: float = IDLE_IN_TRANSACTION_SECONDS
    ) -> None:
        self._engine = create_engine(
            sync_url(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=30,
            # the connection used last is used next: few connections plan each statement, and not all of the pool
            pool_use_lifo=True,
            execution_options={"compiled_cache": _COMPILED},
            connect_args={
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "gpulease-worker",
                "prepare_threshold": 0,
                **LIBPQ_PARAMETERS,
            },
        )
        configure_connections(self._engine, WORKER_SESSION.end_idle_transactions(idle_in_transaction_seconds))
        _ask_the_idle(self._engine)
        _end_with_the_server(self._engine)
        self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, rolled back when the block raises."""
        with DirectConnection(self._engine) as connection, connection.begin():
            yield connection

    def run(self, statement: Executable | Bound[Executable]) -> int:
        """One statement in a transaction of its own. Returns how many rows it has changed, or found."""
        if isinstance(statement, Bound):
            return fetch_at_once(self._engine, statement).rowcount
        with self._single.connect() as connection:
            return connection.execute(statement).rowcount

    def first(self, statement: Executable | Bound[Executable]) -> Row[Any] | None:
        """The first row of one statement in a transaction of its own, or None."""
        return next(iter(self.all(statement)), None)

    def all(self, statement: Executable | Bound[Executable]) -> list[Row[Any]]:
        """All rows of one statement in a transaction of its own."""
        if isinstance(statement, Bound):
            return fetch_at_once(self._engine, statement).named()
        with self._single.connect() as connection:
            return list(connection.execute(statement).all())

    @contextmanager
    def outside_pool(self) -> Iterator[Connection]:
        """A separate connection, closed at the end of the block, for a session lock. Statements commit at once."""
        with self._single.connect() as connection:
            connection.detach()
            yield connection

    def close(self) -> None:
        """Closes the pool's connections."""
        self._engine.dispose()


def _ask_the_idle(engine: Engine) -> None:
    """Makes the pool ping idle connections at checkout, and replace dead ones and those to a read-only server."""

    def given_back(_connection: Any, record: Any) -> None:
        record.info["given_back"] = time.monotonic()

    def handed_out(connection: Any, record: Any, _proxy: Any) -> None:
        since = record.info.get("given_back")
        if since is not None and opened_read_only(record.info):
            raise DisconnectionError("the server was read-only when the connection was opened")
        if since is None or time.monotonic() - since < _FRESH_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError(str(error)) from error

    event.listen(engine, "checkin", given_back)
    event.listen(engine, "checkout", handed_out)


def _end_with_the_server(engine: Engine) -> None:
    """Makes an error about the server end its connection; a read-only server ends all connections of the pool.

    What PostgreSQL refuses before there is a connection is about the server too: such an error has no SQLSTATE.
    """

    def judge(context: ExceptionContext) -> DBAPIError | None:
        state = getattr(context.original_exception, "sqlstate", None)
        if context.connection is None:
            text = str(context.original_exception)
            return OperationalError(None, None, psycopg.OperationalError(text), connection_invalidated=True)
        if state is not None and not context.is_disconnect and ends_connection(state):
            context.is_disconnect = True
            context.invalidate_pool_on_disconnect = state == READ_ONLY
        return None

    event.listen(engine, "handle_error", judge)


def is_outage(error: DBAPIError) -> bool:
    """Whether the database is unavailable (restart, failover). False for a faulty statement, or a value that none can hold."""
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error.orig, (psycopg.OperationalError, psycopg.InterfaceError))
    return is_about_server(state)


def failure_name(error: DBAPIError) -> str:
    """The event of the log line about a failed statement."""
    return "database away" if is_outage(error) else "statement failed"
