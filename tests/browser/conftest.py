"""One stack and one Chromium for all of these tests; each has a tenant of its own, and a tab where nobody is signed in."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from app.local.waiting import wait_until
from app.settings.timing import timing
from tests.browser.visitor import Tabs, Visitor
from tests.e2e.people import Operator, Tenant
from tests.e2e.sharing import named_after, sharing
from tests.e2e.stack import PATIENCE, Stack
from tools.runtimes import find_chromium

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# two tests wait for an inventory, and the stack lives longest of all
SELDOM = timing(inventory_interval=4, inventory_first_interval=2)
LOCAL_WEBHOOKS = {"GPULEASE_WEBHOOK_LOCAL": "true"}

stack, cloud, operator = sharing("aws", settings={**SELDOM, **LOCAL_WEBHOOKS})


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's, or the one that `make test` installed: the tests themselves download nothing."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def everything_ends(operator: Operator) -> Iterator[None]:
    """No lease is left at the end. Each test only asks for the end of its own: to wait for it costs a second or two."""
    yield
    assert wait_until(lambda: not operator.items("/v1/leases", state="!terminal"), timeout=PATIENCE, poll=0.2)


@pytest.fixture
def tenant(request: pytest.FixtureRequest, operator: Operator, everything_ends: None) -> Iterator[Tenant]:
    """A new tenant with 16 GPUs, whose leases end after the test."""
    with operator.tenant(named_after(request), 16) as made:
        yield made
        for lease in made.leases("!terminal"):
            made.release(lease["id"])


@pytest.fixture(scope="package")
def tabs(chromium: Browser, stack: Stack) -> Iterator[Tabs]:
    """Those of the dashboard."""
    found = Tabs(chromium, stack.credentials.api_url)
    yield found
    found.close()


@pytest.fixture
def visitor(tabs: Tabs) -> Iterator[Visitor]:
    """Somebody at the sign-in page. Afterwards the browser must have had nothing to complain of."""
    with tabs.visitor() as somebody:
        yield somebody
