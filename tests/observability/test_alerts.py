"""Each alert fires in its situation and is silent while all is well, judged by its own expression and what is really told."""

from typing import Any

import pytest
import yaml

from app.observability.metrics import ApiMetrics
from tests.house.sources import ROOT
from tests.observability.promql import Scrape, evaluate, names, scrape
from tests.observability.world import SITUATIONS, World

RULES = ROOT / "docs" / "alerts" / "gpulease.rules.yml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}


async def test_while_all_is_well_every_alert_is_silent(world: World) -> None:
    scrapes = []
    for _ in range(2):
        world.requests(200, 100)
        world.calls(100)
        world.worker.became_ready("aws", "spot", 90.0)
        scrapes.append(await world.scrape())
    firing = {name: found for name, rule in ALERTS.items() if (found := evaluate(rule["expr"], *scrapes))}
    assert not firing


async def test_each_alert_is_silent_until_its_situation_comes_and_fires_then(world: World) -> None:
    """One after the other in one installation, so that each is silent in the trouble of those before it too."""
    assert set(SITUATIONS) == set(ALERTS), "an alert needs a situation in which it fires"
    before = [await world.scrape(), await world.scrape()]
    asked, told = set(), set()
    for name, situation in SITUATIONS.items():
        expression = ALERTS[name]["expr"]
        assert not evaluate(expression, *before), f"{name} fires too early"
        now = []
        for _ in range(2):
            situation(world)
            now.append(await world.scrape())
        assert evaluate(expression, *now), f"{name} does not fire"
        world.answer_again()
        before = [await world.scrape(), await world.scrape()]
        asked |= names(expression)
        told |= dict(before[-1].samples).keys()  # reads each, so that none is there twice
    assert asked <= told, "an alert asks for a metric that nobody tells"


STEP = 15.0
"""Seconds between two scrapes of the replay."""


def _seconds(duration: str | None) -> float:
    return float(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]] if duration else 0.0


def _firing(rule: dict[str, Any], scrapes: list[Scrape]) -> list[float]:
    """The times of the scrapes at which Prometheus would have the alert firing: true for as long as `for` says."""
    firing, since = [], None
    for count, one in enumerate(scrapes, 1):
        recent = [each for each in scrapes[:count] if each.at > one.at - 600]
        true = bool(evaluate(rule["expr"], *recent))
        since = (one.at if since is None else since) if true else None
        if since is not None and one.at - since >= _seconds(rule.get("for")):
            firing.append(one.at)
    return firing


@pytest.mark.parametrize(("outage", "pages"), [(30.0, False), (90.0, False), (600.0, True)])
def test_errors_page_during_an_outage_and_not_after_it(outage: float, pages: bool) -> None:
    """A hundred requests between two scrapes; in the outage all of them fail."""
    begins, metrics, scrapes = 600.0, ApiMetrics(), []
    for number in range(100):
        at = number * STEP
        status = 503 if begins <= at < begins + outage else 200
        for _ in range(100):
            metrics.request("GET", "/v1/leases", status, 0.01)
        scrapes.append(scrape(at, metrics.text().decode()))
    firing = _firing(ALERTS["GpuleaseApiFails"], scrapes)
    assert bool(firing) is pages
    assert all(begins < at <= begins + outage + 120 for at in firing)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_runbook_that_says_what_how_and_what_to_do(name: str) -> None:
    page = (ROOT / ALERTS[name]["annotations"]["runbook"]).read_text(encoding="utf-8")
    assert f"`{name}`" in page
    assert "\n## How to look\n" in page
    assert "\n## How to recover\n" in page


def test_no_runbook_is_left_without_an_alert() -> None:
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {rule["annotations"]["runbook"] for rule in ALERTS.values()}
