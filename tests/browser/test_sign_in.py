"""Who comes in, and what they see."""

import re

from playwright.sync_api import Route, expect

from tests.browser.visitor import Visitor
from tests.e2e.people import Tenant
from tests.e2e.stack import Stack


def test_a_key_opens_the_dashboard_and_stays_in_the_tab_alone(visitor: Visitor, stack: Stack) -> None:
    page, key = visitor.page, stack.credentials.operator_key
    page.get_by_label("API key").fill("gpl_nonsense")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text="unknown or no longer valid")).to_be_visible()
    visitor.forgive("status of 401")
    visitor.sign_in(key)
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    assert page.evaluate("Object.values(sessionStorage)") == [key]
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href").count("gpl_") == 0
    assert not any("gpl_" in path for path, _ in visitor.answers)
    page.reload()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to gpulease")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_tenant_sees_its_own_and_asks_for_nothing_else(visitor: Visitor, tenant: Tenant) -> None:
    visitor.sign_in(tenant.key)
    page = visitor.page
    expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_text(
        [
            *("Overview", "Leases", "Groups", "Volumes", "Usage", "Costs", "Budgets", "Prices", "Capacity", "Quotas"),
            *("Keys", "Events", "Webhooks", "Audit"),
        ]
    )
    for view, shown in (
        ("overview", "Ends soonest"),
        ("overview", "USD per hour, VMs"),
        ("quotas", "0 of 16"),
        ("capacity", "g5.xlarge"),
        ("prices", "g5.xlarge"),
        ("webhooks", "No webhooks yet."),
        ("leases", "No lease is running."),
        ("accounts", "Page not found"),
    ):
        visitor.go(view)
        expect(page.get_by_role("main")).to_contain_text(shown)
    assert visitor.asked(f"/v1/ops|/v1/tenants(?!/{tenant.id}/keys)") == []
    assert all(status < 400 for _, status in visitor.answers)


def test_a_revoked_key_ends_the_session_with_a_word(visitor: Visitor, tenant: Tenant) -> None:
    """The next session of the tab begins without the dialog and the messages of this one."""
    made = tenant.http.post(f"/v1/tenants/{tenant.id}/keys", json={"name": "short", "role": "admin"}).json()
    page = visitor.page
    visitor.sign_in(made["secret"])
    visitor.go("quotas")
    expect(page.get_by_role("main")).to_contain_text("0 of 16")
    visitor.go("budgets")
    visitor.settled()
    page.get_by_role("button", name="Create a budget").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate("import(new URL('parts/dialogs.js', document.baseURI)).then(dialogs => dialogs.say('Done.'))")
    tenant.http.delete(f"/v1/keys/{made['id']}").raise_for_status()
    visitor.ask_until(page.get_by_text("The API rejects your key"))
    assert page.evaluate("sessionStorage.length") == 0
    visitor.sign_in(tenant.key)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Done.")).to_have_count(0)
    visitor.forgive("status of 401")


def test_an_answer_after_the_end_of_a_session_is_not_kept_for_the_next(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile("/v1/quotas$"), hold)
    with page.expect_request(re.compile("/v1/quotas$")):  # the overview's, or that of the view
        visitor.sign_in(tenant.key)
        visitor.go("quotas")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    with page.expect_response(re.compile("/v1/quotas$")):
        for route in held:
            route.continue_()
    # the page has read the body of the answer when a later request has its answer
    page.evaluate("fetch(document.baseURI).then(answer => answer.text())")
    kept = "import(new URL('api.js', document.baseURI)).then(api => api.remembered('/v1/quotas') ?? null)"
    assert page.evaluate(kept) is None
