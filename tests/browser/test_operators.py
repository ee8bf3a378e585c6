"""What operators change in the dashboard: brakes, tenants, quotas and keys; and where the changes show."""

import re

from playwright.sync_api import Route, expect

from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import Stack


def test_launches_are_stopped_and_allowed(visitor: Visitor, operator: Operator, stack: Stack) -> None:
    page = visitor.page
    visitor.sign_in(stack.credentials.operator_key)
    expect(page.get_by_text("No brakes active.")).to_be_visible()
    page.get_by_role("button", name="Stop launches").click()
    page.get_by_label("Reason, shown to other operators").fill("maintenance")
    visitor.must_be_accessible()
    page.get_by_role("dialog").get_by_role("button", name="Stop launches").click()
    try:
        expect(page.get_by_text(re.compile("All launches are stopped.*maintenance"))).to_be_visible()
        assert operator.get("/v1/ops/summary")["brakes"]["launches_stopped"]["note"] == "maintenance"
        page.get_by_role("button", name="Allow launches").click()
        page.get_by_role("dialog").get_by_role("button", name="Allow launches").click()
        expect(page.get_by_text("No brakes active.")).to_be_visible()
    finally:
        operator.stop_launches(stopped=False)


def test_an_account_is_cordoned_and_opened(visitor: Visitor, operator: Operator, stack: Stack) -> None:
    page = visitor.page
    name = operator.account()["name"]
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("accounts")
    visitor.settled()
    page.get_by_role("button", name=f"Cordon {name}").click()
    page.get_by_role("button", name="Cordon", exact=True).click()
    try:
        expect(page.get_by_text("Cordoned", exact=True)).to_be_visible()
        assert operator.account()["cordoned"] is not None
        visitor.go("fleet")
        visitor.ask_until(page.get_by_role("listitem").filter(has_text=re.compile(rf"cordon {name} for \d+ s(:|$)")))
        visitor.go("accounts")
        page.get_by_role("button", name=f"Lift the cordon of {name}").click()
        page.get_by_role("dialog").get_by_role("button", name="Lift the cordon").click()
        expect(page.get_by_text("Cordoned", exact=True)).to_have_count(0)
    finally:
        operator.put(f"/v1/ops/accounts/{name}/cordon", {"cordoned": False})


def test_a_tenant_is_created_limited_and_suspended(visitor: Visitor, operator: Operator, stack: Stack) -> None:
    page = visitor.page
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("tenants")
    page.get_by_role("button", name="Create a tenant").click()
    page.get_by_label("Name", exact=True).fill("robotics")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page).to_have_title("robotics · Tenants · gpulease")
    tenant_id = page.url.rpartition("/")[2]
    page.get_by_role("button", name="Edit quotas").click()
    page.get_by_label("GPUs", exact=True).fill("4")
    page.get_by_label("USD per hour").fill("12.50")
    page.get_by_label(re.compile("^GPUs by model")).fill("A10G=2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("0 of 4")).to_be_visible()
    limits = {one["resource"]: one["limit"] for one in operator.get(f"/v1/tenants/{tenant_id}/quotas")["items"]}
    assert limits == {"gpus": 4, "gpus:A10G": 2, "leases": None, "spend_per_hour": "12.50"}
    page.get_by_role("button", name="Suspend").click()
    page.get_by_role("dialog").get_by_role("button", name="Suspend").click()
    expect(page.get_by_role("button", name="Activate")).to_be_visible()
    assert operator.get(f"/v1/tenants/{tenant_id}")["status"] == "suspended"


def test_a_key_is_created_shown_once_and_revoked(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    page = visitor.page
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go(f"tenants/{tenant.id}")
    visitor.settled()
    page.get_by_role("button", name="Create a key").click()
    page.get_by_label("Name", exact=True).fill("pipeline")
    page.get_by_label(re.compile("^viewer")).check()
    page.get_by_role("button", name="Create", exact=True).click()
    secret = page.get_by_role("dialog", name="The secret of pipeline").locator("pre").inner_text()
    assert secret.startswith("gpl_")
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text(secret)).to_have_count(0)
    page.get_by_role("button", name="Revoke pipeline").click()
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="pipeline").get_by_text("revoked")).to_be_visible()


def test_events_and_the_audit_trail_are_filtered(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "followed"})
    tenant.wait(lease_id, "active")
    page = visitor.page
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("events")
    rows = page.get_by_role("region", name="Events").get_by_role("row")
    expect(rows.filter(has_text="lease active").filter(has_text=lease_id)).to_be_visible()
    entered = page.get_by_label("Lease", exact=True)
    entered.fill(lease_id)
    tenant.create({**ONE_A10G, "name": "beside"})
    expect(rows.filter(has_text="beside").first).to_be_visible()  # new data while someone types
    expect(entered).to_have_value(lease_id)
    entered.press("Enter")
    page.get_by_label("Type").select_option("lease.queued")  # at once, before the address has been read
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("followed")
    visitor.go(f"audit?about={lease_id}")
    changes = page.get_by_role("region", name="Audit trail").get_by_role("row")
    expect(changes).to_have_count(2)
    expect(changes.nth(1)).to_contain_text("lease.create")
    page.get_by_label("Action").fill("lease.release")
    page.get_by_label("Action").press("Enter")
    expect(page.get_by_text("No change matches.")).to_be_visible()


def test_what_needs_an_operator_is_on_the_page_fleet(visitor: Visitor, stack: Stack) -> None:
    """The same words as in `gpulease ops summary` (tests/observability/situations.py has all of them)."""
    page = visitor.page
    clock = "the host's clock is 9 s ahead of the database's"
    refused = {"provider": "aws", "account": "main", "region": "us-east-1", "reason": "refused", "launches": 3}
    refused |= {"since": "2026-11-28T12:00:00Z", "code": "InvalidSpec", "message": "no such subnet"}

    def show(route: Route) -> None:
        known = {"if-none-match", "accept-encoding"}
        answer = route.fetch(
            headers={name: value for name, value in route.request.headers.items() if name not in known}
        )
        summary = answer.json()
        summary["warnings"], summary["refused_launches"] = [clock], [refused]
        route.fulfill(response=answer, json=summary)

    page.route("**/v1/ops/summary", show)
    visitor.sign_in(stack.credentials.operator_key)
    expect(page.get_by_role("listitem").filter(has_text=clock)).to_have_text(f"warning: {clock}")
    expect(
        page.get_by_text(re.compile("main/us-east-1.*launches refused: 3. InvalidSpec no such subnet"))
    ).to_be_visible()
    visitor.must_be_accessible()
