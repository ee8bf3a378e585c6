"""What the dashboard costs in a browser: the first paint, and the frames of scrolling through leases."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median, quantiles

from playwright.sync_api import Browser, Page, sync_playwright

from bench import report

OPENINGS = 5
FRAMES = 300
_SCROLLED = """frames => new Promise(done => {
    const page = document.scrollingElement, gaps = [];
    let last = null, way = 24;
    const step = now => {
        if (last !== null) gaps.push(now - last);
        last = now;
        const before = page.scrollTop;
        page.scrollTop += way;
        if (page.scrollTop === before) way = -way;
        if (gaps.length < frames) requestAnimationFrame(step); else done(gaps);
    };
    requestAnimationFrame(step);
})"""
"""Milliseconds between frames while the page moves up and down."""
_TALL = "<!doctype html><body style='margin:0'><div style='height:6000px;background:linear-gradient(#fff,#ddd)'></div>"


def measure(url: str, key: str) -> None:
    """Prints the figures of the dashboard at `url`."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        _openings(browser, url, key)
        _scrolling(browser, url, key)
        browser.close()


def _openings(browser: Browser, url: str, key: str) -> None:
    found = [_opening(browser, url, key) for _ in range(OPENINGS)]
    blank = median(one[0] for one in found)
    for what, number in (("first paint of the fleet view", 1), ("its numbers are there", 2)):
        report.figure(what, median(one[number] for one in found), "ms", ("the page's HTML is there", blank))


def _opening(browser: Browser, url: str, key: str) -> tuple[float, float, float]:
    """Milliseconds since the navigation began, with nothing cached: HTML there, first paint, numbers shown."""
    with _visit(browser, f"{url}/dashboard/", key) as page:
        # a condition in JavaScript would be evaluated, which the page's policy forbids
        page.locator(".figure .value").first.wait_for()
        page.locator(".figure .bone").first.wait_for(state="detached")
        shown = page.evaluate("performance.now()")
        html, paint = page.evaluate(
            "[performance.getEntriesByType('navigation')[0].responseEnd, "
            "performance.getEntriesByName('first-contentful-paint')[0].startTime]"
        )
        return float(html), float(paint), float(shown)


def _scrolling(browser: Browser, url: str, key: str) -> None:
    """Fifty leases, read again every three seconds meanwhile; beside it a page that does nothing."""
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content(_TALL)
        plain = page.evaluate(_SCROLLED, FRAMES)
    with _visit(browser, f"{url}/dashboard/#/leases", key) as page:
        page.locator("tbody tr").nth(49).wait_for()
        leases = page.evaluate(_SCROLLED, FRAMES)
    report.figure(
        "scrolling through fifty leases, time of a frame",
        median(leases),
        "ms",
        ("a page with nothing on it", median(plain)),
        p95_ms=quantiles(leases, n=20)[-1],
        longest_ms=max(leases),
        baseline_p95_ms=quantiles(plain, n=20)[-1],
    )


@contextmanager
def _visit(browser: Browser, url: str, key: str) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script(f"sessionStorage.setItem('gpulease.key', '{key}')")
        page.goto(url, wait_until="commit")
        yield page
