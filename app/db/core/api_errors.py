"""Errors of the API's access to PostgreSQL: which of them mean that the database is unavailable."""

import contextlib
from collections.abc import Iterator

import asyncpg
from sqlalchemy import exc

from app.db.core.server_state import is_about_server

_STATEMENT_TIMEOUT = "57014"
_LOCK_TIMEOUT = "55P03"
_REPEATABLE = frozenset({"40001", "40P01", _STATEMENT_TIMEOUT, _LOCK_TIMEOUT})
_SHUTDOWN = frozenset({"57P01", "57P02", "57P03"})
_LOST = (asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The driver's own errors. InternalClientError occurs when a dying server sends an unrequested message that the driver
reads before the connection ends."""
BREAKS = (*_LOST, exc.TimeoutError, OSError)
STATEMENT_ERRORS = (exc.SQLAlchemyError, exc.EmulatedDBAPIException, asyncpg.PostgresError)
"""What PostgreSQL, its driver or SQLAlchemy refuse. Outside a transaction of `ApiDatabase`, the database itself is available."""


class DatabaseUnavailable(Exception):
    """The database does not answer, or aborted this transaction. Nothing was committed, unless COMMIT was lost."""


def _is_break(error: BaseException) -> bool:
    """Whether the database is the cause of the error, and a retry may succeed later."""
    state = sqlstate(error)
    if state is not None:
        return is_about_server(state) or state in _REPEATABLE
    return is_lost(error) or isinstance(error, exc.TimeoutError | TimeoutError)


def is_lost(error: BaseException) -> bool:
    """Whether this connection died. The error reveals nothing about the next connection."""
    state = sqlstate(error)
    if state is not None:
        return state.startswith("08") or state in _SHUTDOWN
    invalidated = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    lost = isinstance(error, (*_LOST, exc.EmulatedDBAPIException, OSError))
    return invalidated or (lost and not isinstance(error, TimeoutError))


def sqlstate(error: BaseException) -> str | None:
    """PostgreSQL's code of the error. None: PostgreSQL did not report it."""
    return getattr(error.orig if isinstance(error, exc.DBAPIError) else error, "sqlstate", None)


@contextlib.contextmanager
def opening() -> Iterator[None]:
    """Whatever PostgreSQL answers to a new connection is about the server: the session's settings are constants."""
    try:
        yield
    except (asyncpg.PostgresError, exc.DBAPIError, exc.EmulatedDBAPIException) as error:
        raise DatabaseUnavailable(str(error).partition("\n")[0]) from error


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises DatabaseUnavailable for an error whose cause is the database."""
    try:
        yield
    except (*STATEMENT_ERRORS, *BREAKS) as error:
        if _is_break(error):
            raise DatabaseUnavailable(str(error).partition("\n")[0]) from error
        raise
