"""Browsers and paths that are not the usual: without storage, without the stream, slow, and on both sides of a clock change."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.local.waiting import wait_until
from tests.browser.visitor import SIZE, Visitor
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE, Stack

NO_STORAGE, NO_SESSION, NO_LOCAL = "sessionStorage localStorage", "sessionStorage", "localStorage"
REFUSE = f"""
    window.name ||= "{NO_STORAGE}";
    for (const kind of window.name.split(" "))
        Object.defineProperty(window, kind, {{ get() {{ throw new DOMException("blocked", "SecurityError"); }} }});
"""
"""The tab's name says which storage its pages are refused: it outlasts them."""


@contextmanager
def without_storage(chromium: Browser, stack: Stack) -> Iterator[Visitor]:
    """A visitor in a browser of its own kind."""
    with chromium.new_context(viewport=SIZE) as profile:
        profile.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        profile.add_init_script(REFUSE)
        page = profile.new_page()
        visitor = Visitor(page, f"{stack.credentials.api_url}/dashboard")
        page.goto(visitor.url)
        yield visitor
        visitor.must_have_no_complaints()


def test_without_storage_the_key_is_in_memory(chromium: Browser, stack: Stack, tenant: Tenant) -> None:
    with without_storage(chromium, stack) as visitor:
        page = visitor.page
        for blocked, following in ((NO_STORAGE, NO_SESSION), (NO_SESSION, NO_LOCAL), (NO_LOCAL, NO_LOCAL)):
            assert page.evaluate("window.name") == blocked
            forgets = "sessionStorage" in blocked
            expect(page.get_by_text("a reload signs you out")).to_have_count(1 if forgets else 0)
            visitor.sign_in(tenant.key)
            page.get_by_role("button", name="Dark", exact=True).click()
            assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
            page.evaluate("blocked => { window.name = blocked; }", following)
            page.reload()
            expect(page.get_by_role("heading", name="Sign in to gpulease" if forgets else "Overview")).to_be_visible()


def test_a_blocked_stream_is_told_as_such(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    page.evaluate(
        "new MutationObserver(() => { if (document.querySelector('.banner')) window.bannerSeen = true; })"
        ".observe(document.body, { subtree: true, childList: true })"
    )
    page.route("**/v1/events/stream", lambda route: route.abort())
    with visitor.hurried(60):
        visitor.sign_in(tenant.key)
        visitor.go("leases")
        expect(page.get_by_text("Live updates are blocked. The page polls.")).to_have_count(1)
        tenant.create({**ONE_A10G, "name": "polled"})
        expect(visitor.state("polled")).to_have_text("active")
        assert page.evaluate("window.bannerSeen ?? false") is False
        page.unroute("**/v1/events/stream")
        expect(page.get_by_text("Live updates are blocked. The page polls.")).to_have_count(0)
    visitor.forgive("ERR_FAILED")


BOTH_SIDES = """async ({ format, now }) => {
    const usual = Date.now;
    Date.now = () => Date.parse(now);
    const { listedTime, timeOfDay, zone } = await import(new URL(format, document.baseURI));
    const moments = ["2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-07-01T12:00:00Z", "2026-10-25T01:00:00Z"];
    const texts = [zone(), ...moments.flatMap((at) => [listedTime(at), timeOfDay(at)])];
    Date.now = usual;
    return texts;
}"""


@contextmanager
def in_zone(page: Page, zone: str) -> Iterator[str]:
    """The name of a module of formats that the page loads in this time zone."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setTimezoneOverride", {"timezoneId": zone})
    yield f"format.js?zone={zone}"
    devtools.send("Emulation.setTimezoneOverride", {"timezoneId": ""})
    devtools.detach()


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
    visitor: Visitor, zone: str, now: str, shown: list[str]
) -> None:
    with in_zone(visitor.page, zone) as module:
        heading, *times = visitor.page.evaluate(BOTH_SIDES, {"format": module, "now": now})
    assert [heading, *times[::2]] == shown
    assert times[1::2] == [time.partition(", ")[2] for time in times[::2]]


def test_a_page_that_stays_open_over_a_clock_change_names_the_zone_of_now(visitor: Visitor) -> None:
    with in_zone(visitor.page, "Europe/Berlin") as module:
        for now, name in (("2026-10-25T00:59:59Z", "CEST"), ("2026-10-25T01:00:01Z", "CET")):
            heading, *_ = visitor.page.evaluate(BOTH_SIDES, {"format": module, "now": now})
            assert heading == name


STOPPED_CLOCK = """() => {
    const usual = [Date.now, AbortSignal.timeout];
    const began = Date.now();
    const limits = [];
    let ahead = 0;
    Date.now = () => began + ahead;
    AbortSignal.timeout = (ms) => {
        const ending = new AbortController();
        limits.push([ahead + ms, ending]);
        return ending.signal;
    };
    window.pass = (seconds) => {
        ahead += seconds * 1000;
        for (const [at, ending] of limits) if (at <= ahead) ending.abort(new DOMException("late", "TimeoutError"));
    };
    window.goOn = () => { [Date.now, AbortSignal.timeout] = usual; };
}"""
"""Time passes when the test says so, for the limit and for the answer alike."""


@pytest.mark.parametrize("seconds", [8, 11, 30])
def test_a_slow_api_is_waited_for(visitor: Visitor, stack: Stack, seconds: int) -> None:
    page = visitor.page
    page.evaluate(STOPPED_CLOCK)

    def answer_late(route: Route) -> None:
        answer = route.fetch()
        page.evaluate(f"pass({seconds})")
        route.fulfill(response=answer)

    page.route(re.compile("/v1/me$"), answer_late)
    asked = "import(new URL('api.js?%d', document.baseURI)).then(api => api.whoIs(%r)).then(me => me.role, error => error.message)"
    found = "operator"
    question = asked % (seconds, stack.credentials.operator_key)
    answers: list[str] = []
    assert wait_until(lambda: answers.append(page.evaluate(question)) or answers[-1] == found, timeout=PATIENCE)
    assert len(answers) == {8: 1, 11: 2, 30: 3}[seconds], answers
    assert page.evaluate(question) == found, "the limit does not shrink at the next answer"
    page.evaluate("goOn()")
    visitor.forgive("ERR_")
