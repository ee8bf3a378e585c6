"""Browsers and paths that are not the usual: without storage, without the stream, slow, and on both sides of a clock change."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from app.local.waiting import wait_until
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE, Stack

REFUSE = "Object.defineProperty(window, %r, { get() { throw new DOMException('blocked', 'SecurityError'); } })"


@contextmanager
def browsing(chromium: Browser, stack: Stack, *scripts: str, **context: Any) -> Iterator[Visitor]:
    """A visitor in a browser of its own kind."""
    with chromium.new_context(viewport={"width": 1366, "height": 850}, **context) as profile:
        profile.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        for script in scripts:
            profile.add_init_script(script)
        page = profile.new_page()
        visitor = Visitor(page, f"{stack.credentials.api_url}/dashboard")
        page.goto(visitor.url)
        yield visitor
        visitor.must_have_no_complaints()


@pytest.mark.parametrize("blocked", [["sessionStorage"], ["localStorage"], ["sessionStorage", "localStorage"]])
def test_without_storage_the_key_is_in_memory(
    chromium: Browser, stack: Stack, tenant: Tenant, blocked: list[str]
) -> None:
    with browsing(chromium, stack, *(REFUSE % name for name in blocked)) as visitor:
        page = visitor.page
        forgets = "sessionStorage" in blocked
        expect(page.get_by_text("a reload signs you out")).to_have_count(1 if forgets else 0)
        visitor.sign_in(tenant.key)
        page.get_by_role("button", name="Dark", exact=True).click()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        page.reload()
        expect(page.get_by_role("heading", name="Sign in to gpulease" if forgets else "Overview")).to_be_visible()


def test_a_blocked_stream_is_told_as_such(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    page.evaluate(
        "new MutationObserver(() => { if (document.querySelector('.banner')) window.bannerSeen = true; })"
        ".observe(document.body, { subtree: true, childList: true })"
    )
    page.route("**/v1/events/stream", lambda route: route.abort())
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    expect(page.get_by_text("Live updates are blocked. The page polls.")).to_have_count(1)
    tenant.create({**ONE_A10G, "name": "polled"})
    expect(visitor.state("polled")).to_have_text("active")
    assert page.evaluate("window.bannerSeen ?? false") is False
    page.unroute("**/v1/events/stream")
    expect(page.get_by_text("Live updates are blocked. The page polls.")).to_have_count(0)
    visitor.leaves_a_trace = True
    visitor.forgive("ERR_FAILED")


BOTH_SIDES = """import(new URL("format.js", document.baseURI)).then(({ listedTime, timeOfDay, zone }) =>
    [zone(), ...["2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-07-01T12:00:00Z", "2026-10-25T01:00:00Z"]
        .flatMap(at => [listedTime(at), timeOfDay(at)])])"""


@pytest.mark.parametrize(
    ("zone", "now", "shown"),
    [
        (
            "Europe/Berlin",
            "2026-11-28T12:00:00Z",
            ["CET", "29 Mar, 01:59:59", "29 Mar, 03:00:00 CEST", "1 Jul, 14:00:00 CEST", "25 Oct, 02:00:00"],
        ),
        (
            "Europe/Berlin",
            "2026-07-28T12:00:00Z",
            ["CEST", "29 Mar, 01:59:59 CET", "29 Mar, 03:00:00", "1 Jul, 14:00:00", "25 Oct, 02:00:00 CET"],
        ),
        (
            "America/New_York",
            "2026-11-28T12:00:00Z",
            [
                "GMT-5",
                "28 Mar, 20:59:59 GMT-4",
                "28 Mar, 21:00:00 GMT-4",
                "1 Jul, 08:00:00 GMT-4",
                "24 Oct, 21:00:00 GMT-4",
            ],
        ),
        (
            "Asia/Kolkata",
            "2026-11-28T12:00:00Z",
            ["GMT+5:30", "29 Mar, 06:29:59", "29 Mar, 06:30:00", "1 Jul, 17:30:00", "25 Oct, 06:30:00"],
        ),
    ],
)
def test_a_time_on_the_other_side_of_a_clock_change_names_its_zone(
    chromium: Browser, stack: Stack, zone: str, now: str, shown: list[str]
) -> None:
    with browsing(chromium, stack, timezone_id=zone) as visitor:
        visitor.page.clock.set_fixed_time(now)
        heading, *times = visitor.page.evaluate(BOTH_SIDES)
        assert [heading, *times[::2]] == shown
        assert times[1::2] == [time.partition(", ")[2] for time in times[::2]]


def test_a_page_that_stays_open_over_a_clock_change_names_the_zone_of_now(chromium: Browser, stack: Stack) -> None:
    with browsing(chromium, stack, timezone_id="Europe/Berlin") as visitor:
        zone = "import(new URL('format.js', document.baseURI)).then(format => format.zone())"
        for now, name in (("2026-10-25T00:59:59Z", "CEST"), ("2026-10-25T01:00:01Z", "CET")):
            visitor.page.clock.set_fixed_time(now)
            assert visitor.page.evaluate(zone) == name


@pytest.mark.parametrize("seconds", [8, 11, 30])
def test_a_slow_api_is_waited_for(chromium: Browser, stack: Stack, seconds: int) -> None:
    """Time passes eight times as fast, for the limit and for the answer alike."""
    faster = (
        "AbortSignal.timeout = (real => ms => real.call(AbortSignal, ms / 8))(AbortSignal.timeout);"
        "Date.now = (real => () => window.start ? window.start + (real.call(Date) - window.start) * 8 : window.start = real.call(Date))(Date.now);"
    )
    with browsing(chromium, stack, faster) as visitor:
        page = visitor.page

        def answer_late(route: Route) -> None:
            answer = route.fetch()
            page.evaluate(f"new Promise(done => setTimeout(done, {seconds * 1000 / 8}))")
            route.fulfill(response=answer)

        page.route(re.compile("/v1/me$"), answer_late)
        asked = "import(new URL('api.js', document.baseURI)).then(api => api.whoIs(%r)).then(me => me.role, error => error.message)"
        found = "operator"
        question = asked % stack.credentials.operator_key
        answers = []
        assert wait_until(lambda: answers.append(page.evaluate(question)) or answers[-1] == found, timeout=PATIENCE)
        assert len(answers) == {8: 1, 11: 2, 30: 3}[seconds], answers
        assert page.evaluate(question) == found, "the limit does not shrink at the next answer"
        visitor.forgive("ERR_")
