"""A report answers what was true at one moment: whatever is committed while it is read is in all of its parts or in none."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from sqlalchemy import text

from app.domain.usage import UsageStep
from app.services.money import usage
from app.services.ttl_cache import TtlCache
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.interleaving import answers_around, watch, watched
from tests.api.test_costs import clock, of, store
from tests.api.test_ops import orphan
from tests.db.store import Store
from tests.db.usage.histories import Billed, add, end
from tests.security.routes import OPERATIONS
from tests.security.victim import make_victim
from workers.jobs.record_usage import record_usage
from workers.jobs.roll_up_usage import roll_up_usage
from workers.runtime.runtime import Runtime

__all__ = ["store", "watch"]  # fixtures

HOUR = timedelta(hours=1)
pytestmark = pytest.mark.usefixtures("watch")

SEVERAL = {
    "export_focus": "a slow reader holds no transaction open; records never change, and a correction is a row of its own",
    "list_group_events": "the first read only tells whether the group exists",
    "get_readiness": "each check stands for itself; a transaction of one snapshot could not show that it may write",
    "get_ops_summary": "what was is read less often than what is, and the sum goes on at the present rate",
}
"""Reads of more than one snapshot, and why their parts may be of different moments."""
OF_AGENTS = {operation.id for operation in OPERATIONS if operation.of_agent}
"""Tests of their own call them: they need the token of a VM."""


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_each_answer_is_of_one_snapshot(
    operator: Caller, alice: Caller, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new route that reads twice fails here until it reads in one transaction, or says above why not."""
    # on a busy machine what is kept would turn old between two calls
    monkeypatch.setattr(TtlCache, "_fresh", lambda cache: cache._known)
    monkeypatch.setattr(operator.app.state.services.authenticator, "_clock", lambda: 0.0)
    victim = await make_victim(alice, fleet)
    orphan(fleet, "i-1")
    (row,) = fleet.run("SELECT id FROM orphan")
    ids = {**victim.ids, "account": "main", "name": "main", "region": "us-east-1", "orphan_id": row["id"]}
    several = {}
    reads = [operation for operation in OPERATIONS if operation.method == "GET" and operation.id not in OF_AGENTS]
    for operation in reads:
        caller = operator if operation.role in {"operator", "deadman"} else alice
        await caller.get(operation.url(ids), params=operation.page(50))  # reads what is kept for later calls
        with watched() as seen:
            answer = await caller.get(operation.url(ids), params=operation.page(50))
        assert answer.status_code == 200, (operation.id, answer.text)
        if len(seen.snapshots) > 1:
            several[operation.id] = [" ".join(sql.split())[:60] for sql in seen.snapshots]
    assert {name: parts for name, parts in several.items() if name not in SEVERAL} == {}


class Once:
    """The signal to stop of a job that does one piece of work."""

    def __init__(self) -> None:
        self._asked = False

    def is_set(self) -> bool:
        asked, self._asked = self._asked, True
        return asked


def runtime(store: Store) -> Runtime:
    class Settings:
        sample_seconds = 60
        lease_retention_days = 90

    class Runs:
        database = store.database
        stopping = Once()
        settings = Settings()

    return cast(Runtime, Runs())


def machine(store: Store, began: datetime, hours: int, price: str) -> str:
    one = Billed(began, hours * HOUR, Decimal(price), disk=Decimal("0.5"), address=Decimal("0.25"))
    attempt_id = add(store, one)
    end(store, attempt_id, one.ended)
    return attempt_id


def without_clock(found: Any) -> Any:
    """An answer without what only the clock changes."""
    if isinstance(found, dict):
        return {name: without_clock(value) for name, value in found.items() if name not in {"as_of", "exhausted_at"}}
    return [without_clock(value) for value in found] if isinstance(found, list) else found


async def assert_whole(read: Callable[[], Awaitable[Any]], write: Callable[[], None]) -> list[Any]:
    """Returns the answers before each change, and the last one."""
    answers = [tuple(map(without_clock, around)) for around in await answers_around(read, write)]
    mixed = [
        (place, between)
        for place, (*ends, between) in enumerate((b, a, m) for b, m, a in answers)
        if between not in ends
    ]
    assert mixed == []
    return [*(before for before, _, _ in answers), answers[-1][2]]


HOURS = 40
COSTS: dict[str, tuple[str, dict[str, str]]] = {
    "costs": ("/v1/costs", {"bucket": "day"}),
    "costs by hour": ("/v1/costs", {"bucket": "hour", "group_by": "tenant"}),
    "costs by lease": ("/v1/costs", {"group_by": "lease"}),
    "costs of months": ("/v1/costs", {"bucket": "month", "group_by": "label:team"}),
    "forecast": ("/v1/forecast", {}),
    "summary": ("/v1/summary", {}),
    "usage": ("/v1/usage", {"step": "day", "group_by": "tenant"}),
    "usage by hour": ("/v1/usage", {"step": "hour"}),
}


@pytest.mark.parametrize("report", COSTS)
async def test_an_hour_that_is_closed_meanwhile_counts_once(
    alice: Caller, store: Store, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    path, query = COSTS[report]
    began = UsageStep.HOUR.floor(clock(store)) - HOURS * HOUR
    machine(of(store, alice), began, HOURS - 3, "3")
    monkeypatch.setattr(usage, "_REMEMBERED", 0)  # a report of usage that is kept is of one moment in any case

    async def read() -> Any:
        answer = await alice.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close() -> None:
        record_usage(runtime(store), "", "")
        roll_up_usage(runtime(store), "", "")

    answers = await assert_whole(read, close)
    if report != "usage":
        assert all(answer == answers[0] for answer in answers), "closing an hour changes no sum"


async def test_a_change_of_money_is_in_all_parts_or_in_none(alice: Caller, store: Store) -> None:
    """One commit bills another lease, in the stored sums and in the open hours, and in the budget that counts it."""
    now = clock(store)
    budget = (
        await alice.post("/v1/budgets", json={"scope": {"kind": "tenant"}, "period": "month", "amount": "9000"})
    ).json()
    machine(of(store, alice), now - 30 * HOUR, 20, "2")

    def bill() -> None:
        with store.database.begin() as connection:
            attempt = connection.execute(text("SELECT id, lease_id FROM attempt LIMIT 1")).one()
            connection.execute(
                text("UPDATE attempt SET price_per_hour = price_per_hour + 1 WHERE id = :id"), {"id": attempt.id}
            )
            connection.execute(
                text(
                    "UPDATE lease SET rate_per_hour = coalesce(rate_per_hour, 0) + 1, rate_since = now() WHERE id = :id"
                ),
                {"id": attempt.lease_id},
            )
            connection.execute(
                text("UPDATE quota SET spent = coalesce(spent, 0) + 5 WHERE resource = :resource"),
                {"resource": f"budget:{budget['id']}"},
            )

    for path, query in COSTS.values():

        async def read(path: str = path, query: dict[str, str] = query) -> Any:
            answer = await alice.get(path, params=query)
            assert answer.status_code == 200, answer.text
            return answer.json()

        answers = await assert_whole(read, bill)
        assert path == "/v1/usage" or answers[0] != answers[-1], path
