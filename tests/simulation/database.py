"""The program's database on the simulation's clock: real PostgreSQL, one connection for all simulated processes.

A schema before `pg_catalog` in the search path brings `now()`, `random()` and `gen_random_uuid()` of the simulation, so that
every statement of the program reads the virtual time. A transaction is one step: nobody else acts within it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import psycopg
from sqlalchemy import Connection, Executable, NullPool, Row, create_engine, text
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import OperationalError

from app.db.bound import Bound, parts
from app.db.urls import sync_url
from tests.simulation.scheduler import Scheduler
from workers.database import ROLE, Database

T = TypeVar("T")

_PREPARE = """
DO $$
DECLARE one record;
BEGIN
    CREATE SCHEMA simulated;
    GRANT USAGE ON SCHEMA simulated TO PUBLIC;
    CREATE FUNCTION simulated.now() RETURNS timestamptz LANGUAGE sql STABLE
        AS $f$ SELECT pg_catalog.current_setting('simulated.now')::pg_catalog.timestamptz $f$;
    CREATE FUNCTION simulated.gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE
        AS $f$ SELECT pg_catalog.md5(pg_catalog.random()::text)::uuid $f$;
    FOR one IN
        SELECT attrelid::regclass AS name, attname FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
        WHERE pg_get_expr(adbin, adrelid) = 'now()'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT simulated.now()', one.name, one.attname);
    END LOOP;
    EXECUTE format('ALTER DATABASE %I SET search_path = simulated, pg_catalog, public', current_database());
END $$
"""

_EMPTY = """
DO $$
DECLARE names text;
BEGIN
    SELECT string_agg(format('public.%I', tablename), ', ') INTO names FROM pg_tables
    WHERE schemaname = 'public' AND tablename NOT IN ('alembic_version', 'installation');
    EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY';
END $$
"""
_RENEW = """
UPDATE installation SET hold = NULL, launches_stopped = NULL, event_sequence = 0, system_identifier = NULL, timeline = NULL
"""


class Clocked:
    """The one connection. `violations` reads through it too."""

    def __init__(self, owner_url: str, url: str) -> None:
        with psycopg.connect(owner_url, autocommit=True) as owner:
            if owner.execute("SELECT to_regnamespace('simulated')").fetchone() == (None,):
                owner.execute(_PREPARE)
        self._owner_url = owner_url
        self._engine = create_engine(
            sync_url(url),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"options": f"-c role={ROLE} -c timezone=UTC -c jit=off"},
        )
        self.connection = self._engine.connect()
        driver: Any = self.connection.connection.driver_connection
        driver.prepared_max = 1000
        self._set_to: float | None = None

    def renew(self, seed: int) -> None:
        """Empty tables, and the randomness of this seed."""
        self._set_to = None
        with psycopg.connect(self._owner_url, autocommit=True) as owner:
            owner.execute(_EMPTY)
            owner.execute("SET simulated.now = '2030-01-01'")
            owner.execute(_RENEW)
        self.connection.execute(text("SELECT setseed(:seed)"), {"seed": (seed % 9973) / 9973})

    def set_time(self, scheduler: Scheduler) -> None:
        setting = self._setting(scheduler)
        if setting:
            self.connection.exec_driver_sql(setting)

    def begin(self, scheduler: Scheduler) -> Connection:
        """A transaction, at the scheduler's time."""
        self.connection.exec_driver_sql(f"{self._setting(scheduler)} BEGIN")
        return self.connection

    def _setting(self, scheduler: Scheduler) -> str:
        if scheduler.now == self._set_to:
            return ""
        self._set_to = scheduler.now
        return f"SET simulated.now = '{scheduler.time.isoformat()}';"

    def abandon(self) -> None:
        """Ends a transaction that a violation has left open."""
        if self.connection.exec_driver_sql("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").scalar():
            self.connection.exec_driver_sql("ROLLBACK")

    def close(self) -> None:
        self.connection.close()
        self._engine.dispose()


class Troubled(Protocol):
    """Where a process may be hit: see `processes`."""

    def point(self, where: str) -> None: ...

    def database_fails(self) -> bool: ...


class VirtualDatabase(Database):
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
            connection.exec_driver_sql("ROLLBACK")
            raise
        finally:
            self._inside = False
        connection.exec_driver_sql("COMMIT")
        self._after()

    def run(self, statement: Executable | Bound[Executable]) -> CursorResult[Any]:
        return self._alone(lambda connection: connection.execute(*parts(statement)))

    def first(self, statement: Executable | Bound[Executable]) -> Row[Any] | None:
        return self._alone(lambda connection: connection.execute(*parts(statement)).first())

    def all(self, statement: Executable | Bound[Executable]) -> list[Row[Any]]:
        return self._alone(lambda connection: list(connection.execute(*parts(statement)).all()))

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
