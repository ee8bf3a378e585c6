"""Connections to PostgreSQL that outlive their engine: the next engine of the process takes them over.

Each test has engines of its own. A new connection costs PostgreSQL a process that knows no table yet, and plans every
statement anew. A connection taken over has its prepared statements, and nothing else of its last user.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

import asyncpg
import psycopg
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.util import await_only

_MOST = 16
"""Of one login to one database."""
_FORGET = "RESET ROLE; RESET ALL; SELECT pg_advisory_unlock_all(); UNLISTEN *; DISCARD TEMP"


class _Idle:
    """Connections that no engine uses now, by what they were opened with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_origin: defaultdict[str, list[Any]] = defaultdict(list)
        self._origins: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def take(self, origin: str) -> Any:
        with self._lock:
            idle = self._by_origin[origin]
            return idle.pop() if idle else None

    def may_keep(self, driver: Any, origin: str) -> None:
        """Of a new connection of the driver."""
        self._origins[driver] = origin

    def keep(self, connection: Any, driver: Any) -> bool:
        """False: it cannot be kept."""
        with self._lock:
            origin = self._origins.get(driver)
            if origin is None or len(self._by_origin[origin]) == _MOST:
                return False
            self._by_origin[origin].append(connection)
            return True

    def all(self) -> list[Any]:
        with self._lock:
            return [one for idle in self._by_origin.values() for one in idle]

    def clear(self) -> list[Any]:
        found = self.all()
        self._by_origin.clear()
        return found


class KeptConnections:
    """Those of psycopg, and those of asyncpg that the event loop of all tests has opened. `of`: the databases they lead to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._idle = _Idle()
        self._idle_async = _Idle()
        self._loop: asyncio.AbstractEventLoop | None = loop
        self.of: set[str] = set()

    def pids(self) -> list[int]:
        """The server processes of those that no engine uses now."""
        pids = [one.info.backend_pid for one in self._idle.all()]
        return pids + [one.driver_connection.get_server_pid() for one in self._idle_async.all()]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """SQLAlchemy's engines open and close connections here."""
        patched = {
            PGDialect_psycopg: {
                "connect": lambda _, *args, **named: self._take(args, named),
                "do_close": lambda _, connection: self._keep(connection),
                "do_terminate": lambda _, connection: connection.close(),
                "initialize": _asked_once(PGDialect_psycopg.initialize),
            },
            PGDialect_asyncpg: {
                "connect": lambda dialect, *args, **named: self._take_async(dialect, args, named),
                "do_close": lambda _, connection: self._keep_async(connection),
                "on_connect": lambda dialect: _once_each(_ON_CONNECT(dialect)),
                "initialize": _asked_once(PGDialect_asyncpg.initialize),
            },
        }
        with pytest.MonkeyPatch.context() as patch:
            for dialect, methods in patched.items():
                for name, method in methods.items():
                    patch.setattr(dialect, name, method, raising=False)
            yield
        for one in self._idle.clear():
            one.close()

    async def close_async(self) -> None:
        """Closes those of asyncpg, in their event loop."""
        self._loop = None
        for one in self._idle_async.clear():
            await one.driver_connection.close()

    def _take(self, args: tuple[Any, ...], named: dict[str, Any]) -> psycopg.Connection[Any]:
        origin = repr((args, sorted((name, value) for name, value in named.items() if name != "context")))
        while (kept := self._idle.take(origin)) is not None:
            if _is_as_new(kept):
                return cast(psycopg.Connection[Any], kept)
        opened = psycopg.connect(*args, **named)
        if opened.info.dbname in self.of:
            self._idle.may_keep(opened, origin)
        return opened

    def _keep(self, connection: psycopg.Connection[Any]) -> None:
        idle = connection.info.transaction_status == TransactionStatus.IDLE
        if not idle or not self._idle.keep(connection, connection):
            connection.close()

    def _take_async(self, dialect: PGDialect_asyncpg, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if asyncio.get_running_loop() is not self._loop or named.get("database") not in self.of:
            return dialect.loaded_dbapi.connect(*args, **named)
        known: Any = dialect
        origin = repr((args, sorted(named.items()), known._json_deserializer, known._on_connect_isolation_level))
        while (kept := self._idle_async.take(origin)) is not None:
            if await_only(_is_as_new_async(kept.driver_connection)):
                return kept
        opened: Any = dialect.loaded_dbapi.connect(*args, **named)
        self._idle_async.may_keep(opened.driver_connection, origin)
        return opened

    def _keep_async(self, connection: Any) -> None:
        driver: asyncpg.Connection = connection.driver_connection
        idle = self._loop is not None and not driver.is_closed() and not driver.is_in_transaction()
        if not idle or not self._idle_async.keep(connection, driver):
            connection.close()


_ON_CONNECT: Callable[[Any], Callable[[Any], None]] = PGDialect_asyncpg.on_connect
_SET_UP: WeakSet[asyncpg.Connection] = WeakSet()


def _is_as_new(connection: psycopg.Connection[Any]) -> bool:
    """Makes it so, but for its prepared statements. False: it is dead."""
    try:
        connection.autocommit = True
        connection.execute(_FORGET, prepare=False)
        connection.autocommit = False
    except psycopg.Error:
        connection.close()
        return False
    return True


async def _is_as_new_async(connection: asyncpg.Connection) -> bool:
    try:
        await connection.execute(_FORGET)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        connection.terminate()
        return False
    except asyncio.CancelledError:
        # the task that wanted it was cancelled
        connection.terminate()
        raise
    return True


def _once_each(set_up: Callable[[Any], None]) -> Callable[[Any], None]:
    """Sets a connection up when it is new: asyncpg forgets its prepared statements when a codec is set."""

    def only_new(connection: Any) -> None:
        if connection.driver_connection not in _SET_UP:
            set_up(connection)
            _SET_UP.add(connection.driver_connection)

    return only_new


def _asked_once(initialize: Callable[[Any, Connection], None]) -> Callable[[Any, Connection], None]:
    """What an engine asks its first connection, such as the server's version. It ends with a rollback, at which psycopg
    forgets all prepared statements."""
    answers: dict[str, Any] = {}

    def remembered(dialect: Any, connection: Connection) -> None:
        if not answers:
            before = dict(vars(dialect))
            initialize(dialect, connection)
            answers.update({name: value for name, value in vars(dialect).items() if before.get(name) is not value})
        vars(dialect).update(answers)

    return remembered
