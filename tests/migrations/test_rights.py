"""Who may read and write which column: the catalogue of a migrated database against `api_rights.toml`."""

import re
import tomllib
from pathlib import Path
from typing import Any, LiteralString

import psycopg

API_RIGHTS = tomllib.loads(Path(__file__).with_name("api_rights.toml").read_text())

COLUMNS: LiteralString = """
    SELECT c.relname, a.attname,
           (SELECT array_agg(name ORDER BY place) FROM unnest(%(names)s::text[], %(rights)s::text[])
                WITH ORDINALITY AS one (name, asked, place)
            WHERE has_column_privilege(%(role)s, c.oid, a.attnum, asked))
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
    ORDER BY c.relname, a.attnum
"""
TABLES: LiteralString = """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND has_table_privilege(%s, c.oid, %s)
"""
RIGHTS = {"read": "SELECT", "insert": "INSERT", "update": "UPDATE"}

SECRET = re.compile(r"token|secret|password|private_key|(^|_)script|params|batch_key")
READ_THOUGH_SECRET = {
    "api_key.secret_hash": "SHA-256 of 256 random bits: the API checks keys with it",
    "api_key.previous_secret_hash": "the same, of the secret before a rotation",
    "attempt.params_hash": "a hash, by which operators compare two attempts",
    "lease_secret.startup_script": "members read the script of a lease while it lives",
}


def _columns(connection: psycopg.Connection[Any], role: str) -> dict[tuple[str, str], str]:
    """By table and column: the role's rights, such as `read-insert`."""
    given = {"names": list(RIGHTS), "rights": list(RIGHTS.values()), "role": role}
    return {
        (table, column): "-".join(rights or ["none"]) for table, column, rights in connection.execute(COLUMNS, given)
    }


def _listed() -> dict[tuple[str, str], str]:
    return {
        (table, column): rights
        for table, entry in API_RIGHTS.items()
        for rights, columns in entry.items()
        if rights != "delete"
        for column in columns.split()
    }


def test_the_api_has_the_rights_of_the_list_on_each_column(database_url: str) -> None:
    """A new column fails until the list says whether the API may read it."""
    with psycopg.connect(database_url) as connection:
        assert _columns(connection, "gpulease_api") == _listed()


def test_the_api_deletes_from_listed_tables_and_empties_none(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        deletes = {table for (table,) in connection.execute(TABLES, ["gpulease_api", "DELETE"])}
        more = connection.execute(TABLES, ["gpulease_api", "TRUNCATE, REFERENCES, TRIGGER"]).fetchall()
    assert (deletes, more) == ({table for table, entry in API_RIGHTS.items() if entry.get("delete")}, [])


def test_the_api_reads_nothing_that_is_named_like_a_secret() -> None:
    read = {".".join(name) for name, rights in _listed().items() if "read" in rights and SECRET.search(name[1])}
    assert read == set(READ_THOUGH_SECRET)


def test_the_worker_may_use_every_column(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        held = _columns(connection, "gpulease_worker")
        tables = {table for (table,) in connection.execute(TABLES, ["gpulease_worker", "DELETE"])}
    known = {table for table, _ in held if not table.endswith("_seq")}
    assert known <= tables
    assert {rights for (table, _), rights in held.items() if table in tables} == {"read-insert-update"}
