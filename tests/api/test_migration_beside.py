"""A migration runs while the API serves: prepared statements must not notice."""

from typing import LiteralString

import psycopg

from tests.api.conftest import Caller

TABLES: tuple[LiteralString, ...] = ("lease", "quota", "offering", "event", "api_key", "tenant")


async def test_reads_go_on_while_a_migration_changes_the_tables(alice: Caller, database_url: str) -> None:
    paths = ["/v1/leases", "/v1/me", "/v1/quotas", "/v1/offerings", "/v1/events"]
    for path in paths:
        assert (await alice.get(path)).status_code == 200
    with psycopg.connect(database_url) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN of_the_next_version text")
    try:
        for path in paths:
            for _ in range(3):
                answer = await alice.get(path)
                assert answer.status_code == 200, answer.text
    finally:
        with psycopg.connect(database_url) as connection:
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN of_the_next_version")
