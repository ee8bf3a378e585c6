"""Migrations: up, down, agreement with the models, and two at once."""

import io
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql

from app.db.schema.tables import metadata
from app.domain.schema import SchemaRevisions
from app.prerequisites import schema_revisions
from tests.harness.databases import ROOT

SHARED_ROLES: LiteralString = r"SELECT rolname FROM pg_roles WHERE rolname LIKE 'gpulease\_%' AND NOT rolcanlogin"
"""Roles belong to the server: another migration there made them before."""


def test_programs_know_the_migrations_as_alembic_does() -> None:
    scripts = ScriptDirectory(str(ROOT / "migrations"))
    head = scripts.get_current_head()
    assert head is not None
    assert schema_revisions() == SchemaRevisions(head, frozenset(one.revision for one in scripts.walk_revisions()))


def start(url: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "alembic", "-c", "migrations/alembic.ini", "upgrade", "head"]
    environment = {**os.environ, "GPULEASE_DATABASE_URL": url}
    return subprocess.Popen(
        argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def alembic(url: str, name: str, *arguments: str) -> str:
    """One of Alembic's commands in this process, and what it said."""
    said = io.StringIO()
    config = Config(ROOT / "migrations" / "alembic.ini", stdout=said)
    config.attributes["database_url"] = url
    getattr(command, name)(config, *arguments)
    return said.getvalue()


@contextmanager
def empty_database(postgres_server: str) -> Iterator[str]:
    """An empty database, owned by a role that may make roles and is no superuser, as in production."""
    name = f"gpulease_test_{os.getpid()}_{secrets.token_hex(3)}"
    password = secrets.token_hex(16)
    role = sql.Identifier(name)
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        make = "CREATE ROLE {} LOGIN CREATEROLE PASSWORD {}"
        admin.execute(sql.SQL(make).format(role, sql.Literal(password)))
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
        for (shared,) in admin.execute(SHARED_ROLES).fetchall():
            admin.execute(sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(sql.Identifier(shared), role))
    parts = urlsplit(postgres_server)
    place = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{name}:{password}@{place}", path=f"/{name}"))
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(role))
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
def url(postgres_server: str) -> Iterator[str]:
    """The database is empty."""
    with empty_database(postgres_server) as made:
        yield made


@pytest.fixture(scope="module")
def newest(postgres_server: str) -> Iterator[str]:
    """All migrations went over the database. Nobody changes it."""
    with empty_database(postgres_server) as made:
        alembic(made, "upgrade", "head")
        yield made


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def tables(url: str) -> set[object]:
    return {name for (name,) in rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


def identity(url: str) -> tuple[object, ...]:
    (row,) = rows(url, "SELECT id, token_key FROM installation")
    return row


def test_up_on_an_empty_database_agrees_with_the_models(newest: str) -> None:
    assert "No new upgrade operations detected" in alembic(newest, "check")
    assert tables(newest) == set(metadata.tables) | {"alembic_version"}


def test_up_again_changes_nothing(newest: str) -> None:
    before = identity(newest)
    alembic(newest, "upgrade", "head")
    assert identity(newest) == before


def test_down_to_the_base_leaves_no_table_and_up_works_again(url: str) -> None:
    alembic(url, "upgrade", "head")
    alembic(url, "downgrade", "base")
    assert tables(url) == {"alembic_version"}
    assert rows(url, "SELECT 1 FROM pg_policies") == []
    alembic(url, "upgrade", "head")
    assert tables(url) == set(metadata.tables) | {"alembic_version"}


def test_two_hosts_that_migrate_at_once_both_succeed(url: str) -> None:
    both = [start(url) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(rows(url, "SELECT id FROM installation")) == 1
    assert tables(url) == set(metadata.tables) | {"alembic_version"}


def test_two_installations_are_never_the_same(newest: str, database_url: str) -> None:
    assert set(identity(newest)).isdisjoint(identity(database_url))
