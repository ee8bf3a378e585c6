"""What runbooks and the pages on operation tell an operator to type works as written, against an API with a lease."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from app.cli.main import app as cli
from app.observability.installation_metrics import DATABASE_UP, FAMILIES
from app.observability.metrics import ApiMetrics
from tests.api.conftest import MakeSettings
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running, running
from tests.house.sources import ROOT
from workers.runtime.metrics import WorkerMetrics

RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
PAGES = [*RUNBOOKS, *(ROOT / "docs" / "howto" / f"{name}.md" for name in ("backup", "upgrade", "deploy", "reconcile"))]
COMMAND = re.compile(r"`gpulease ((?!deadman)[a-z][^`…]*)`")
SQL = re.compile(r"^ *```sql\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CLUSTER = re.compile(r"CREATE (ROLE|DATABASE)")
"""Statements about the whole server. `tests/migrations/test_owner.py` and `tests/server/test_migrate.py` run them."""


def commands() -> list[str]:
    """Each once, those that allow launches again last."""
    found = {command for page in PAGES for command in COMMAND.findall(page.read_text(encoding="utf-8"))}
    return sorted(found, key=lambda one: ("allow" in one or "--off" in one, one))


def statements() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in SQL.findall(page.read_text(encoding="utf-8")):
            if not CLUSTER.search(block):
                yield page, block


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_each_command_does_what_its_page_says(
    make_settings: MakeSettings, database_url: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = commands()
    assert "ops summary" in shown
    assert "ops launches allow" in shown
    async with running(make_settings, database_url) as api:
        lease_id = await _lease(api, fleet)
        for command in shown:
            words = command.replace("LEASE", lease_id).replace("ACCOUNT", "main").split()
            caller = api.operator if words[0] == "ops" else api.alice
            environment = {"GPULEASE_URL": api.url, "GPULEASE_KEY": caller.key, "HOME": str(tmp_path), "COLUMNS": "200"}
            done = await asyncio.to_thread(CliRunner(env=environment).invoke, cli, words)
            assert done.exit_code == 0, f"{command}: {done.output}"
        brakes = (await api.operator.get("/v1/ops/summary")).json()
        assert (brakes["brakes"]["launches_stopped"], brakes["active_brakes"]) == (None, [])


async def _lease(api: Running, fleet: Fleet) -> str:
    made = await api.alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    assert made.status_code == 201, made.text
    lease_id = str(made.json()["id"])
    fleet.activate(lease_id)
    return lease_id


def test_each_statement_runs(database_url: str, fleet: Fleet) -> None:
    ran = 0
    for page, statement in statements():
        with psycopg.connect(fleet.url) as owner:
            try:
                owner.execute(statement.encode())
            except psycopg.Error as error:
                pytest.fail(f"{page.name}: {error}")
            owner.rollback()
        ran += 1
    assert ran >= 3


def test_each_metric_that_a_runbook_names_exists() -> None:
    known = {one.name for one in (DATABASE_UP, *FAMILIES)}
    for registry in (ApiMetrics().registry, WorkerMetrics().registry):
        known |= {name for names in registry._collector_to_names.values() for name in names}
    for page in RUNBOOKS:
        named = set(re.findall(r"`(gpulease_[a-z_]+)(?:\{[^`]*)?`", page.read_text(encoding="utf-8")))
        assert named <= known | {"gpulease_api", "gpulease_worker", "gpulease_owner"}, page.name
