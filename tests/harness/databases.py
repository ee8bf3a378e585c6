"""Clean databases for tests: one migrated database per pytest process, put back to its first state for each test.

Emptying the tables takes 2 ms; TRUNCATE of twenty tables takes 50 ms and a copy of a template database 100–150 ms
(measured on two cores).
"""

import io
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from alembic import command
from alembic.config import Config
from psycopg import sql
from sqlalchemy import Connection, Engine, create_engine, text

from app.db.core.compiled import with_values
from app.db.core.urls import sync_url
from app.db.operations.invariants import CHECKS, violations
from tests.harness.kept_connections import KeptConnections

ROOT = Path(__file__).resolve().parents[2]

# What the migrations insert is kept in the schema `seed`, which the program does not know.
KEEP_SEED = """
DO $$
DECLARE name text; filled boolean;
BEGIN
    CREATE SCHEMA seed;
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO filled;
        IF filled THEN
            EXECUTE format('CREATE TABLE seed.%I AS TABLE public.%I', name, name);
        END IF;
    END LOOP;
END $$
"""

TESTS_BETWEEN_VACUUMS = 50
"""Nothing else removes the rows that tests delete, and each search goes through all of them."""

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1"
SEEDED = """
SELECT tablename, (
    SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
    WHERE attrelid = format('public.%I', tablename)::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
) FROM pg_tables WHERE schemaname = 'seed'
"""
REPLICA = "-c session_replication_role=replica -c lock_timeout=10s"
"""Foreign keys and append-only triggers are off, so that the order does not matter. All the time: a change would have
PostgreSQL plan each statement anew."""

SEQUENCES = """
SELECT format('PERFORM setval(%L, %s, false);', format('%I.%I', schemaname, sequencename), start_value)
FROM pg_sequences WHERE schemaname = 'public'
"""

ANY_VIOLATION = text("SELECT " + " OR ".join(f"EXISTS ({with_values(check.statement)})" for check in CHECKS))
"""One statement for all invariants: after nearly every test each of them holds."""

HANG_UP = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

# One call after each test: a round trip for each table would take three times the CPU time.
END_TEST = """
CREATE FUNCTION seed.end_test(kept int[], checked boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF checked AND ({any_violation}) THEN
        RETURN false;
    END IF;
    PERFORM {hang_up} AND pid <> ALL (kept);
    {statements}
    RETURN true;
END $$
"""
CALL_END_TEST = text("SELECT seed.end_test(:kept, :checked)")


def _write_end_test(connection: psycopg.Connection) -> None:
    """The function that closes connections and puts each table back, unless an invariant is violated and `checked`."""
    tables = [sql.Identifier(name).as_string() for (name,) in connection.execute(TABLES)]
    statements = [f"DELETE FROM public.{table};" for table in tables]
    for name, columns in connection.execute(SEEDED).fetchall():
        table = sql.Identifier(name).as_string()
        insert = f"INSERT INTO public.{table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM seed.{table};"
        statements.append(insert)
    statements += [setval for (setval,) in connection.execute(SEQUENCES)]
    end_test = END_TEST.format(
        any_violation=ANY_VIOLATION.text,
        hang_up=HANG_UP.strip().removeprefix("SELECT "),
        statements="\n    ".join(statements),
    )
    connection.execute(end_test.encode())


