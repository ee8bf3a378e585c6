"""The time of one test. The test moves it forward, for the database, the worker and the simulated clouds at once.

A test then does not wait for pauses, grace periods and timeouts. Calls that hang, threads and other processes still take
real time. See docs/decisions/0070.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event
from typing import Any

import psycopg
from sqlalchemy import Engine, NullPool, create_engine, make_url

from app.db.core.urls import sync_url

SCHEMA = "virtual_time"


def defaults(schema: str) -> str:
    """A statement for a block of PL/pgSQL: columns whose default is now() get that of the schema."""
    return f"""
    DECLARE found record;
    BEGIN
        FOR found IN
            SELECT attrelid::regclass AS name, attname FROM pg_attrdef
            JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE pg_get_expr(adbin, adrelid) = 'now()'
        LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT {schema}.now()', found.name, found.attname);
        END LOOP;
    END;
    """


_PREPARE = f"""
DO $$
BEGIN
    -- its tables belong to the owner of the database, who also backs it up
    EXECUTE format('SET LOCAL ROLE %I', (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()));
    CREATE SCHEMA {SCHEMA};
    CREATE TABLE {SCHEMA}.ahead (seconds double precision NOT NULL);
    INSERT INTO {SCHEMA}.ahead VALUES (0);
    GRANT USAGE ON SCHEMA {SCHEMA} TO PUBLIC;
    GRANT SELECT ON {SCHEMA}.ahead TO PUBLIC;
    CREATE FUNCTION {SCHEMA}.now() RETURNS timestamptz LANGUAGE plpgsql STABLE COST 1 AS $f$
        BEGIN
            RETURN pg_catalog.now() + (SELECT seconds FROM {SCHEMA}.ahead) * interval '1 second';
        END
    $f$;
    {defaults(SCHEMA)}
END $$
"""


@cache
def _engine(owner_url: str) -> Engine:
    """One for all tests: its connection to the test's database is kept from test to test (tests/harness/kept_connections.py)."""
    options: dict[str, Any] = {"connect_args": {"prepare_threshold": 0}, "isolation_level": "AUTOCOMMIT"}
    return create_engine(sync_url(owner_url), poolclass=NullPool, **options)


@cache
def virtual(url: str) -> str:
    """The same database. Statements on its connections read the time of the test."""
    options = {"options": f"-csearch_path={SCHEMA},pg_catalog,public"}
    return make_url(url).update_query_dict(options).render_as_string(hide_password=False)


class VirtualTime:
    """Real time, and the seconds by which the test is ahead of it: none at the beginning."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._connections: list[psycopg.Connection] = []

    @contextmanager
    def of(self, owner_url: str) -> Iterator[None]:
        """The time of this database as well, within the block."""
        with _engine(owner_url).connect() as pooled:
            connection: Any = pooled.connection.driver_connection
            if connection.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchone() == (None,):
                connection.execute(_PREPARE)
            self._connections.append(connection)
            if self._ahead:
                self._write(connection, self._ahead)
            yield
            self._connections.remove(connection)
            if self._ahead:
                self._write(connection, 0.0)

    def forward(self, seconds: float) -> None:
        """Lets time pass."""
        self._ahead += seconds
        for connection in self._connections:
            self._write(connection, self._ahead)

    def epoch(self) -> float:
        """Seconds since 1970, for the simulated clouds."""
        return time.time() + self._ahead

    def monotonic(self) -> float:
        """For a worker."""
        return time.monotonic() + self._ahead

    @staticmethod
    def _write(connection: psycopg.Connection, ahead: float) -> None:
        connection.execute(f"UPDATE {SCHEMA}.ahead SET seconds = %s", (ahead,))


class RealTime(VirtualTime):
    """For a fleet beside other processes, or with a database that the test's time does not cover."""

    def forward(self, seconds: float) -> None:
        """Waits."""
        Event().wait(seconds)
