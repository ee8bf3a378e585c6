"""The script that makes the database and its owner, run by an administrator who is no superuser, as on managed PostgreSQL."""

import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.db.core.connections import API_SESSION, check_connections
from app.local import embedded_postgres
from app.server.main import run
from tests.databases import ROOT, migrate

SCRIPT = (ROOT / "migrations" / "owner.sql").read_text(encoding="utf-8")
PASSWORD = "it's @ /: #1"


@dataclass(frozen=True)
class Administrator:
    """`owner` is the name that the script's owner and database have in this test."""

    url: str
    owner: str

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(embedded_postgres.program("psql")), "--no-psqlrc", self.url],
            input=script.replace("gpulease_owner", self.owner).replace("DATABASE gpulease ", f"DATABASE {self.owner} "),
            env={**os.environ, "OWNER_PASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def administrator(postgres_server: str) -> Iterator[Administrator]:
    name, owner = (f"gpulease_test_{role}_{os.getpid()}_{secrets.token_hex(3)}" for role in ("admin", "owner"))
    parts = urlsplit(postgres_server)
    with psycopg.connect(postgres_server, autocommit=True) as superuser:
        superuser.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE CREATEDB PASSWORD 'x'").format(sql.Identifier(name)))
        yield Administrator(urlunsplit(parts._replace(netloc=f"{name}:x@{parts.netloc.rpartition('@')[2]}")), owner)
        superuser.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(owner)))
        for role in (f"{owner}_api_login", f"{owner}_worker_login", owner, name):
            superuser.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))


def test_an_administrator_who_is_no_superuser_makes_the_database_and_its_owner(administrator: Administrator) -> None:
    done = administrator.run(SCRIPT)
    assert done.returncode == 0, done.stderr
    place = psycopg.conninfo.conninfo_to_dict(administrator.url)
    with psycopg.connect(
        host=place["host"], port=place["port"], dbname=administrator.owner, user=administrator.owner, password=PASSWORD
    ) as connection:
        found = connection.execute("SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = user")
        assert found.fetchone() == (False, True, False)
        assert connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone() == (True,)


def test_without_the_grant_the_database_cannot_be_given_away(administrator: Administrator) -> None:
    done = administrator.run(SCRIPT.replace("GRANT", "-- GRANT"))
    assert done.returncode != 0
    assert "must be" in done.stderr
    assert administrator.owner in done.stderr


def test_a_database_with_one_login_for_all_gets_an_owner_of_its_own(
    administrator: Administrator, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page on upgrades says. The login so far is a superuser, as in compose files before."""
    page = (ROOT / "docs" / "howto" / "upgrade.md").read_text(encoding="utf-8")
    (statements,) = re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    name = administrator.owner
    with psycopg.connect(postgres_server, autocommit=True) as superuser:
        superuser.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    before = urlunsplit(urlsplit(postgres_server)._replace(path=f"/{name}"))
    migrate(before)
    statements = statements.replace("gpulease_owner", name).replace("DATABASE gpulease ", f"DATABASE {name} ")
    with psycopg.connect(before, autocommit=True) as superuser:
        superuser.execute(statements.replace("'…'", "'x'").encode())
        owned = superuser.execute(
            "SELECT count(*) FILTER (WHERE tableowner <> %s), count(*) FROM pg_tables WHERE schemaname = 'public'",
            [name],
        )
        others, tables = owned.fetchone() or (None, None)
    assert others == 0
    assert tables

    place = urlsplit(postgres_server).netloc.rpartition("@")[2]
    monkeypatch.setenv("GPULEASE_DATABASE_URL", f"postgresql://{name}:x@{place}/{name}")
    assert run(["migrate", "downgrade", "-1"]) == 0
    monkeypatch.setenv("GPULEASE_API_PASSWORD", "x")
    monkeypatch.setenv("GPULEASE_WORKER_PASSWORD", "x")
    assert run(["migrate"]) == 0
    login = check_connections(f"postgresql://{name}_api_login:x@{place}/{name}", API_SESSION)
    assert login.excess == ()


def test_the_page_shows_the_script() -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    statements = [line for line in SCRIPT.splitlines() if line.endswith(";")]
    assert len(statements) == 3
    assert all(statement.replace(":'owner_password'", "'…'") in page for statement in statements)
