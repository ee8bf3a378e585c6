"""`gpulease-server` chooses the process and says clearly what is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from app.local.ports import LOOPBACK, free_port
from app.prerequisites import ensure_operator_key
from app.server.main import run
from tests.harness.databases import ROOT

DATABASE = "GPULEASE_DATABASE_URL"


def server(*arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code and stderr of a process of its own."""
    argv = [sys.executable, "-m", "app.server", *arguments]
    env = {**os.environ, **environment}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [["beat"], ["api", "--reload"]])
def test_what_cannot_be_run_is_refused_with_the_choices(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code == 2
    assert "inventory" in capsys.readouterr().err


@pytest.mark.parametrize("process", ["api", "worker"])
def test_a_wrong_setting_is_one_line_and_exit_code_2(process: str) -> None:
    code, said = server(process, GPULEASE_PORT="many")
    assert code == 2
    assert "GPULEASE_PORT" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("network", ["10.0.0.0/33", "10.0.0.1/8", "proxy.example.org", "10.0.0.0/8,*"])
def test_a_proxy_network_that_is_none_stops_the_start(
    network: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPULEASE_TRUSTED_PROXIES", network)
    assert run(["api"]) == 2
    said = capsys.readouterr().err
    assert "GPULEASE_TRUSTED_PROXIES" in said
    assert network.rpartition(",")[2] in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("process", ["api", "worker"])
def test_a_database_that_does_not_answer_is_one_line_and_exit_code_2(process: str) -> None:
    url = f"postgresql://gpulease:a-secret@{LOOPBACK}:{free_port()}/gpulease"
    code, said = server(process, **{DATABASE: url, "GPULEASE_PORT": str(free_port())})
    assert code == 2, said
    assert DATABASE in said
    assert "a-secret" not in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("process", ["migrate", "operator-key", "deadman-key", "keys", "bad-gpus"])
def test_without_a_database_nothing_is_prepared(
    process: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE, f"postgresql://gpulease:a-secret@{LOOPBACK}:{free_port()}/gpulease")
    assert run([process]) == 2
    said = capsys.readouterr().err
    assert DATABASE in said
    assert "a-secret" not in said
    assert len(said.strip().splitlines()) == 1


def test_a_broken_accounts_file_is_one_line_and_exit_code_2(database_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "gpulease.toml"
    broken.write_text("[[accounts]\n")
    code, said = server("inventory", **{DATABASE: database_url, "GPULEASE_CONFIG": str(broken)})
    assert code == 2, said
    assert str(broken) in said
    assert len(said.strip().splitlines()) == 1


def test_a_taken_port_is_one_line_and_exit_code_2(database_url: str, taken_port: int) -> None:
    code, said = server("api", **{DATABASE: database_url, "GPULEASE_PORT": str(taken_port)})
    assert code == 2, said
    assert str(taken_port) in said
    assert "Traceback" not in said


def test_migrating_twice_changes_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATABASE, database_url)
    assert run(["migrate"]) == 0


def test_further_arguments_of_migrate_are_alembics(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["migrate", "sideways"])
    assert ended.value.code == 2
    assert "downgrade" in capsys.readouterr().err


def test_the_first_operator_key_is_printed_alone_and_works(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE, database_url)
    assert run(["operator-key"]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("gpl_")
    assert ensure_operator_key(database_url, key) == key


def test_a_dead_mans_key_is_printed_alone_and_is_no_operators(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE, database_url)
    assert run(["deadman-key"]) == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("gpl_")
    assert ensure_operator_key(database_url, key) != key


def test_keys_that_belong_to_no_tenant_are_listed_without_their_secrets(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE, database_url)
    secrets = []
    for process in ("operator-key", "deadman-key", "operator-key"):
        assert run([process]) == 0
        secrets.append(capsys.readouterr().out.strip())
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE api_key SET last_used_at = now() WHERE role = 'deadman'")
        connection.execute("UPDATE api_key SET revoked_at = now() WHERE id = (SELECT min(id) FROM api_key)")
    assert run(["keys"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split("\t") for line in shown.splitlines()]
    assert [line[1] for line in lines] == ["operator", "deadman"], "the newest first, none that is revoked"
    assert [line[3] == "-" for line in lines] == [True, False]
    assert not any(secret in shown for secret in secrets)


def test_broken_gpus_are_listed_and_forgotten(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE, database_url)
    columns = "uuid, tenant_id, provider, account, region, zone, instance_type, finding, first_seen_at, last_seen_at"
    row = "'aws', 'main', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'xid_79', now(), now()"
    with psycopg.connect(database_url) as connection:
        for uuid, tenant in (("GPU-1", "tenant_a"), ("GPU-1", "tenant_b"), ("GPU-2", "tenant_a")):
            connection.execute(f"INSERT INTO bad_gpu ({columns}) VALUES (%s, %s, {row})", (uuid, tenant))
    assert run(["bad-gpus"]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["GPU-1", "GPU-1", "GPU-2"]
    assert run(["bad-gpus", "GPU-1", "GPU-unknown"]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["GPU-2"]
    with psycopg.connect(database_url) as connection:
        audited = connection.execute("SELECT role, target FROM audit WHERE action = 'bad_gpu.forget'").fetchall()
    assert audited == [("system", "GPU-1")]


def test_a_database_that_cannot_be_used_yet_is_one_line(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DATABASE, postgres_server)
    assert run(["operator-key"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_dead_man_switch_takes_arguments_of_its_own() -> None:
    argv = [sys.executable, "-m", "app.server", "deadman", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--installation" in done.stdout


@pytest.mark.parametrize("process", ["worker", "inventory"])
def test_without_an_accounts_file_no_account_is_drained(process: str, database_url: str) -> None:
    """An account that is not in the file is draining for all processes, and the others have the file."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO account (name, provider, config) VALUES ('main', 'aws', '{}')")
        code, said = server(process, **{DATABASE: database_url})
        states = connection.execute("SELECT state FROM account").fetchall()
    assert code == 2
    assert "GPULEASE_CONFIG" in said
    assert [state for (state,) in states] != ["draining"]
