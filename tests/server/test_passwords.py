"""Passwords of any characters: in a variable or a file of their own, or percent-encoded in the URL."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.db.core.connections import WORKER_SESSION, check_connections
from app.db.core.engine import ApiDatabase
from app.settings import StartupError, load_settings
from tests.harness.databases import Databases

HARD = "a@b/c:d#e?f%41g&h=i j'k\"l\\m[n]ü"
URL = "postgresql://gpulease@127.0.0.1:5432/gpulease"


@pytest.fixture
def login(databases: Databases, database_url: str) -> Iterator[str]:
    """The URL, without a password, of a worker's and an API's login whose password is HARD."""
    name = sql.Identifier(f"gpulease_test_login_{secrets.token_hex(4)}")
    parts = urlsplit(database_url)
    with psycopg.connect(databases.owner_url, autocommit=True) as admin:
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE gpulease_api, gpulease_worker")
        admin.execute(create.format(name, sql.Literal(HARD)))
        yield urlunsplit(parts._replace(netloc=f"{name.as_string(admin)[1:-1]}@{parts.netloc.rpartition('@')[2]}"))
        admin.execute(sql.SQL("DROP ROLE {}").format(name))


async def test_a_password_of_any_characters_opens_the_database_in_each_way(login: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(HARD + "\n", encoding="utf-8")
    in_url = login.replace("@127", f":{quote(HARD, safe='')}@127")
    for settings in (
        load_settings(database_url=login, database_password=HARD),
        load_settings(database_url=login, database_password_file=file),
        load_settings(database_url=in_url),
    ):
        assert check_connections(settings.database_url, WORKER_SESSION).name == urlsplit(login).username
        database = ApiDatabase(settings.database_url, pool_size=1)
        async with database.transaction(None):
            pass
        await database.close()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"database_url": "postgresql://gpulease:se@cret@127.0.0.1/gpulease"}, "GPULEASE_DATABASE_PASSWORD"),
        ({"database_url": "postgresql://gpulease:secret@h/g", "database_password": "secret"}, "twice"),
        ({"database_url": "postgresql://127.0.0.1/g", "database_password": "secret"}, "names no user"),
        ({"database_url": URL, "database_password": "a", "database_password_file": "/nowhere"}, "twice"),
        ({"database_url": URL, "database_password_file": "/nowhere/secret"}, "GPULEASE_DATABASE_PASSWORD_FILE"),
        ({"database_url": URL, "database_password_file": "/dev/null"}, "is empty"),
    ],
)
def test_a_password_that_cannot_be_meant_is_refused_without_a_word_of_it(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(StartupError, match=complaint) as refused:
        load_settings(**given)
    assert "cret" not in str(refused.value).replace("/nowhere/secret", "")


def test_a_password_is_not_shown_by_the_settings() -> None:
    shown = repr(load_settings(database_url=URL, api_password="secret-1", worker_password="secret-2"))
    assert "secret" not in shown


def test_an_empty_variable_is_no_password() -> None:
    assert load_settings(database_url=URL, database_password="").database_url == URL
