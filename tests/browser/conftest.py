"""One stack and one Chromium for all of these tests; each has a tenant and a tab of its own."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visitor import Visitor
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator, Tenant
from tests.e2e.stack import Stack, running

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="gpulease-web-") as folder, running(Path(folder), "--clouds", "aws") as up:
        yield up


@pytest.fixture(scope="package")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack.credentials.cloudsim_url) as simulated:
        yield simulated


@pytest.fixture(scope="package")
def operator(stack: Stack) -> Iterator[Operator]:
    with Operator(stack.credentials.api_url, stack.credentials.operator_key) as person:
        person.wait_for_offerings("aws")
        yield person


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's own: nothing is ever downloaded."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found is not None, "no Chromium here: apt-get install --no-install-recommends chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def tenant(request: pytest.FixtureRequest, operator: Operator) -> Iterator[Tenant]:
    """A new tenant with 16 GPUs, whose leases are ended after the test."""
    with operator.tenant(re.sub(r"\W", "_", request.node.name)[:60].strip("_"), 16) as made:
        yield made
        made.release_all()


@pytest.fixture
def visitor(chromium: Browser, stack: Stack) -> Iterator[Visitor]:
    """Somebody at the sign-in page. Afterwards the browser must have had nothing to complain of."""
    with Visitor.arriving(chromium, stack.credentials.api_url) as somebody:
        yield somebody
        somebody.must_have_no_complaints()
