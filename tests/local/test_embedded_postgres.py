"""The embedded PostgreSQL: what is promised to the stack and to the tests."""

import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psycopg
import pytest

from app.local import embedded_postgres as postgres
from app.local.embedded_postgres import EmbeddedCluster, PostgresError
from app.local.ports import free_port

FOR_TESTS = {**postgres.SETTINGS, **postgres.FORGETFUL}


@contextmanager
def open_folder() -> Iterator[Path]:
    """Outside pytest's own folders: those may be closed, by another run of the same person's, to PostgreSQL's user."""
    with tempfile.TemporaryDirectory(prefix="gpulease-pg-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """A running server for tests that change nothing in it."""
    with open_folder() as folder, postgres.running(cluster_in(folder)) as running:
        yield running


def cluster_in(folder: Path) -> EmbeddedCluster:
    return EmbeddedCluster(folder / "data", free_port(), secrets.token_hex(8), FOR_TESTS)


async def test_both_drivers_connect_with_the_same_url(cluster: EmbeddedCluster) -> None:
    with psycopg.connect(cluster.url()) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("gpulease",)
    asynchronous = await asyncpg.connect(cluster.url())
    assert await asynchronous.fetchval("SELECT current_database()") == "gpulease"
    await asynchronous.close()


def test_data_survive_a_restart_and_the_role_is_no_superuser(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    with postgres.running(cluster), psycopg.connect(cluster.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    with postgres.running(cluster), psycopg.connect(cluster.url()) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
        role = connection.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
        assert role == (False, False)


def test_a_very_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 80) / ("e" * 80)
    deep.mkdir(parents=True)
    with postgres.running(cluster_in(deep)) as cluster:
        assert postgres.answers(cluster.url())


def test_half_an_initialisation_is_started_over(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    half = cluster.data_dir.with_name("data.new")
    half.mkdir()
    (half / "PG_VERSION").write_text("nonsense")
    with postgres.running(cluster):
        assert not half.exists()


def test_a_wrong_password_is_refused(cluster: EmbeddedCluster) -> None:
    wrong = EmbeddedCluster(cluster.data_dir, cluster.port, "wrong")
    assert not postgres.answers(wrong.url())
    assert postgres.answers(cluster.url())


def test_a_taken_port_is_reported_with_what_the_server_said(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    second = EmbeddedCluster(tmp_path / "other", cluster.port, "x", FOR_TESTS)
    with pytest.raises(PostgresError, match="Address already in use"), postgres.running(second):
        raise AssertionError


def test_the_password_shows_neither_in_the_process_list_nor_in_repr(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    assert cluster.password not in subprocess.list2cmdline(cluster.argv())
    assert cluster.password not in repr(cluster)
