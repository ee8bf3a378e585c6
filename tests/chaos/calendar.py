"""The time of a stack: ahead of the machine's, so that days and a month end while the storm goes on.

`now()` of a schema before `pg_catalog` in the search path adds the seconds that a file names. The file is read at most
once in a transaction. The clouds are ahead by as much. See tests/workers/virtual_time.py for the same in one process.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import LiteralString, cast

import psycopg
from psycopg import sql

from app.local.embedded_postgres import DATABASE
from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.stack import PATIENCE, Stack
from tests.workers.virtual_time import defaults

_LOCK_MS = 200
"""Less than PostgreSQL waits before it looks for a deadlock: so no worker's transaction is chosen as the victim."""
_AFTER_MIDNIGHT = timedelta(seconds=5)
_PREPARE = """
DO $$
BEGIN
    CREATE SCHEMA IF NOT EXISTS calendar;
    GRANT USAGE ON SCHEMA calendar TO PUBLIC;
    CREATE OR REPLACE FUNCTION calendar.now() RETURNS timestamptz LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1 AS $f$
        DECLARE ahead text := pg_catalog.current_setting('calendar.ahead', true);
        BEGIN
            IF ahead IS NULL OR ahead OPERATOR(pg_catalog.=) '' THEN
                ahead := pg_catalog.pg_read_file({file});
                PERFORM pg_catalog.set_config('calendar.ahead', ahead, true);
            END IF;
            RETURN pg_catalog.now() OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => ahead::pg_catalog.float8);
        END
    $f$;
    {defaults}
    EXECUTE format('ALTER DATABASE %I SET search_path = calendar, pg_catalog, public', current_database());
END $$
"""
_RECONNECT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class Calendar:
    """The storm begins shortly before midnight of the last but one day of a month."""

    def __init__(self, stack: Stack, cloud: Cloud, until_midnight: timedelta) -> None:
        self._stack = stack
        self._cloud = cloud
        self._file: Path = stack.home.path.with_name("ahead")
        self._ahead = 0.0
        self._is_last_day = False
        self._last_day = last_day = _next_month(self.now()) - timedelta(days=1)
        self._forward(last_day - until_midnight)

    def prepare(self) -> None:
        """Makes the database read this time: at the start, and after each restore."""
        read_time_from(self._stack.cluster.url(DATABASE, "postgres"), self._file)

    def now(self) -> datetime:
        """The time of the stack."""
        return datetime.fromtimestamp(time.time() + self._ahead, UTC)

    def is_past_first_midnight(self) -> bool:
        """Whether the last day of the month has begun, some seconds ago."""
        return self.now() > self._last_day + _AFTER_MIDNIGHT

    def is_last_day(self) -> bool:
        """Whether no more time is passed over: from now on a lease reaches its spend cap while workers look."""
        return self._is_last_day

    def next_midnight_in(self, seconds: float) -> None:
        """Goes forward: the next midnight comes after so many seconds."""
        tomorrow = self.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        self._forward(tomorrow - timedelta(seconds=seconds))
        self._is_last_day = True

    def _forward(self, moment: datetime) -> None:
        seconds = (moment - self.now()).total_seconds()
        if seconds > 0:
            self._ahead += seconds
            written = self._file.with_suffix(".new")
            written.write_text(f"{self._ahead:.6f}", encoding="ascii")
            written.rename(self._file)
            self._cloud.forward(seconds)


def read_time_from(url: str, file: Path) -> None:
    """Makes the database of the superuser's `url` add the seconds in `file` to its time. Connections are made anew.

    Its transaction locks one table after the other. Where it has to wait it gives way to workers and begins again.
    """
    statement = sql.SQL(_PREPARE).format(
        file=sql.Literal(str(file)), defaults=sql.SQL(cast("LiteralString", defaults("calendar")))
    )
    with psycopg.connect(url, autocommit=True, options=f"-c lock_timeout={_LOCK_MS}") as connection:

        def done() -> bool:
            try:
                connection.execute(statement)
            except psycopg.errors.LockNotAvailable:
                return False
            return True

        assert wait_until(done, timeout=PATIENCE), "the database is never free for a change of its time"
        connection.execute(_RECONNECT)


def _next_month(moment: datetime) -> datetime:
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)
