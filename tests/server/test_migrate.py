"""`gpulease-server migrate` makes the logins of the processes, as an owner who is no superuser."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, LiteralString
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.db.core.connections import (
    API_SESSION,
    WORKER_SESSION,
    DatabaseUnusable,
    SessionSettings,
    check_connections,
)
from app.db.core.logins import ensure_login, login_for, read_cluster
from app.server.main import run
from tests.harness.databases import ROOT

API, WORKER = "GPULEASE_API_PASSWORD", "GPULEASE_WORKER_PASSWORD"
DATABASE = "GPULEASE_DATABASE_URL"
HARD = "p@ss/w:or#d '\"%41"
PASSWORDS = {API: HARD, WORKER: HARD + "2"}
SESSIONS = [API_SESSION, WORKER_SESSION]
STATE: LiteralString = """
    SELECT current_user, current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),
        current_setting('timezone')
"""


@dataclass(frozen=True)
class Place:
    """A database that nothing has been done to yet, and its owner."""

    admin_url: str
    url: str
    name: str

    def login_url(self, suffix: str) -> str:
        """Without a password."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=f"{self.name}_{suffix}_login@{parts.netloc.rpartition('@')[2]}"))

    def open(self, suffix: str, password: str) -> psycopg.Connection:
        return psycopg.connect(self.login_url(suffix), password=password, autocommit=True)

    def administer(self, *statements: str) -> None:
        parts = urlsplit(self.admin_url)
        with psycopg.connect(urlunsplit(parts._replace(path=f"/{self.name}")), autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement.encode())


@contextmanager
def new_place(postgres_server: str) -> Iterator[Place]:
    name, password = f"gpulease_test_{os.getpid()}_{secrets.token_hex(3)}", secrets.token_hex(16)
    role = sql.Identifier(name)
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        create = sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD {}")
        admin.execute(create.format(role, sql.Literal(password)))
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))
        groups = admin.execute(r"SELECT rolname FROM pg_roles WHERE rolname IN ('gpulease_api', 'gpulease_worker')")
        for (group,) in groups.fetchall():
            admin.execute(sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(sql.Identifier(group), role))
    parts = urlsplit(postgres_server)
    url = urlunsplit(parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}", path=f"/{name}"))
    yield Place(postgres_server, url, name)
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(role))
        for one in (f"{name}_api_login", f"{name}_worker_login", name):
            admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(one)))


