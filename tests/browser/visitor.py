"""Somebody who looks at the dashboard: a tab of its own, and an ear for what the browser complains of."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, Locator, Page, Response, expect

from tests.databases import ROOT
from tests.e2e.stack import PATIENCE

PATIENCE_MS = PATIENCE * 1000
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


class Visitor:
    """`complaints` are console errors and uncaught exceptions; violations of the page's policy are among them."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.answers: list[tuple[str, int]] = []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("response", self._note)

    @classmethod
    @contextmanager
    def arriving(cls, browser: Browser, api_url: str) -> Iterator[Self]:
        """At the sign-in page, in a profile of its own."""
        context = browser.new_context(viewport={"width": 1366, "height": 850}, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        visitor = cls(context.new_page(), f"{api_url}/dashboard")
        visitor.page.goto(visitor.url)
        try:
            yield visitor
        finally:
            context.close()

    def sign_in(self, key: str) -> None:
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("navigation", name="Views")).to_be_visible()

    def go(self, place: str) -> None:
        """To `leases?state=active` and the like, without loading the page anew."""
        self.page.evaluate("address => { location.hash = address }", f"#/{place}")

    def row(self, name: str) -> Locator:
        """The line of a lease in a list."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("link", name=name, exact=True))

    def state(self, name: str) -> Locator:
        """The badge that says in which state a lease of the list is."""
        return self.row(name).locator(".badge").first

    def ask_again(self) -> None:
        """As when the tab comes to the front: the page asks now, and not when its clock says so."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def settled(self) -> None:
        """The view has its data: no place holder is left."""
        expect(self.page.locator(".bone")).to_have_count(0)

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
