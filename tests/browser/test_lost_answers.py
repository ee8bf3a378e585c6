"""Every button that changes something, when the API carries the request out and its answer is lost."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Route, expect

from tests.browser.test_create import SSH_KEY, fill
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import Stack

MAY_HAVE_HAPPENED = re.compile("may (have been made|exist) already")
CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
READS = ("/v1/leases/plan", "/v1/quotes")
LONGEST_PAUSE = 2.0
"""Seconds between two tries of the page."""


@dataclass
class LostAnswers:
    """`requests`: method, path and key of each change that the API carried out and the page heard nothing of."""

    requests: list[tuple[str, str, str | None]] = field(default_factory=list)

    def lose(self, route: Route) -> None:
        request = route.request
        if request.method not in CHANGES or any(read in request.url for read in READS):
            route.fallback()
            return
        route.fetch()
        self.requests.append((request.method, request.url, request.headers.get("idempotency-key")))
        route.abort("connectionreset")


@contextmanager
def lost_answers(visitor: Visitor) -> Iterator[LostAnswers]:
    lost = LostAnswers()
    visitor.page.route("**/v1/**", lost.lose)
    with visitor.hurried(LONGEST_PAUSE):
        yield lost
    visitor.page.unroute("**/v1/**", lost.lose)


def press_twice(visitor: Visitor, button: str, *, done: str | re.Pattern[str]) -> None:
    """Presses without an answer until the page says so, then with one. Each try had the same key."""
    page = visitor.page
    pressed = page.get_by_role("dialog").get_by_role("button", name=button, exact=True)
    with lost_answers(visitor) as lost:
        pressed.click()
        expect(page.get_by_role("dialog").get_by_text(MAY_HAVE_HAPPENED)).to_be_visible()
    with page.expect_request(lambda request: request.method in CHANGES and "/plan" not in request.url) as again:
        pressed.click()
    expect(page.get_by_text(done).first).to_be_visible()
    tries = {*lost.requests, (again.value.method, again.value.url, again.value.headers.get("idempotency-key"))}
    assert len(lost.requests) > 1, "the page asks again before it reports"
    assert len(tries) == 1, tries
    visitor.forgive("ERR_CONNECTION_RESET|status of 404")


def test_a_lease_is_created_once(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    fill(page, GPU_model="A10G")
    with lost_answers(visitor) as lost:
        page.get_by_role("button", name="Create lease").click()
        expect(page.get_by_role("alert").filter(has_text=MAY_HAVE_HAPPENED)).to_be_visible()
    assert len(lost.requests) > 1
    page.get_by_role("button", name="Create lease").click()
    expect(page.locator(".timeline")).to_be_visible()
    assert len(tenant.leases("!terminal")) == 1
    visitor.forgive("ERR_CONNECTION_RESET")


def test_values_changed_and_changed_back_are_the_same_lease(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    fill(page, GPU_model="A10G", Name="first")
    with lost_answers(visitor):
        page.get_by_role("button", name="Create lease").click()
        expect(page.get_by_role("alert").filter(has_text=MAY_HAVE_HAPPENED)).to_be_visible()
    fill(page, Name="second")
    expect(page.get_by_role("alert").filter(has_text=MAY_HAVE_HAPPENED)).to_have_count(0)
    fill(page, Name="first")
    page.get_by_role("button", name="Create lease").click()
    expect(page).to_have_title("first · Leases · gpulease")
    assert [lease["name"] for lease in tenant.leases("!terminal")] == ["first"]
    # a plan beside the lease that exists may find no quota left
    visitor.forgive("ERR_CONNECTION_RESET|status of 409")


def test_actions_on_a_lease_happen_once(visitor: Visitor, tenant: Tenant) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "kept", "idle": {"after_seconds": 3600, "action": "end"}})
    before = tenant.wait(lease_id, "active")
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go(f"leases/{lease_id}")
    page.get_by_role("button", name="Extend kept").click()
    press_twice(visitor, "Extend", done="kept now ends")
    page.get_by_role("button", name="Edit kept").click()
    press_twice(visitor, "Save", done="kept was saved.")
    page.get_by_role("button", name="Reboot kept").click()
    press_twice(visitor, "Reboot", done="kept is being rebooted.")
    with lost_answers(visitor):
        page.get_by_role("button", name="Keep for 2 hours").click()
        expect(page.get_by_role("status").get_by_text(MAY_HAVE_HAPPENED)).to_be_visible()
    page.get_by_role("button", name="Keep for 2 hours").click()
    expect(page.get_by_text("kept is kept for 2 hours")).to_be_visible()
    page.get_by_role("button", name="Release kept").click()
    press_twice(visitor, "Release", done="kept is being released.")
    types = [event["type"] for event in tenant.items("/v1/events", lease_id=lease_id)]
    assert {name: types.count(name) for name in ("lease.extended", "lease.rebooting", "lease.kept")} == {
        "lease.extended": 1,
        "lease.rebooting": 1,
        "lease.kept": 1,
    }, types
    assert tenant.lease(lease_id)["request"]["ttl_seconds"] == before["request"]["ttl_seconds"]


def test_actions_on_a_group_happen_once(visitor: Visitor, tenant: Tenant) -> None:
    group = tenant.http.post("/v1/groups", json={"name": "nodes", "size": 2, "lease": ONE_A10G}).json()
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go(f"groups/{group['id']}")
    page.get_by_role("button", name="Extend").click()
    press_twice(visitor, "Extend", done="nodes now ends")
    page.get_by_role("button", name="Scale").click()
    page.get_by_role("textbox", name="Members").fill("3")
    press_twice(visitor, "Scale", done="nodes now has 3 members.")
    page.get_by_role("button", name="Release").click()
    press_twice(visitor, "Release", done="nodes is being released.")
    types = [event["type"] for event in tenant.items("/v1/events", lease_id=group["members"][0]["lease_id"])]
    assert types.count("lease.extended") == 1, types


def test_keys_are_made_once_and_a_lost_secret_is_replaced(visitor: Visitor, tenant: Tenant) -> None:
    """The API stores no secret, so the repeated answer has none: the page says so and offers another."""
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("keys")
    visitor.settled()
    page.get_by_role("button", name="Add an SSH key").click()
    fill(page, Name="laptop", Public_key=SSH_KEY)
    press_twice(visitor, "Add", done="laptop was added.")
    page.get_by_role("button", name="Do not use laptop by default").click()
    press_twice(visitor, "Remove default", done="laptop was saved.")
    page.get_by_role("button", name="Delete laptop").click()
    press_twice(visitor, "Delete", done="laptop was deleted.")
    page.get_by_role("button", name="Create a key").click()
    fill(page, Name="robot", Expires_after_days="3")
    press_twice(visitor, "Create", done="The secret of robot is lost")
    page.get_by_role("button", name="Get a new secret").click()
    secret = page.get_by_role("dialog", name="The secret of robot").locator("pre").inner_text()
    assert tenant.http.get("/v1/me", headers={"Authorization": f"Bearer {secret}"}).json()["key_name"] == "robot"
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Rotate robot").click()
    press_twice(visitor, "Rotate", done="The secret of robot is lost")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Revoke robot").click()
    press_twice(visitor, "Revoke", done="robot is revoked.")
    made = tenant.items(f"/v1/tenants/{tenant.id}/keys")
    assert [key["name"] for key in made].count("robot") == 1
    assert tenant.items("/v1/ssh-keys") == []


def test_budgets_are_made_once(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("budgets")
    visitor.settled()
    page.get_by_role("button", name="Create a budget").click()
    fill(page, **{"Amount,_USD": "100"})
    press_twice(visitor, "Create", done="The budget was created.")
    assert len(tenant.items("/v1/budgets")) == 1
    page.get_by_role("button", name=re.compile("^Change")).click()
    press_twice(visitor, "Save", done="The budget was saved.")
    page.get_by_role("button", name=re.compile("^Delete")).click()
    press_twice(visitor, "Delete", done="The budget was deleted.")
    assert tenant.items("/v1/budgets") == []


def test_an_operators_changes_are_made_once(visitor: Visitor, stack: Stack, operator: Operator, tenant: Tenant) -> None:
    page = visitor.page
    name = f"made-once-{tenant.id[-8:]}"
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("tenants")
    visitor.settled()
    page.get_by_role("button", name="Create a tenant").click()
    fill(page, Name=name)
    press_twice(visitor, "Create", done=f"{name} was created.")
    assert [made["name"] for made in operator.items("/v1/tenants")].count(name) == 1
    visitor.go(f"tenants/{tenant.id}")
    visitor.settled()
    for button, confirmed, said in (
        ("Edit", "Save", "was saved."),
        ("Edit quotas", "Save", re.compile("The quotas of .* were saved.")),
        ("Suspend", "Suspend", "is suspended."),
        ("Activate", "Activate", "is active."),
    ):
        page.get_by_role("button", name=button, exact=True).click()
        press_twice(visitor, confirmed, done=said)
    try:
        visitor.go("fleet")
        page.get_by_role("button", name="Stop launches").click()
        press_twice(visitor, "Stop launches", done="All launches are stopped.")
        page.get_by_role("button", name="Allow launches").click()
        press_twice(visitor, "Allow launches", done="Launches are allowed.")
        visitor.go("accounts")
        visitor.settled()
        page.get_by_role("button", name=re.compile("^Cordon")).click()
        press_twice(visitor, "Cordon", done="is cordoned.")
        page.get_by_role("button", name=re.compile("^Lift the cordon")).click()
        press_twice(visitor, "Lift the cordon", done="is open for launches.")
    finally:
        operator.stop_launches(stopped=False)
        operator.put(f"/v1/ops/accounts/{operator.account()['name']}/cordon", {"cordoned": False})
