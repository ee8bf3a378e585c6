"""Somebody who looks at the dashboard: a tab, and an ear for what the browser complains of."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, Request, Response, ViewportSize, expect

from app.local.waiting import wait_until
from tests.e2e.stack import PATIENCE
from tests.harness.databases import ROOT

PATIENCE_MS = PATIENCE * 1000
PATIENCE_OF_LEAVING = 15.0
"""Seconds; the page itself waits for ten. Afterwards the next visitor has a new tab."""
PICTURES = os.environ.get("GPULEASE_SCREENSHOTS")


_CUT_OFF = """() => {
    const found = [];
    for (const one of document.querySelectorAll("main *, header *, dialog *")) {
        const text = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!text || one.closest(".vh, thead, pre, select, textarea, [aria-hidden=true]")) continue;
        const scroll = one.closest(".scroll");
        if (scroll && scroll.scrollWidth > scroll.clientWidth) continue;
        const frame = one.closest(".panel, dialog, main, header");
        const edge = Math.min(frame?.getBoundingClientRect().right ?? innerWidth, innerWidth);
        const box = one.getBoundingClientRect();
        if (box.width && box.right > edge + 1) found.push(one.textContent.trim());
    }
    return found;
}"""
"""The texts that reach beyond their panel or the window."""

_GO = """address => new Promise(done => {
    const before = location.hash;
    addEventListener("hashchange", done, { once: true });
    location.hash = address;
    if (location.hash === before) done();
})"""
"""Ends when the view is rendered: the page hears of the change before."""

_HURRY = """longest => {
    window.usualTimeout = setTimeout;
    window.setTimeout = (call, ms, ...rest) => usualTimeout(call, ms > longest ? ms : ms / 20, ...rest);
}"""
_USUAL = "window.setTimeout = usualTimeout; delete window.usualTimeout"

SIZE: ViewportSize = {"width": 1366, "height": 850}


class Tabs:
    """A tab for each visitor: that of the one before, who has signed out, or a new one in a profile of its own.

    To load the page costs a second of CPU time.
    """

    def __init__(self, browser: Browser, api_url: str) -> None:
        self._browser = browser
        self._url = f"{api_url}/dashboard"
        self._free: Page | None = None

    @contextmanager
    def visitor(self) -> Iterator["Visitor"]:
        """At the sign-in page. Afterwards the browser must have had nothing to complain of."""
        page, self._free = self._free or self._new(), None
        visitor = Visitor(page, self._url)
        try:
            yield visitor
            visitor.must_have_no_complaints()
            if visitor.leave():
                self._free = page
        finally:
            if self._free is None:
                page.context.close()

    def close(self) -> None:
        if self._free is not None:
            self._free.context.close()

    def _new(self) -> Page:
        context = self._browser.new_context(viewport=SIZE, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page = context.new_page()
        page.goto(self._url)
        return page


class Visitor:
    """`complaints` are console errors and uncaught exceptions; violations of the page's policy are among them."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.answers: list[tuple[str, int]] = []
        self.leaves_a_trace = False
        """Set by a test after which nobody else shall use the tab, such as one that changed its clock."""
        self._under_way: set[Request] = set()
        self._ears: dict[str, Callable[[Any], None]] = {
            "console": lambda message: self.complaints.append(message.text) if message.type == "error" else None,
            "pageerror": lambda error: self.complaints.append(str(error)),
            "response": self._note,
            "request": self._begin,
            "requestfinished": self._end,
            "requestfailed": self._end,
        }
        for event, ear in self._ears.items():
            page.on(event, ear)  # pyrefly: ignore[no-matching-overload]

    def leave(self) -> bool:
        """Signs out. Whether the tab is as it was: at the sign-in page, with nothing kept, open or under way."""
        page = self.page
        if self.leaves_a_trace or page.locator("dialog").count():
            return False
        page.unroute_all(behavior="wait")
        page.set_viewport_size(SIZE)
        page.emulate_media(color_scheme="null", reduced_motion="reduce")
        self.go("")
        button = page.get_by_role("button", name="Sign out")
        if button.count():
            button.click()
        expect(page.get_by_label("API key")).to_be_visible()
        clean = bool(page.evaluate("sessionStorage.length + localStorage.length === 0")) and self._is_quiet()
        for event, ear in self._ears.items():
            page.remove_listener(event, ear)
        return clean

    def _begin(self, request: Request) -> None:
        self._under_way.add(request)

    def _end(self, request: Request) -> None:
        self._under_way.discard(request)

    def _is_quiet(self) -> bool:
        """Whether every request ends: a late answer would be counted as one to the next visitor."""
        # a call to the page is when the events of the browser are heard
        return wait_until(lambda: self.page.evaluate("true") and not self._under_way, timeout=PATIENCE_OF_LEAVING)

    def sign_in(self, key: str) -> None:
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("navigation", name="Views")).to_be_visible()

    def go(self, place: str) -> None:
        """To `leases?state=active` and the like, without loading the page anew. Its data may still be to come."""
        self.page.evaluate(_GO, f"#/{place}")

    def row(self, name: str) -> Locator:
        """The line of a lease in a list."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("link", name=name, exact=True))

    def state(self, name: str) -> Locator:
        """The badge that says in which state a lease of the list is."""
        return self.row(name).locator(".badge").first

    def ask_again(self) -> None:
        """As when the tab comes to the front: the page asks now, and not when its clock says so."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    @contextmanager
    def hurried(self, longest: float) -> Iterator[None]:
        """Pauses of the page up to this length, in seconds, are 20 times as short if they begin within the block."""
        self.page.evaluate(_HURRY, longest * 1000)
        yield
        self.page.evaluate(_USUAL)

    def ask_until(self, seen: Locator) -> None:
        """Asks again and again until the page shows this."""

        def shows() -> bool:
            self.ask_again()
            return seen.is_visible()

        assert wait_until(shows, timeout=PATIENCE, poll=0.25), seen

    def settled(self) -> None:
        """The view has its data: no place holder is left, and no part waits for newer data and is dimmed meanwhile.

        Data that arrive move buttons away from under a press.
        """
        expect(self.page.locator(".bone, [aria-busy=true]")).to_have_count(0)

    def asked(self, pattern: str) -> list[int]:
        """The statuses of the answers so far to paths that match."""
        return [status for path, status in self.answers if re.search(pattern, path)]

    def forgive(self, pattern: str) -> None:
        """Complaints that the test itself brought about."""
        self.complaints = [text for text in self.complaints if not re.search(pattern, text)]

    def must_have_no_complaints(self) -> None:
        assert self.complaints == [], (self.complaints, self.answers[-20:])

    def must_be_accessible(self, *rules: str) -> None:
        """No violation of these rules of axe-core; without any: of all, best practices included."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe_source())
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        found: dict[str, Any] = self.page.evaluate("options => axe.run(document, options)", options)
        told = [
            {one["id"]: [(node["target"], node["failureSummary"]) for node in one["nodes"][:3]]}
            for one in found["violations"]
        ]
        assert told == [], json.dumps(told, indent=1)

    def must_fit(self) -> None:
        """The page does not scroll sideways, and no text is cut off. Only tables in a frame of their own may scroll."""
        widths = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1], widths
        assert self.page.evaluate(_CUT_OFF) == []

    def sideways(self, region: str) -> int:
        """By how many pixels the table in this region is wider than its frame."""
        frame = self.page.get_by_role("region", name=region, exact=True)
        return int(frame.evaluate("frame => frame.scrollWidth - frame.clientWidth"))

    def picture(self, name: str) -> None:
        """For people, if they name a folder: the test itself needs none."""
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png")

    def _note(self, answer: Response) -> None:
        self.answers.append((answer.url.removeprefix(self.url.removesuffix("/dashboard")), answer.status))


@cache
def axe_source() -> str:
    return (ROOT / "tests" / "browser" / "vendor" / "axe.min.js").read_text(encoding="utf-8")
