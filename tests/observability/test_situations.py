"""No situation without a word: each is caused, and every view must say its name in time."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from app.db.core import api_errors, server_state
from app.db.fleet.jobs import DEADMAN
from app.domain.brakes import BrakeName
from app.domain.error_kinds import ErrorKind
from app.observability import installation_metrics
from tests.house.sources import ROOT
from tests.observability.night import ALERTS, MEASURES, VIEWS, Dashboard, Given, Night, Seen, night_of
from tests.observability.promql import evaluate
from tests.observability.situations import ALSO, ERRORS, PROCESSES, SITUATIONS, STATES, Situation, table
from tests.workers.conftest import accounts_folder, failing, found_once, kept_view, make_fleet, sim, virtual_time
from tests.workers.failing import Failing
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import VirtualTime, virtual

__all__ = ["accounts_folder", "failing", "found_once", "kept_view", "make_fleet", "sim", "virtual_time"]
"""The fixtures of workers."""


@pytest.fixture
def worker_settings(database_url: str, broker_url: str) -> dict[str, object]:
    """The times of an installation."""
    return {
        "agent": "off",
        "provider_rate_limits": False,
        "database_url": virtual(database_url),
        "broker_url": broker_url,
    }


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Dashboard]:
    made = Dashboard()
    yield made
    made.close()


@pytest.fixture
async def night(
    database_url: str,
    broker_url: str,
    make_fleet: Callable[..., Fleet],
    failing: Failing,
    virtual_time: VirtualTime,
    dashboard: Dashboard,
    tmp_path: Path,
) -> AsyncIterator[Night]:
    given = Given(
        broker_url=broker_url,
        make_fleet=make_fleet,
        failing=failing,
        clock=virtual_time,
        dashboard=dashboard,
        folder=tmp_path,
    )
    async with night_of(database_url, given) as made:
        yield made


def said(situation: Situation, seen: Seen) -> dict[str, bool]:
    """By view: whether it says the name now."""
    words = {view: situation.elsewhere.get(view, situation.word) for view in ("API", "summary", "dashboard")}
    return {
        "API": words["API"] in seen.api and bool(words["API"]),
        "summary": words["summary"] in seen.summary and bool(words["summary"]),
        "dashboard": words["dashboard"] in seen.dashboard and bool(words["dashboard"]),
        "metric": situation.metric is not None and bool(evaluate(situation.metric, seen.scrape)),
        "alert": situation.alert in seen.firing,
        "log": situation.log is not None and any(_is(line, *situation.log) for line in seen.log),
    }


def _is(line: dict[str, object], event: str, value: str) -> bool:
    names = [name for told in line.values() if isinstance(told, list) for name in told]
    return line["event"] == event and (value in map(str, line.values()) or any(value in str(name) for name in names))


def chosen() -> list[str]:
    """All of them when they are measured. Else the first of each group."""
    groups: dict[str, str] = {}
    for name, situation in SITUATIONS.items():
        groups.setdefault(situation.group, name)
    return list(SITUATIONS) if MEASURES else list(groups.values())


@pytest.mark.parametrize("name", chosen())
async def test_each_view_says_the_name_of_a_situation_in_time(
    night: Night, name: str, record_property: Callable[[str, object], None]
) -> None:
    situation = SITUATIONS[name]
    await night.pass_time(situation.alert)
    before = said(situation, await night.look(situation.alert, set(VIEWS)))
    assert not any(before.values()), before
    night.begin()
    await situation.cause(night)
    took: dict[str, float] = {}
    expected = [view for view in VIEWS if view not in situation.silent]
    limits = (situation.within, situation.alarms_within)
    while (missing := set(expected) - took.keys()) and night.seconds < max(limits) * 1.5:
        await night.pass_time(situation.alert, limits, alone=missing == {"alert"})
        views = set(VIEWS) if MEASURES else missing
        for view, says in said(situation, await night.look(situation.alert, views)).items():
            if says:
                took.setdefault(view, night.seconds)
    record_property("seconds", {view: took.get(view) for view in VIEWS})
    late = {
        view: took.get(view)
        for view in expected
        if took.get(view, 1e9) > (situation.alarms_within if view == "alert" else situation.within)
    }
    assert not late


def test_no_source_of_a_situation_is_missing_from_the_table() -> None:
    """A new brake, class of errors, kind of process, SQLSTATE or alert needs a situation."""
    assert {name.removeprefix("brake ") for name in SITUATIONS if name.startswith("brake ")} == set(BrakeName)
    assert ERRORS.keys() | ALSO.keys() == set(ErrorKind)
    assert not ERRORS.keys() & ALSO.keys()
    assert set(installation_metrics._KINDS) | {DEADMAN} <= set(PROCESSES)
    assert all(any(state.startswith(one) for state in STATES) for one in server_state._CLASSES)
    assert server_state._STATES | {server_state._RIGHT_MISSING} | api_errors._SHUTDOWN <= set(STATES)
    assert {situation.alert for situation in SITUATIONS.values()} - {None} == set(ALERTS)


def test_a_view_that_says_nothing_has_a_reason() -> None:
    for name, situation in SITUATIONS.items():
        assert (situation.alert is None) == ("alert" in situation.silent), name
        assert (situation.log is None) == ("log" in situation.silent), name
        assert situation.silent.keys() <= set(VIEWS), name


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## Situations\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    assert rows[1:] == table()
