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
from tests.databases import ROOT, Databases

PAGE = (ROOT / "docs" / "howto" / "backup.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
DATA: LiteralString = (
    "INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds) VALUES ('tenant_1', 'one', 3600, 7200)"
)
ROWS: LiteralString = r"""
    SELECT (SELECT array_agg(name) FROM tenant), (SELECT count(*) FROM pg_policies),
        (SELECT count(*) FROM information_schema.role_table_grants WHERE grantee LIKE 'gpulease\_api')
"""


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


def test_a_restored_back_up_has_every_row_and_rule(
    database_url: str, databases: Databases, empty_database: str, tmp_path: Path
) -> None:
    back_up, restore = (commands for _, commands in BLOCK.findall(PAGE))
    with psycopg.connect(databases.owner_url, autocommit=True) as connection:
        connection.execute(DATA)
        before = connection.execute(ROWS).fetchone()
    assert before is not None
    assert before[0] == ["one"]
    assert min(before[1:]) > 0

    # without what these tests keep beside the program's tables
    refused = typed(back_up.replace("pg_dump", "pg_dump --schema=public"), tmp_path, ADMIN_URL=database_url)
    assert "row-level security" in refused.stderr
    saved = typed(back_up, tmp_path, ADMIN_URL=databases.owner_url)
    assert saved.returncode == 0, saved.stderr

    owner = urlunsplit(urlsplit(database_url)._replace(path=urlsplit(empty_database).path))
    restored = typed(restore, tmp_path, ADMIN_URL=empty_database, GPULEASE_DATABASE_URL=owner)
    assert restored.returncode == 0, restored.stderr
    with psycopg.connect(empty_database) as connection:
        assert connection.execute(ROWS).fetchone() == before
