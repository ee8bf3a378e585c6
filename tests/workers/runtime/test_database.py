"""Connections of the workers' pool that the server ended."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.harness.databases import end_connections
from workers.runtime import database
from workers.runtime.database import WorkerDatabase, is_outage

ONE = text("SELECT 1 AS one")


@pytest.fixture
def pool(database_url: str) -> Iterator[WorkerDatabase]:
    opened = WorkerDatabase(database_url, pool_size=1)
    yield opened
    opened.close()


def test_one_that_lay_idle_is_replaced_before_it_is_used(
    pool: WorkerDatabase, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.all(ONE) == [(1,)]
    end_connections(database_url)
    monkeypatch.setattr(database, "_FRESH_SECONDS", 0.0)
    assert pool.all(ONE) == [(1,)]


def test_one_that_was_used_just_now_fails_as_an_outage_and_the_next_is_new(
    pool: WorkerDatabase, database_url: str
) -> None:
    assert pool.all(ONE) == [(1,)]
    end_connections(database_url)
    with pytest.raises(DBAPIError) as failed:
        pool.all(ONE)
    assert is_outage(failed.value)
    assert pool.all(ONE) == [(1,)]


def test_a_single_statement_is_kept_and_a_block_that_fails_is_not(pool: WorkerDatabase) -> None:
    pool.run(text("CREATE TEMPORARY TABLE kept (n int)"))
    pool.run(text("INSERT INTO kept VALUES (1)"))
    with pytest.raises(DBAPIError):
        _write_and_fail(pool)
    assert pool.all(text("SELECT n FROM kept")) == [(1,)]


def _write_and_fail(pool: WorkerDatabase) -> None:
    with pool.begin() as connection:
        connection.execute(text("INSERT INTO kept VALUES (2)"))
        connection.execute(text("SELECT 1 / 0"))


def test_a_connection_keeps_all_statements_of_a_process_prepared(pool: WorkerDatabase) -> None:
    for width in range(150):
        pool.run(text("SELECT " + ", ".join(["1"] * (width + 1))))
    assert pool.all(text("SELECT count(*) >= 150 AS kept FROM pg_prepared_statements")) == [(True,)]
