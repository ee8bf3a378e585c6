"""`gpulease-server` chooses the process and says clearly what is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from app.local.ports import LOOPBACK, free_port
from app.prerequisites import ensure_operator_key
from tests.databases import ROOT


def server(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "app.server", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_an_unknown_process_is_refused_with_the_choices() -> None:
    done = server("beat")
    assert done.returncode == 2
    assert "inventory" in done.stderr


def test_arguments_nobody_reads_are_refused() -> None:
    assert server("api", "--reload").returncode == 2


@pytest.mark.parametrize("process", ["api", "worker", "migrate"])
def test_a_wrong_setting_is_one_line_and_exit_code_2(process: str) -> None:
    done = server(process, GPULEASE_PORT="many")
    assert done.returncode == 2
    assert "GPULEASE_PORT" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("process", ["api", "worker", "migrate"])
def test_a_database_that_does_not_answer_is_one_line_and_exit_code_2(process: str) -> None:
    url = f"postgresql://gpulease:a-secret@{LOOPBACK}:{free_port()}/gpulease"
    done = server(process, GPULEASE_DATABASE_URL=url)
    assert done.returncode == 2, done.stderr
    assert "GPULEASE_DATABASE_URL" in done.stderr
    assert "a-secret" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("process", ["worker", "inventory"])
def test_a_broken_accounts_file_is_one_line_and_exit_code_2(process: str, database_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "gpulease.toml"
    broken.write_text("[[accounts]\n")
    done = server(process, GPULEASE_DATABASE_URL=database_url, GPULEASE_CONFIG=str(broken))
    assert done.returncode == 2, done.stderr
    assert str(broken) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_taken_port_is_one_line_and_exit_code_2(database_url: str, taken_port: int) -> None:
    done = server("api", GPULEASE_DATABASE_URL=database_url, GPULEASE_PORT=str(taken_port))
    assert done.returncode == 2, done.stderr
    assert str(taken_port) in done.stderr
    assert "Traceback" not in done.stderr


def test_migrate_passes_further_arguments_to_alembic(database_url: str) -> None:
    done = server("migrate", "current", GPULEASE_DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert row is not None
    assert row[0] in done.stdout


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    assert server("migrate", GPULEASE_DATABASE_URL=database_url).returncode == 0


def test_the_first_operator_key_is_printed_alone_and_works(database_url: str) -> None:
    done = server("operator-key", GPULEASE_DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    key = done.stdout.strip()
    assert key.startswith("gpl_")
    assert ensure_operator_key(database_url, key) == key


def test_a_database_that_cannot_be_used_yet_is_one_line(postgres_server: str) -> None:
    done = server("operator-key", GPULEASE_DATABASE_URL=postgres_server)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_dead_man_switch_takes_arguments_of_its_own() -> None:
    done = server("deadman", "--help")
    assert done.returncode == 0, done.stderr
    assert "--installation" in done.stdout
