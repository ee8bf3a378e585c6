"""The page on back-ups: its commands, as they stand, bring every row back."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from app.local import embedded_postgres
from tests.harness.databases import ROOT, Databases

PAGE = (ROOT / "docs" / "howto" / "backup.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
DATA: LiteralString = """
    INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds) VALUES ('tenant_1', 'one', 3600, 7200);
    INSERT INTO lease (id, tenant_id, name, request, minimum_claim, expires_at, wait_until, attempts_count, events_count)
        VALUES ('lease_01jz0000000000000000000001', 'tenant_1', 'n', '{}', '{}', now(), now(), 1, 1);
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
                         price_per_hour, token, params_hash)
        VALUES ('attempt_1', 'lease_01jz0000000000000000000001', 'tenant_1', 1, 'aws', 'a', 'r', 'z', 't', 'spot', '{}',
                1, 'token', 'h');
    INSERT INTO event (id, tenant_id, lease_id, lease_sequence, type, data)
        VALUES ('event_1', 'tenant_1', 'lease_01jz0000000000000000000001', 1, 't', '{}');
    INSERT INTO lease_group (id, tenant_id, name, size, min_size, lease, placement, interconnect, form_seconds, on_member_loss,
                             wait_until)
        VALUES ('group_1', 'tenant_1', 'g', 2, 1, '{}', 'any', 'none', 600, 'replace', now());
    INSERT INTO budget (id, tenant_id, kind, period, period_started_at, amount, thresholds, when_exceeded, set_by)
        VALUES ('budget_1', 'tenant_1', 'tenant', 'lifetime', now(), 100, '[50]', 'refuse', 'admin');
    INSERT INTO idempotency (scope, key, route, body_hash, status, response)
        VALUES ('tenant_1', 'k', 'r', '', 201, '{"id": "lease_01jz0000000000000000000001"}');
    INSERT INTO quota_claim (lease_id, resource, tenant_id, amount)
        VALUES ('lease_01jz0000000000000000000001', 'gpus', 'tenant_1', 1)
"""
FILLED = ("tenant", "lease", "attempt", "event", "installation", "lease_group", "budget", "idempotency", "quota_claim")
RULES: LiteralString = r"""
    SELECT (SELECT array_agg(format('%s %s %s %s', tablename, policyname, roles, qual) ORDER BY tablename, policyname) FROM pg_policies),
        (SELECT array_agg(format('%s %s', relname, relacl) ORDER BY relname) FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')),
        (SELECT array_agg(format('%s %s', sequencename, last_value) ORDER BY sequencename) FROM pg_sequences
            WHERE schemaname = 'public')
"""


def everything(admin_url: str) -> dict[str, object]:
    """Every row, policy, grant and position of a sequence."""
    with psycopg.connect(admin_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        statement = sql.SQL("SELECT t::text FROM {} t ORDER BY 1")
        rows = {name: connection.execute(statement.format(sql.Identifier(name))).fetchall() for (name,) in tables}
        return {**rows, "rules": connection.execute(RULES).fetchone()}


@pytest.fixture
def empty_database(database_url: str, databases: Databases) -> Iterator[str]:
    """The superuser's URL of another database on the same server, owned by the same role."""
    name = f"gpulease_test_restored_{secrets.token_hex(3)}"
    owner = urlsplit(database_url).username
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        make = sql.SQL("CREATE DATABASE {} OWNER {}")
        connection.execute(make.format(sql.Identifier(name), sql.Identifier(str(owner))))
        yield urlunsplit(urlsplit(databases.owner_url)._replace(path=f"/{name}"))
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def typed(commands: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    programs = [str(embedded_postgres.program("pg_dump").parent), str(Path(sys.executable).parent)]
    path = os.pathsep.join([*programs, os.environ.get("PATH", os.defpath)])
    argv = ["/bin/sh", "-eu", "-c", commands]
    env = {**os.environ, **environment, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_back_up_without_a_superuser_brings_every_row_and_rule_back(
    database_url: str, databases: Databases, empty_database: str, tmp_path: Path
) -> None:
    back_up, restore = (commands for _, commands in BLOCK.findall(PAGE))
    # without what these tests keep beside the program's tables
    back_up = back_up.replace("pg_dump", "pg_dump --exclude-schema='seed*'")
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(DATA)
    before = everything(databases.owner_url)
    assert all(before[table] for table in FILLED)

    saved = typed(back_up, tmp_path, OWNER_URL=database_url)
    assert saved.returncode == 0, saved.stderr
    owner = urlunsplit(urlsplit(database_url)._replace(path=urlsplit(empty_database).path))
    restored = typed(restore, tmp_path, OWNER_URL=owner, GPULEASE_DATABASE_URL=owner)
    assert restored.returncode == 0, restored.stderr
    assert everything(empty_database) == before


def test_without_row_security_the_back_up_is_refused(database_url: str, tmp_path: Path) -> None:
    back_up = BLOCK.findall(PAGE)[0][1].replace("pg_dump", "pg_dump --exclude-schema='seed*'")
    refused = typed(back_up.replace("--enable-row-security", ""), tmp_path, OWNER_URL=database_url)
    assert refused.returncode != 0
    assert "row-level security" in refused.stderr