@pytest.fixture
def place(postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with new_place(postgres_server) as made:
        monkeypatch.setenv(DATABASE, made.url)
        yield made


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, password in PASSWORDS.items():
        monkeypatch.setenv(name, password)


@pytest.fixture(scope="module")
def migrated(postgres_server: str) -> Iterator[Place]:
    """`migrate` made the schema and both logins. Nobody changes them."""
    with new_place(postgres_server) as made, pytest.MonkeyPatch.context() as patch:
        for name, value in {DATABASE: made.url, **PASSWORDS}.items():
            patch.setenv(name, value)
        assert run(["migrate"]) == 0
        patch.undo()
        yield made


def test_each_login_has_its_role_and_time_outs_before_its_first_statement(migrated: Place) -> None:
    with migrated.open("api", HARD) as connection:
        assert connection.execute(STATE).fetchone() == ("gpulease_api", "15s", "30s", "UTC")
    with migrated.open("worker", HARD + "2") as connection:
        assert connection.execute(STATE).fetchone() == ("gpulease_worker", "1min", "30s", "UTC")


@pytest.mark.parametrize(("settings", "suffix", "end"), [(API_SESSION, "api", ""), (WORKER_SESSION, "worker", "2")])
def test_no_login_has_a_right_too_many(migrated: Place, settings: SessionSettings, suffix: str, end: str) -> None:
    url = migrated.login_url(suffix).replace("_login@", f"_login:{quote(HARD + end, safe='')}@")
    assert check_connections(url, settings).excess == ()


def test_the_api_s_login_can_neither_become_a_worker_nor_make_tables(migrated: Place) -> None:
    with migrated.open("api", HARD) as connection:
        for statement in ("SET ROLE gpulease_worker", "CREATE TABLE mine (n int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_a_schema_of_a_later_version_stays_and_the_logins_are_set(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As after a return to the version before: in docker-compose.yml every service waits for this command."""
    assert run(["migrate"]) == 0
    with psycopg.connect(place.url) as owner:
        owner.execute("UPDATE alembic_version SET version_num = '0099_future'")
    monkeypatch.setenv(API, "again")
    capfd.readouterr()
    assert run(["migrate"]) == 0
    assert "the schema is at 0099_future, newer than this version: left as it is\n" in capfd.readouterr().out
    with place.open("api", "again") as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert row == ("0099_future",)


def test_another_password_replaces_the_first_and_none_leaves_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(API, "first")
    assert run(["migrate"]) == 0
    monkeypatch.delenv(API)
    assert run(["migrate"]) == 0
    place.open("api", "first").close()
    (tmp_path / "password").write_text("second\n")
    monkeypatch.setenv(API + "_FILE", str(tmp_path / "password"))
    assert run(["migrate"]) == 0
    place.open("api", "second").close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        place.open("api", "first")
    with pytest.raises(psycopg.OperationalError):
        place.open("worker", "first")


def documented(place: Place, beginning: str) -> list[str]:
    """Statements of docs/running.md that begin so, for the roles of this place."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    found = re.findall(rf"{beginning} [^;`]+", page)
    return [re.sub(r"gpulease(_\w+_login)", rf"{place.name}\1", one).replace("…", "meanwhile") for one in found]


def test_a_password_is_changed_as_documented_and_each_session_begins(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each step, a process of either kind can open a session with the login that it has by then."""
    for name in (API, WORKER):
        monkeypatch.setenv(name, "old")
    assert run(["migrate"]) == 0

    def begin(suffix: str, password: str) -> None:
        for kind, settings in (("api", API_SESSION), ("worker", WORKER_SESSION)):
            url = place.login_url(kind).replace("_login@", f"_login{suffix}:{password}@")
            assert check_connections(url, settings).excess == ()

    begin("", "old")
    creates, drops = documented(place, "CREATE ROLE gpulease_\\w+_login_2"), documented(place, "DROP ROLE")
    assert (len(creates), len(drops)) == (2, 1)
    with psycopg.connect(place.url, autocommit=True) as owner:
        for statement in creates:
            owner.execute(statement.encode())
        for login in (("", "old"), ("_2", "meanwhile")):
            begin(*login)
        for name in (API, WORKER):
            monkeypatch.setenv(name, "new")
        assert run(["migrate"]) == 0
        for login in (("_2", "meanwhile"), ("", "new")):
            begin(*login)
        owner.execute(drops[0].encode())
    begin("", "new")
    with pytest.raises(DatabaseUnusable):
        begin("", "old")


class Recording(psycopg.Cursor[Any]):
    """Keeps every statement that is sent."""

    sent: ClassVar[list[str]] = []

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> "Recording":
        self.sent.append(query.as_string() if isinstance(query, sql.Composable) else str(query))
        super().execute(query, *args, **kwargs)
        return self


def test_no_statement_holds_the_password(migrated: Place) -> None:
    """Statements stand in PostgreSQL's log and in its statistics."""
    with psycopg.connect(migrated.url, cursor_factory=Recording) as connection:
        ensure_login(connection, login_for(read_cluster(connection), API_SESSION, HARD))
    assert [statement for statement in Recording.sent if "SCRAM-SHA-256" in statement]
    assert not [statement for statement in Recording.sent if HARD[:4] in statement]


@pytest.mark.usefixtures("passwords")
def test_an_owner_who_may_make_no_roles_is_told_the_sql_which_then_does_it(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.administer(f'ALTER ROLE "{place.name}" NOCREATEROLE')
    assert run(["migrate"]) == 2
    said = capsys.readouterr().err
    assert HARD not in said
    assert f"there is no role {place.name}_api_login" in said
    script = said.partition("\n\n")[2]
    assert script.count("PASSWORD '…'") == 2
    place.administer(script.replace("'…'", "'set by hand'"))

    assert run(["migrate"]) == 2
    said = capsys.readouterr().err
    assert "password authentication failed" in said
    assert "PASSWORD '…'" in said
    monkeypatch.setenv(API, "set by hand")
    monkeypatch.setenv(WORKER, "set by hand")
    assert run(["migrate"]) == 0
    assert capsys.readouterr().out.count("it works") == 2


@pytest.mark.usefixtures("passwords")
def test_a_database_whose_name_leaves_no_room_for_the_login_s_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "gpulease_" + "x" * 50
    place.administer(f'CREATE DATABASE {name} OWNER "{place.name}"')
    monkeypatch.setenv(DATABASE, urlunsplit(urlsplit(place.url)._replace(path=f"/{name}")))
    assert run(["migrate"]) == 2
    assert "too long" in capsys.readouterr().err
    place.administer(f"DROP DATABASE {name}")
