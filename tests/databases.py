"""Clean databases for tests: one migrated database per pytest process, put back to its first state for each test.

Emptying the tables that a test filled takes 2–5 ms; TRUNCATE of twenty tables takes 50 ms and a copy of a template
database 100–150 ms (measured on two cores).
"""

import io
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from alembic import command
from alembic.config import Config
from psycopg import sql
from sqlalchemy import Engine, create_engine, text

from app.db.core.compiled import with_values
from app.db.core.urls import sync_url
from app.db.operations.invariants import CHECKS, violations
from tests.kept_connections import KeptConnections

ROOT = Path(__file__).resolve().parents[1]

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

RESETS_BETWEEN_VACUUMS = 50
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
SELECT format('setval(%L, %s, false)', format('%I.%I', schemaname, sequencename), start_value)
FROM pg_sequences WHERE schemaname = 'public'
"""

ANY_VIOLATION = text("SELECT " + " OR ".join(f"EXISTS ({with_values(check.statement)})" for check in CHECKS))
"""One statement for all invariants: after nearly every test each of them holds."""

HANG_UP = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
HANG_UP_BUT = text(HANG_UP + " AND pid <> ALL (:kept)")


class Reset:
    """Puts a database back. Its statements are always the same, so that PostgreSQL plans them once."""

    def __init__(self, superuser: Engine) -> None:
        self._engine = superuser
        self._since_vacuum = 0
        with superuser.connect() as connection:
            tables = [sql.Identifier(name) for (name,) in connection.execute(text(TABLES))]
            seeded = connection.execute(text(SEEDED)).all()
            sequences = connection.execute(text(SEQUENCES)).all()
        filled = sql.SQL("CASE WHEN EXISTS (SELECT FROM public.{0}) THEN {1} END")
        each = [filled.format(table, sql.Literal(table.as_string())) for table in tables]
        self._filled = sql.SQL("SELECT array_remove(ARRAY[{}], NULL)").format(sql.SQL(", ").join(each)).as_string()
        seed = "INSERT INTO public.{0} ({1}) OVERRIDING SYSTEM VALUE SELECT {1} FROM seed.{0}"
        self._fill = [seed.format(sql.Identifier(name).as_string(), columns) for name, columns in seeded]
        self._count = "SELECT " + ", ".join(call for (call,) in sequences)

    def __call__(self) -> None:
        with self._engine.begin() as connection:
            for table in connection.exec_driver_sql(self._filled).scalar_one():
                connection.exec_driver_sql(f"DELETE FROM public.{table}")
            for statement in (*self._fill, self._count):
                connection.exec_driver_sql(statement)
        self._since_vacuum += 1
        if self._since_vacuum == RESETS_BETWEEN_VACUUMS:
            self._since_vacuum = 0
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM")


class Databases:
    """Makes its database at the first request. `admin_url` belongs to a superuser of a server for tests."""

    def __init__(self, admin_url: str, kept: KeptConnections | None = None) -> None:
        self._admin_url = admin_url
        self._kept = kept
        self._name = f"gpulease_test_{os.getpid()}_{secrets.token_hex(3)}"
        self._password = secrets.token_hex(16)
        self._inspector: Engine | None = None
        self._reset: Reset | None = None

    @property
    def url(self) -> str:
        """The program's way in: a role that owns the database and is no superuser, as in production."""
        return self._with(path=self._name, login=f"{self._name}:{self._password}")

    @property
    def owner_url(self) -> str:
        """The superuser's way into the database."""
        return self._with(path=self._name)

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of the database as the migrations left it. Afterwards connections that are still in use are closed."""
        if self._inspector is None or self._reset is None:
            self.create()
            self._inspector = create_engine(
                sync_url(self.owner_url),
                pool_size=1,
                max_overflow=0,
                pool_pre_ping=True,
                connect_args={"prepare_threshold": 0, "options": REPLICA},
            )
            self._reset = Reset(self._inspector)
            if self._kept is not None:
                self._kept.of.add(self._name)
        try:
            yield self.url
        finally:
            with self._inspector.begin() as connection:
                connection.execute(HANG_UP_BUT, {"kept": self._kept.pids() if self._kept else []})
            self._reset()

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
        return self.url

    def add(self, statement: str, values: Mapping[str, Any]) -> None:
        """Inserts what a test begins with. Neither row-level security nor triggers are in the way."""
        assert self._inspector is not None, "no test has used the database"
        with self._inspector.begin() as connection:
            connection.exec_driver_sql(statement, dict(values))

    def violations(self) -> list[str]:
        """What the program's invariants find wrong with the data right now: empty when all is well."""
        assert self._inspector is not None, "no test has used the database"
        with self._inspector.begin() as connection:
            return violations(connection) if connection.execute(ANY_VIOLATION).scalar_one() else []

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
