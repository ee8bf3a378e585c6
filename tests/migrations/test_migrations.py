"""Migrations: up, down, up with data, agreement with the models, and two at once."""

import io
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
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
from tests.databases import ROOT

LEASE = "lease_01jz0000000000000000000001"
DATA: LiteralString = """
    INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds) VALUES ('tenant_1', 'one', 3600, 7200);
    INSERT INTO lease (id, tenant_id, name, request, minimum_claim, expires_at, wait_until, attempts_count)
        VALUES ('lease_01jz0000000000000000000001', 'tenant_1', 'n', '{}', '{}', now(), now(), 1);
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
                         price_per_hour, token, params_hash)
        VALUES ('attempt_1', 'lease_01jz0000000000000000000001', 'tenant_1', 1, 'aws', 'a', 'r', 'z', 't', 'spot', '{}',
                1, 'token', 'h')
"""
LEASES: LiteralString = "SELECT l.id, a.token FROM lease l JOIN attempt a ON a.lease_id = l.id"
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


def test_a_way_back_and_forth_keeps_leases_and_who_we_are(url: str) -> None:
    alembic(url, "upgrade", "head")
    before = identity(url)
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute(DATA)
    alembic(url, "downgrade", "0001")
    alembic(url, "upgrade", "head")
    assert identity(url) == before
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        assert connection.execute(LEASES).fetchall() == [(LEASE, "token")]
    assert (
        len(rows(url, "SELECT 1 FROM pg_class WHERE relforcerowsecurity"))
        == len(rows(url, "SELECT 1 FROM pg_policies WHERE permissive = 'PERMISSIVE'")) / 2
    )


def test_the_words_of_providers_are_taken_out_of_what_tenants_were_told(url: str) -> None:
    alembic(url, "upgrade", "0014")
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute(DATA)
        connection.execute(
            """
            UPDATE lease SET reason = '{"code": "provider_error", "message": "arn:secret", "origin": "provider"}';
            INSERT INTO event (id, tenant_id, type, data) VALUES
                ('event_1', 'tenant_1', 'attempt.refused', '{"n": 1, "error": {"code": "AccessDenied", "message": "arn:secret"}}'),
                ('event_2', 'tenant_1', 'lease.failed', '{"reason": {"origin": "provider", "message": "arn:secret"}}'),
                ('event_3', 'tenant_1', 'lease.released', '{"reason": {"origin": "user", "message": "released"}}')
            """
        )
    alembic(url, "upgrade", "head")
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        told = connection.execute("SELECT data::text FROM event ORDER BY id").fetchall()
        reasons = connection.execute("SELECT reason ->> 'message', reason ->> 'provider_message' FROM lease").fetchall()
    assert "secret" not in str(told)
    assert "AccessDenied" in told[0][0]
    assert "released" in told[2][0]
    assert reasons == [("the provider's answer is kept for operators", "arn:secret")]
    alembic(url, "downgrade", "0014")
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        before = connection.execute("SELECT reason ->> 'message', reason ->> 'provider_message' FROM lease").fetchall()
    assert before == [("arn:secret", None)]


def test_live_leases_that_share_a_name_keep_it_and_the_oldest_holds_it(url: str) -> None:
    alembic(url, "upgrade", "0019")
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute(DATA)
        connection.execute(
            """
            INSERT INTO lease (id, tenant_id, name, request, minimum_claim, created_at, expires_at, wait_until)
            SELECT 'lease_' || n, tenant_id, 'twice', request, minimum_claim, now() + n * interval '1 s', expires_at, wait_until
            FROM lease, generate_series(1, 3) n
            """
        )
    alembic(url, "upgrade", "head")
    held = rows_of_worker(url, "SELECT id, unique_name FROM lease WHERE name = 'twice' ORDER BY created_at")
    assert held == [("lease_1", True), ("lease_2", None), ("lease_3", None)]
    alembic(url, "downgrade", "0019")
    assert len(rows_of_worker(url, "SELECT id FROM lease WHERE name = 'twice'")) == 3


def rows_of_worker(url: str, query: LiteralString) -> list[Any]:
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        return connection.execute(query).fetchall()


DRIFT: LiteralString = """
    INSERT INTO quota (tenant_id, resource, "limit", used) VALUES ('tenant_1', 'gpus', 8, 1), ('tenant_1', 'leases', 8, 1);
    INSERT INTO quota_claim (lease_id, tenant_id, resource, amount)
        VALUES ('lease_01jz0000000000000000000001', 'tenant_1', 'gpus', 4)
"""
USED: LiteralString = "SELECT resource, used::int FROM quota ORDER BY resource"


def test_a_count_of_quota_that_an_earlier_version_left_wrong_is_put_right(url: str) -> None:
    revision = ScriptDirectory(str(ROOT / "migrations")).get_revision("0012")
    assert revision is not None
    alembic(url, "upgrade", str(revision.down_revision))
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute(DATA)
        connection.execute(DRIFT)
    alembic(url, "upgrade", "head")
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        assert connection.execute(USED).fetchall() == [("gpus", 4), ("leases", 0)]
    forced = "SELECT relname FROM pg_class WHERE relname LIKE 'quota%' AND relkind = 'r' AND relforcerowsecurity"
    assert sorted(rows(url, forced)) == [("quota",), ("quota_claim",)]


def test_two_hosts_that_migrate_at_once_both_succeed(url: str) -> None:
    both = [start(url) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(rows(url, "SELECT id FROM installation")) == 1
    assert tables(url) == set(metadata.tables) | {"alembic_version"}


def test_two_installations_are_never_the_same(newest: str, database_url: str) -> None:
    assert set(identity(newest)).isdisjoint(identity(database_url))
