"""The program's database on the simulation's clock: real PostgreSQL, one connection for all simulated processes.

A schema before `pg_catalog` in the search path brings `now()`, `random()` and `gen_random_uuid()` of the simulation, so that
every statement of the program reads the virtual time. A transaction is one step: nobody else acts within it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from sqlalchemy import Connection, Executable, NullPool, Row, create_engine, text
from sqlalchemy.exc import OperationalError

from app.db.core.connections import WORKER_ROLE
from app.db.core.direct import DirectConnection
from app.db.core.prepared import Bound, execute
from app.db.core.urls import sync_url
from tests.simulation.scheduler import Scheduler
from tests.workers.virtual_time import defaults
from workers.runtime.database import WorkerDatabase

T = TypeVar("T")

_PREPARE = """
DO $$
DECLARE parent text;
BEGIN
    CREATE SCHEMA simulated;
    GRANT USAGE ON SCHEMA simulated TO PUBLIC;
    CREATE FUNCTION simulated.now() RETURNS timestamptz LANGUAGE sql STABLE
        AS $f$ SELECT pg_catalog.current_setting('simulated.now')::pg_catalog.timestamptz $f$;
    CREATE FUNCTION simulated.gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE
        AS $f$ SELECT pg_catalog.md5(pg_catalog.random()::text)::uuid $f$;
    {defaults}
    FOREACH parent IN ARRAY ARRAY['gpu_sample', 'gpu_series'] LOOP
        EXECUTE format('CREATE TABLE gpu_partitions.%s_20300131 PARTITION OF public.%I
                        FOR VALUES FROM (''2029-12-31'') TO (''2030-02-01'')', parent, parent);
    END LOOP;
    EXECUTE format('ALTER DATABASE %I SET search_path = simulated, pg_catalog, public', current_database());
END $$
"""

_EMPTY = """
DO $$
DECLARE names text;
BEGIN
    SELECT string_agg(oid::regclass::text, ', ') INTO names FROM pg_class
    WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'gpu_partitions'::regnamespace)
      AND relname NOT IN ('alembic_version', 'installation', 'usage_progress') AND pg_relation_size(oid) > 0;
    IF names IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY CASCADE';
    END IF;
END $$
"""
"""Only what an earlier seed has written: most tables are never used here, and a new file for each takes 0.1 s of CPU."""
_RENEW = """
DELETE FROM installation;
INSERT INTO installation (id, token_key) VALUES ('simulated', 'simulated');
DELETE FROM usage_progress;
INSERT INTO usage_progress DEFAULT VALUES
"""


def _nothing() -> None:
    """Nobody wants to know."""


class Clocked:
    """The one connection. `committed` is called after each transaction that may have changed quotas."""

    def __init__(self, owner_url: str, url: str) -> None:
        self._owner = psycopg.connect(owner_url, autocommit=True)
        if self._owner.execute("SELECT to_regnamespace('simulated')").fetchone() == (None,):
            self._owner.execute(_PREPARE.replace("{defaults}", defaults("simulated")).encode())
        self._owner.execute("SET simulated.now = '2030-01-01'")
        socket = _socket_folder(self._owner)
        self._engine = create_engine(
            sync_url(url),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "options": f"-c role={WORKER_ROLE} -c timezone=UTC -c jit=off -c plan_cache_mode=force_generic_plan",
                **({"host": socket} if socket else {}),
            },
        )
        self.connection = DirectConnection(self._engine)
        driver: Any = self.connection.connection.driver_connection
        self._driver = driver
        # every statement is prepared at its first use: a plan never depends on how often earlier seeds used it
        self._driver.prepare_threshold = 0
        self._driver.prepared_max = 1000
        self.committed: Callable[[], None] = _nothing
        self._set_to: float | None = None
        self._prepared: dict[str, bytes] = {}

    @property
    def server_pid(self) -> int:
        """The server's process that serves this connection."""
        return int(self._driver.info.backend_pid)

    def renew(self, seed: int) -> None:
        """Empty tables, and the randomness of this seed."""
        self._set_to, self.committed = None, _nothing
        self._owner.execute(_EMPTY)
        self._owner.execute(_RENEW)
        self.connection.execute(text("SELECT setseed(:seed)"), {"seed": (seed % 9973) / 9973})

    def set_time(self, scheduler: Scheduler) -> None:
        setting = self._setting(scheduler)
        if setting:
            self._command(setting)

    def begin(self, scheduler: Scheduler, settings: str = "") -> Connection:
        """A transaction, at the scheduler's time. `settings`: commands that it begins with."""
        self._command(f"{self._setting(scheduler)} BEGIN; {settings}")
        return self.connection

    def commit(self) -> None:
        self._command("COMMIT")
        self.committed()

    def roll_back(self) -> None:
        self._command("ROLLBACK")

    def texts(self, query: str) -> list[str | None]:
        """The only row of a constant query. The simulation asks after most acts, so it asks libpq, without a cursor."""
        if query not in self._prepared:
            self._prepare(query)
        result = self._driver.pgconn.exec_prepared(self._prepared[query], ())
        if (
            result.status != ExecStatus.TUPLES_OK
        ):  # the driver deallocates every statement after a rollback to a savepoint
            self._prepare(query)
            result = self._driver.pgconn.exec_prepared(self._prepared[query], ())
        self._expect(result, ExecStatus.TUPLES_OK)
        values = (result.get_value(0, column) for column in range(result.nfields))
        return [None if value is None else value.decode() for value in values]

    def _prepare(self, query: str) -> None:
        name = self._prepared.setdefault(query, f"simulated_{len(self._prepared)}".encode())
        self._expect(self._driver.pgconn.prepare(name, query.encode()), ExecStatus.COMMAND_OK)

    def _command(self, command: str) -> None:
        """A command without an answer, by libpq as well: a third of the CPU that a cursor takes for it."""
        self._expect(self._driver.pgconn.exec_(command.encode()), ExecStatus.COMMAND_OK)

    @staticmethod
    def _expect(result: Any, status: ExecStatus) -> Any:
        assert result.status == status, result.error_message.decode()
        return result

    def _setting(self, scheduler: Scheduler) -> str:
        if scheduler.now == self._set_to:
            return ""
        self._set_to = scheduler.now
        return f"SET simulated.now = '{scheduler.time.isoformat()}';"

    def abandon(self) -> None:
        """Ends a transaction that a violation has left open."""
        if self._driver.pgconn.transaction_status != TransactionStatus.IDLE:
            self.roll_back()

    def close(self) -> None:
        self.connection.close()
        self._engine.dispose()
        self._owner.close()


