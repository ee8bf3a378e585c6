"""The time of a stack, where its workers run already."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from app.local.waiting import wait_until
from tests.chaos.calendar import read_time_from

_TABLES = "CREATE TABLE first (at timestamptz DEFAULT now()); CREATE TABLE second (at timestamptz DEFAULT now())"
_HAS_FIRST = """
SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'first'::regclass AND mode = 'AccessExclusiveLock' AND granted)
"""
_FILE = Path("PG_VERSION")
"""A number that the server can read wherever it runs: the test needs no certain one."""
_AHEAD = "SELECT now() > pg_catalog.now()"
_PATIENCE = 20.0


@pytest.fixture
def owner_url(postgres_server: str) -> Iterator[str]:
    """The superuser's URL of a database with two tables."""
    name = f"gpulease_test_calendar_{secrets.token_hex(3)}"
    url = make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLES)
        yield url
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_transaction_that_needs_both_tables_does_not_stop_the_calendar(owner_url: str) -> None:
    """It has the second table, and asks for the first one while the calendar has that and waits for the second."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(owner_url) as worker:
        worker.execute("INSERT INTO second VALUES (DEFAULT)")
        reading = pool.submit(read_time_from, owner_url, _FILE)
        with psycopg.connect(owner_url, autocommit=True) as other:
            assert wait_until(lambda: other.execute(_HAS_FIRST).fetchone() == (True,), timeout=_PATIENCE, poll=0.01)
        worker.execute("INSERT INTO first VALUES (DEFAULT)")
        worker.commit()
        reading.result()
    with psycopg.connect(owner_url) as connection:
        assert connection.execute(_AHEAD).fetchone() == (True,)
        connection.execute("INSERT INTO second VALUES (DEFAULT)")
        assert connection.execute("SELECT max(at) > pg_catalog.now() FROM second").fetchone() == (True,)
