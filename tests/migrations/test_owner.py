"""The script that makes the database and its owner, run by an administrator who is no superuser, as on managed PostgreSQL."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.local import embedded_postgres
from tests.harness.databases import ROOT

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


def test_the_page_shows_the_script() -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    statements = [line for line in SCRIPT.splitlines() if line.endswith(";")]
    assert len(statements) == 3
    assert all(statement.replace(":'owner_password'", "'…'") in page for statement in statements)
