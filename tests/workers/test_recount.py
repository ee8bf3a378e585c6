"""The periodic check of the invariants: what it finds is kept, and breaking and mending are told once each."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import select, text

from app.db.operations.invariants import CHECKS, NOTED, note
from app.db.schema.tables import audit, invariant
from tests.db.store import Store
from workers.jobs.housekeeping import recount
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

DRIFT = "used equals the claims"


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=2)
    yield Store(database)
    database.close()


def check(store: Store) -> int:
    return recount(cast(Runtime, SimpleNamespace(database=store.database)))


def noted(store: Store) -> dict[str, Any]:
    return {row.name: row for row in store.all(NOTED)}


def alarms(store: Store) -> list[tuple[str, str]]:
    return [(row.action, row.target) for row in store.all(select(audit).order_by(audit.c.id))]


def test_while_all_is_well_each_check_is_noted_and_nothing_is_told(store: Store) -> None:
    assert check(store) == 0
    found = noted(store)
    assert set(found) == {one.name for one in CHECKS}
    assert all((row.violations, row.examples, row.since) == (0, [], None) for row in found.values())
    assert alarms(store) == []


def test_a_break_and_its_end_are_told_once_each(store: Store) -> None:
    tenant_id = store.tenant(gpus=8)
    store.run(text("UPDATE quota SET used = used + 1"))
    assert [check(store), check(store)] == [1, 1]
    broken = noted(store)[DRIFT]
    assert broken.violations == 1
    assert broken.since < broken.checked_at
    assert (broken.examples[0]["tenant_id"], broken.examples[0]["resource"]) == (tenant_id, "gpus")
    assert alarms(store) == [("invariant.broken", DRIFT)]
    store.run(text("UPDATE quota SET used = used - 1"))
    assert check(store) == 0
    assert noted(store)[DRIFT].since is None
    assert alarms(store) == [("invariant.broken", DRIFT), ("invariant.holds", DRIFT)]


def test_a_few_examples_are_kept_and_a_check_that_is_no_more_is_forgotten(store: Store) -> None:
    store.run(note({"old": [], "new": [{"id": number} for number in range(9)]}))
    store.run(note({"new": [{"id": number} for number in range(9)]}))
    [kept] = store.all(select(invariant))
    assert (kept.name, kept.violations, kept.examples) == ("new", 9, [{"id": 0}, {"id": 1}, {"id": 2}])
    assert json.dumps(kept.examples)
