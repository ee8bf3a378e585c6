"""Every view: read by everyone, in both colour schemes, on a wide screen and on a phone."""

import re

from playwright.sync_api import expect

from tests.browser.visitor import Visitor
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import Stack

WIDE, PHONE, NARROW = 1366, 360, 320
BY_COLOUR = ("color-contrast", "link-in-text-block")
"""The only rules that a colour scheme can break; all others are asked once."""


def test_an_operators_views_are_accessible_and_fit(
    visitor: Visitor, stack: Stack, tenant: Tenant, operator: Operator, cloud: Cloud
) -> None:
    with cloud.capacity(0, instance_type="p4d.24xlarge"):
        refused = tenant.create({"instance_types": ["p4d.24xlarge"], "ttl_seconds": 3600, "wait_seconds": 0})
        active = tenant.create({**ONE_A10G, "name": "shown", "labels": {"team": "vision"}})
        tenant.wait(refused, "failed")
    tenant.wait(active, "active")
    visitor.must_be_accessible()
    visitor.sign_in(stack.credentials.operator_key)
    for view in (
        *("fleet", "leases?state=any", f"leases/{refused}", f"leases/{active}", "leases/new", "capacity", "tenants"),
        *(f"tenants/{tenant.id}", "stuck", "reconciliation", "events", "audit", "nosuch"),
    ):
        visitor.go(view)
        look_at(visitor, view)
    vm = cloud.plant({"gpulease-installation": operator.installation_id()})
    visitor.go("accounts")
    expect(visitor.page.get_by_text(vm)).to_be_visible()
    look_at(visitor, "accounts")
    visitor.go("leases")
    visitor.page.get_by_role("button", name="Extend shown").click()
    look_at(visitor, "dialog")


def test_a_tenants_views_are_accessible_and_fit(visitor: Visitor, tenant: Tenant) -> None:
    tenant.wait(tenant.create({**ONE_A10G, "name": "shown"}), "active")
    made = tenant.http.post("/v1/groups", json={"name": "nodes", "size": 2, "lease": ONE_A10G}).json()
    visitor.sign_in(tenant.key)
    for view in ("overview", "quotas", "keys", "groups", "groups/new", f"groups/{made['id']}"):
        visitor.go(view)
        look_at(visitor, view)
    expect(visitor.page.get_by_role("link", name="nodes-1")).to_be_visible()
    tenant.http.delete(f"/v1/groups/{made['id']}")


def test_the_longest_names_fit_the_narrowest_screen(visitor: Visitor, tenant: Tenant) -> None:
    """Names and labels of a single word each, which is as long as the API permits."""
    name = "x" * 63
    label = {"k" * 63: "v" * 63}
    lease_id = tenant.create({**ONE_A10G, "name": name, "labels": label, "ttl_seconds": 600})
    group = tenant.http.post("/v1/groups", json={"name": "g" * 58, "size": 2, "lease": {**ONE_A10G, "labels": label}})
    tenant.wait(lease_id, "active")
    visitor.sign_in(tenant.key)
    visitor.page.set_viewport_size({"width": NARROW, "height": 850})
    for view in (
        *(
            "overview",
            "leases",
            f"leases/{lease_id}",
            f"leases/new?from={lease_id}",
            "groups",
            f"groups/{group.json()['id']}",
        ),
        *("volumes", "usage", "costs", "budgets", "capacity", "quotas", "keys", "events", "audit"),
    ):
        visitor.go(view)
        visitor.settled()
        visitor.must_fit()
    visitor.go("leases")
    for button in ("Extend", "Release"):
        visitor.page.get_by_role("button", name=f"{button} {name}").click()
        visitor.must_fit()
        visitor.page.get_by_role("button", name="Cancel").click()
    tenant.http.delete(f"/v1/groups/{group.json()['id']}")


def test_a_chosen_colour_scheme_lasts(visitor: Visitor, stack: Stack) -> None:
    visitor.sign_in(stack.credentials.operator_key)
    page = visitor.page
    for choice, colours in (("Dark", "dark"), ("Light", "light"), ("Match system", "light dark")):
        page.get_by_role("button", name=choice, exact=True).click()
        page.reload()
        expect(page.get_by_role("button", name=choice, exact=True)).to_have_attribute("aria-pressed", "true")
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == colours


def look_at(visitor: Visitor, view: str) -> None:
    """In light and dark on a wide screen, then on a phone. Leaves the wide screen, light."""
    name = re.sub("/(lease|tenant|group)_.*", "-one", view.partition("?")[0]).replace("/", "-")
    visitor.settled()
    visitor.must_be_accessible()
    for width, size in ((WIDE, "wide"), (PHONE, "phone")):
        visitor.page.set_viewport_size({"width": width, "height": 850})
        visitor.must_fit()
        for scheme in ("dark", "light"):
            visitor.page.emulate_media(color_scheme=scheme)
            if size == "wide" and scheme == "dark":
                visitor.must_be_accessible(*BY_COLOUR)
            visitor.picture(f"{name}-{size}-{scheme}")
    visitor.page.set_viewport_size({"width": NARROW, "height": 850})
    visitor.must_fit()
    visitor.page.set_viewport_size({"width": WIDE, "height": 850})
