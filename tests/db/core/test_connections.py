"""What a process asks of its connections at its start."""

import secrets
from collections.abc import Iterator
from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.db.core.connections import API_SESSION, WORKER_SESSION, DatabaseUnusable, SessionSettings, check_connections
from tests.harness.databases import Databases

SESSIONS = [API_SESSION, WORKER_SESSION]


class Logins:
    """Makes logins of the test's own, as a superuser."""

    def __init__(self, databases: Databases) -> None:
        self._admin = psycopg.connect(databases.owner_url, autocommit=True)
        self._url = databases.owner_url
        self._made: list[str] = []

    def make(self, rights: LiteralString, *groups: str) -> str:
        """The URL of a new login with these attributes and memberships."""
        name, password = f"gpulease_test_login_{secrets.token_hex(4)}", secrets.token_hex(8)
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} {}")
        self._admin.execute(create.format(sql.Identifier(name), sql.Literal(password), sql.SQL(rights)))
        self._made.append(name)
        for group in groups:
            self._admin.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(name)))
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}"))

    def close(self) -> None:
        for name in self._made:
            self._admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
        self._admin.close()


@pytest.fixture
def logins(databases: Databases, database_url: str) -> Iterator[Logins]:
    made = Logins(databases)
    yield made
    made.close()


@pytest.mark.parametrize("settings", SESSIONS, ids=lambda settings: settings.role)
def test_a_login_with_its_group_alone_is_what_is_asked_for(logins: Logins, settings: SessionSettings) -> None:
    url = logins.make("", settings.role)
    login = check_connections(url, settings)
    assert (login.name, login.excess) == (urlsplit(url).username, ())


@pytest.mark.parametrize("right", ["SUPERUSER", "BYPASSRLS", "CREATEDB", "CREATEROLE"])
@pytest.mark.parametrize("settings", SESSIONS, ids=lambda settings: settings.role)
def test_an_attribute_too_many_is_named(logins: Logins, settings: SessionSettings, right: LiteralString) -> None:
    assert check_connections(logins.make(right, settings.role), settings).excess == (right,)


def test_the_other_group_and_the_owner_s_rights_are_named(logins: Logins, database_url: str) -> None:
    both = logins.make("", "gpulease_api", "gpulease_worker")
    assert check_connections(both, API_SESSION).excess == ("member of gpulease_worker",)
    assert check_connections(both, WORKER_SESSION).excess == ("member of gpulease_api",)
    owner = logins.make("", "gpulease_api", str(urlsplit(database_url).username))
    assert "owner of the tables" in check_connections(owner, API_SESSION).excess


@pytest.mark.parametrize("settings", SESSIONS, ids=lambda settings: settings.role)
def test_a_login_outside_the_group_is_told_what_to_grant(logins: Logins, settings: SessionSettings) -> None:
    with pytest.raises(DatabaseUnusable, match=f"GRANT {settings.role} to this login"):
        check_connections(logins.make(""), settings)


def test_a_database_without_the_roles_wants_the_migration(database_url: str) -> None:
    unknown = SessionSettings(role="gpulease_unknown", values={})
    with pytest.raises(DatabaseUnusable, match="run gpulease-server migrate"):
        check_connections(database_url, unknown)