class Databases:
    """Makes its database at the first request. `admin_url` belongs to a superuser of a server for tests."""

    def __init__(self, admin_url: str, kept: KeptConnections | None = None) -> None:
        self._admin_url = admin_url
        self._kept = kept
        self._name = f"gpulease_test_{os.getpid()}_{secrets.token_hex(3)}"
        self._password = secrets.token_hex(16)
        self._inspector: Engine | None = None
        self._since_vacuum = 0

    @property
    def url(self) -> str:
        """The program's way in: a role that owns the database and is no superuser, as in production."""
        return self._with(path=self._name, login=f"{self._name}:{self._password}")

    @property
    def owner_url(self) -> str:
        """The superuser's way into the database."""
        return self._with(path=self._name)

    @contextmanager
    def fresh(self, *, checked: bool = True) -> Iterator[str]:
        """The URL of the database as the migrations left it. Afterwards connections that are still in use are closed.

        Raises AssertionError when what is in the database then breaks an invariant of the program, if `checked`.
        """
        if self._inspector is None:
            self.create()
            self._inspector = create_engine(
                sync_url(self.owner_url),
                pool_size=1,
                max_overflow=0,
                pool_pre_ping=True,
                isolation_level="AUTOCOMMIT",
                connect_args={"prepare_threshold": 0, "options": REPLICA},
            )
            if self._kept is not None:
                self._kept.of.add(self._name)
        found = None
        try:
            yield self.url
        finally:
            with self._inspector.connect() as connection:
                if not self._end_test(connection, checked=checked):
                    found = violations(connection)
                    self._end_test(connection, checked=False)
                self._vacuum(connection)
        assert not found, "the test left data that breaks an invariant:\n" + "\n".join(found)

    def _end_test(self, connection: Connection, *, checked: bool) -> bool:
        kept = self._kept.pids() if self._kept else []
        return bool(connection.execute(CALL_END_TEST, {"kept": kept, "checked": checked}).scalar_one())

    def _vacuum(self, connection: Connection) -> None:
        self._since_vacuum += 1
        if self._since_vacuum == TESTS_BETWEEN_VACUUMS:
            self._since_vacuum = 0
            connection.exec_driver_sql("VACUUM")

    def create(self) -> str:
        """Makes and migrates the database, for a caller that resets the tables itself. Returns its URL."""
        name = sql.Identifier(self._name)
        with self._admin("postgres") as connection:
            role = sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}")
            connection.execute(role.format(name, sql.Literal(self._password)))
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
            for shared in self._shared_roles(connection):
                connection.execute(sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(sql.Identifier(shared), name))
        migrate(self.url)
        with self._admin(self._name) as connection:
            connection.execute(KEEP_SEED)
            _write_end_test(connection)
        return self.url

    def add(self, statement: str, values: Mapping[str, Any]) -> None:
        """Inserts what a test begins with. Neither row-level security nor triggers are in the way."""
        assert self._inspector is not None, "no test has used the database"
        with self._inspector.begin() as connection:
            connection.exec_driver_sql(statement, dict(values))

    def close(self) -> None:
        """Remove what was made."""
        if self._inspector is not None:
            self._inspector.dispose()
        with self._admin("postgres") as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self._name)))
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(self._name)))

    @staticmethod
    def _shared_roles(connection: psycopg.Connection) -> list[str]:
        """Roles belong to the server: another pytest process may have migrated there before and made them."""
        rows = connection.execute(r"SELECT rolname FROM pg_roles WHERE rolname LIKE 'gpulease\_%' AND NOT rolcanlogin")
        return [name for (name,) in rows]

    def _admin(self, database: str) -> psycopg.Connection:
        return psycopg.connect(self._with(path=database), autocommit=True)

    def _with(self, *, path: str, login: str | None = None) -> str:
        parts = urlsplit(self._admin_url)
        old_login, _, place = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login or old_login}@{place}", path=f"/{path}"))


def hang_up(connection: psycopg.Connection) -> None:
    """Ends every other connection of the program's to this database, as a restart of the server does."""
    connection.execute(HANG_UP + " AND usename = current_user")


def end_connections(database_url: str) -> None:
    """As `hang_up`, from a connection of its own."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        hang_up(connection)


def migrate(database_url: str) -> None:
    """Brings the database to the newest version."""
    config = Config(ROOT / "migrations" / "alembic.ini", stdout=io.StringIO())
    config.attributes["database_url"] = database_url
    command.upgrade(config, "head")


@contextmanager
def full_disk(databases: Databases, database_url: str) -> Iterator[Callable[[], object]]:
    """PostgreSQL refuses each change of a lease, as with a full disk, from a call until the block ends."""
    name = database_url.rpartition("/")[2]
    with psycopg.connect(databases.owner_url.rpartition("/")[0] + f"/{name}", autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION public.fill_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$"
        )
        try:
            yield lambda: owner.execute(
                "CREATE TRIGGER full_disk BEFORE UPDATE ON public.lease EXECUTE FUNCTION public.fill_disk()"
            )
        finally:
            owner.execute("DROP FUNCTION public.fill_disk() CASCADE")