def _socket_folder(connection: psycopg.Connection) -> str | None:
    """Where the server listens besides TCP, if anywhere: there a round trip takes less CPU of the system."""
    row = connection.execute(
        "SELECT current_setting('unix_socket_directories'), current_setting('data_directory')"
    ).fetchone()
    assert row is not None
    folder, data = row
    return str(Path(data, folder)) if folder else None


class Troubled(Protocol):
    """Where a process may be hit: see `processes`."""

    def point(self, where: str) -> None: ...

    def database_fails(self) -> bool: ...


class VirtualDatabase(WorkerDatabase):
    """One process's way to the database. Before and after each transaction others act, and the process may be killed."""

    def __init__(self, clocked: Clocked, scheduler: Scheduler, trouble: Troubled) -> None:
        self._clocked = clocked
        self._scheduler = scheduler
        self._trouble = trouble
        self._inside = False

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        assert not self._inside, "a transaction within a transaction"
        self._before()
        connection = self._clocked.begin(self._scheduler)
        self._inside = True
        try:
            yield connection
            self._trouble.point("before commit")
        except BaseException:
            self._clocked.roll_back()
            raise
        finally:
            self._inside = False
        self._clocked.commit()
        self._after()

    def run(self, statement: Executable | Bound[Executable]) -> int:
        return self._alone(lambda connection: execute(connection, statement).rowcount)

    def first(self, statement: Executable | Bound[Executable]) -> Row[Any] | None:
        return self._alone(lambda connection: execute(connection, statement).first())

    def all(self, statement: Executable | Bound[Executable]) -> list[Row[Any]]:
        return self._alone(lambda connection: list(execute(connection, statement).all()))

    def close(self) -> None:
        """The connection is everybody's."""

    def _alone(self, act: Callable[[Connection], T]) -> T:
        assert not self._inside, "a transaction within a transaction"
        self._before()
        self._clocked.set_time(self._scheduler)
        result = act(self._clocked.connection)
        self._after()
        return result

    def _before(self) -> None:
        self._trouble.point("before transaction")
        if self._trouble.database_fails():
            raise _outage()

    def _after(self) -> None:
        self._scheduler.changed = True
        self._trouble.point("after commit")
        if self._trouble.database_fails():
            raise _outage()


def _outage() -> OperationalError:
    error = OperationalError("simulated", None, psycopg.OperationalError("the server closed the connection"))
    error.connection_invalidated = True
    return error
