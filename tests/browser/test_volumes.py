"""Volumes in the dashboard: created, listed and deleted after a question."""

from playwright.sync_api import expect

from tests.browser.test_every_view import look_at
from tests.browser.visitor import Visitor
from tests.e2e.people import Tenant

AMOUNTS = """import(new URL("format.js", document.baseURI)).then(({ usd }) =>
    ["0.0055", "-0.001", "0.00", "0.526", 250000].map(usd))"""


def test_a_volume_is_created_listed_and_deleted_after_a_question(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("volumes")
    expect(page.get_by_text("No volumes yet.")).to_be_visible()
    page.get_by_role("button", name="Create a volume").click()
    page.get_by_label("Name", exact=True).fill("checkpoints")
    page.get_by_label("Size, GiB").fill("250")
    page.get_by_role("button", name="Create", exact=True).click()
    row = page.get_by_role("row").filter(has_text="checkpoints")
    expect(row).to_contain_text("250")
    expect(row).to_contain_text("never used")
    expect(row).to_contain_text("$0.030822")
    assert page.evaluate(AMOUNTS) == ["$0.0055", "-$0.001", "$0.00", "$0.53", "$250,000"]
    look_at(visitor, "volumes")
    row.get_by_role("button", name="Delete checkpoints").click()
    expect(page.get_by_role("dialog")).to_contain_text("250 GiB and all data on it are deleted")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(row).not_to_contain_text("available")
