"""The interactive reference, in a browser: under its policy, without another host, and able to call the API."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from tests.e2e.stack import Stack

PATIENCE_MS = 60_000
OWN = "Deprecated: escaping deep link whitespace"
"""Swagger UI says so of every link to an operation whose id contains an underscore; the link works."""


@dataclass
class Reader:
    """A tab, with what the browser complained about and the hosts that the page called."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self) -> None:
        def note(message: ConsoleMessage) -> None:
            if message.type == "error" and not message.text.startswith(OWN):
                self.complaints.append(message.text)

        def look(request: Request) -> None:
            if not request.url.startswith((self.url, "data:")):
                self.elsewhere.append(request.url)

        self.page.on("console", note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", look)


@pytest.fixture
def reader(chromium: Browser, stack: Stack) -> Iterator[Reader]:
    page = chromium.new_page(viewport={"width": 1366, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    reader = Reader(page, stack.credentials.api_url)
    reader.watch()
    yield reader
    page.close()


def test_the_root_leads_to_the_dashboard(reader: Reader) -> None:
    reader.page.goto(f"{reader.url}/", wait_until="commit")
    assert reader.page.url.startswith(f"{reader.url}/dashboard/")


def test_the_reference_calls_the_api_under_its_policy(reader: Reader, stack: Stack) -> None:
    page = reader.page
    page.goto(f"{reader.url}/docs/errors#not_found")
    expect(page.locator("#not_found")).to_be_in_viewport()
    way = page.get_by_role("link", name="Reference")
    way.evaluate("way => { way.hash = '#/me/get_me'; }")  # to load the reference once, at an operation
    way.click()
    operation = page.locator("#operations-me-get_me")
    expect(operation).to_contain_text("Return the caller's key", timeout=PATIENCE_MS)
    expect(page.locator("#operations-leases-create_lease")).to_be_visible()
    # of the description's references: a header's text, and a schema with its name
    answer = operation.locator(".response").first
    expect(answer).to_contain_text("The requests that remain in this window")
    answer.get_by_text("Schema", exact=True).click()
    expect(answer.locator(".model-box, .json-schema-2020-12").first).to_contain_text(re.compile("^Me.*key_name"))
    page.get_by_role("button", name="Authorize").first.click()
    page.locator("#auth-bearer-value").first.fill(stack.credentials.operator_key)
    page.get_by_role("button", name="Apply credentials").first.click()
    page.get_by_role("button", name="Close").first.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    expect(operation.locator(".live-responses-table")).to_contain_text('"role": "operator"')
    assert reader.elsewhere == []
    assert reader.complaints == []
