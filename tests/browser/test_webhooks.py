"""Webhooks in the dashboard: from the first one to its deletion, with lost answers and a receiver that refuses."""

import re

from playwright.sync_api import expect

from tests.browser.test_create import fill
from tests.browser.test_every_view import look_at
from tests.browser.test_lost_answers import press_twice
from tests.browser.visitor import Visitor
from tests.e2e.people import Tenant
from tests.e2e.stack import Stack
from tests.workers.receiver import receiving


def test_a_webhook_is_created_and_its_deliveries_are_sent_again(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("webhooks")
    expect(page.get_by_text("No webhooks yet.")).to_be_visible()
    with receiving() as receiver:
        receiver.answer = lambda _: 500
        page.get_by_role("button", name="Create a webhook").click()
        fill(page, URL_of_the_receiver="ftp://example.org", Note="to the pager")
        page.get_by_role("button", name="Create", exact=True).click()
        address = page.get_by_label("URL of the receiver")
        expect(address).to_have_attribute("aria-invalid", "true")
        address.fill(receiver.url)
        page.get_by_label("lease.failed", exact=True).check()
        look_at(visitor, "webhook-dialog")
        press_twice(visitor, "Create", done="The secret of the webhook is lost")
        page.get_by_role("button", name="Get a new secret").click()
        secret = page.get_by_role("dialog", name="The secret of the webhook").locator("pre").inner_text()
        assert secret.startswith("whsec_")
        page.get_by_role("button", name="Done").click()
        expect(page.get_by_text(secret)).to_have_count(0)
        expect(page.get_by_text("No deliveries yet.")).to_be_visible()
        page.get_by_role("button", name="Send a test").click()
        press_twice(visitor, "Send", done="The test message is on its way.")
        row = page.get_by_role("region", name="Deliveries").get_by_role("row").filter(has_text="webhook.test")
        visitor.ask_until(row.filter(has_text="answered 500").filter(has_text="given up"))
        look_at(visitor, "webhook-one")
        receiver.answer = lambda _: 204
        row.get_by_role("button", name=re.compile("^Send again: webhook.test")).click()
        press_twice(visitor, "Send again", done="The message is on its way.")
        visitor.ask_until(row.filter(has_text="delivered"))
        assert len(set(receiver.ids)) == 1
    visitor.forgive("status of 422")


def test_a_webhook_is_rotated_edited_disabled_and_deleted(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    page = visitor.page
    asked = {"url": "http://127.0.0.1:9999/gpulease", "description": "to the pager", "event_types": ["lease.failed"]}
    made = tenant.http.post("/v1/webhooks", json=asked).json()
    visitor.sign_in(tenant.key)
    visitor.go(f"webhooks/{made['id']}")
    page.get_by_role("button", name="Rotate the secret").click()
    press_twice(visitor, "Rotate", done="The secret of the webhook is lost")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("lease.failed", exact=True).uncheck()
    press_twice(visitor, "Save", done="The webhook was saved.")
    expect(page.get_by_text("all types")).to_be_visible()
    page.get_by_role("button", name="Disable").click()
    press_twice(visitor, "Disable", done="The webhook is disabled.")
    expect(page.get_by_role("button", name="Send a test")).to_be_disabled()
    page.get_by_role("button", name="Enable").click()
    press_twice(visitor, "Enable", done="The webhook is enabled.")
    (hook,) = tenant.items("/v1/webhooks")
    assert (hook["event_types"], hook["description"]) == (None, "to the pager")
    page.get_by_role("button", name="Sign out").click()
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go(f"webhooks?tenant_id={tenant.id}")
    look_at(visitor, "webhooks")
    page.set_viewport_size({"width": 1366, "height": 768})
    navigation = page.get_by_role("navigation", name="Views")
    assert navigation.evaluate("nav => nav.scrollHeight - nav.clientHeight") == 0, "an operator's views fit a laptop"
    visitor.picture("webhooks-laptop")
    link = page.get_by_role("link", name=hook["url"])
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Delete").click()
    press_twice(visitor, "Delete", done="The webhook was deleted.")
    visitor.go(f"webhooks?tenant_id={tenant.id}")
    expect(page.get_by_text("No webhooks yet.")).to_be_visible()
    assert tenant.items("/v1/webhooks") == []
    visitor.go(f"webhooks/{hook['id']}")
    expect(page.get_by_role("heading", name="Webhook not found")).to_be_visible()
    visitor.forgive("status of 404")
