"""Several leases at once: chosen in the list, extended and released, also when one of them fails. And the key / for the search."""

import json
import re

from playwright.sync_api import Route, expect

from tests.browser.test_every_view import look_at
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Tenant


def test_chosen_leases_are_extended_and_released_together(visitor: Visitor, tenant: Tenant) -> None:
    leases = {name: tenant.create({**ONE_A10G, "name": name}) for name in ("first", "second", "third", "left-alone")}
    for lease_id in leases.values():
        tenant.wait(lease_id, "active")
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    bar = page.get_by_role("region", name="Chosen leases")
    page.get_by_role("checkbox", name="Choose all leases of this page").check()
    expect(bar).to_contain_text("4 leases chosen")
    box = page.get_by_role("checkbox", name="Choose left-alone")
    box.focus()
    page.keyboard.press("Space")
    expect(bar).to_contain_text(re.compile(r"3 leases chosen, \$3\.\d\d/h"))
    look_at(visitor, "leases-chosen")

    ends = {name: tenant.lease(lease_id)["expires_at"] for name, lease_id in leases.items()}
    bar.get_by_role("button", name="Extend chosen").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("list", name="Leases").get_by_role("listitem")).to_have_count(3)
    look_at(visitor, "bulk-extend-dialog")
    dialog.get_by_role("button", name="Extend").click()
    expect(page.get_by_text("3 leases are extended.")).to_be_visible()

    extended = [name for name, lease_id in leases.items() if tenant.lease(lease_id)["expires_at"] > ends[name]]
    assert extended == ["first", "second", "third"]

    held = re.compile(f"/v1/leases/{leases['second']}$")

    def refuse(route: Route) -> None:
        if route.request.method != "DELETE":
            return route.fallback()
        return route.fulfill(
            status=409,
            body=json.dumps({"detail": "Held by an operator.", "code": "conflict"}),
            content_type="application/problem+json",
        )

    page.route(held, refuse)
    bar.get_by_role("button", name="Release chosen").click()
    expect(dialog.get_by_text(re.compile(r"Together they cost \$3\.\d\d an hour"))).to_be_visible()
    dialog.get_by_role("button", name="Release").click()
    expect(dialog.get_by_role("alert")).to_contain_text(
        "1 lease of 3 failed, the others were released. second: Held by"
    )
    page.unroute(held)
    dialog.get_by_role("button", name="Release").click()
    expect(page.get_by_text("3 leases are being released.")).to_be_visible()
    tenant.wait(leases["second"], "released")
    expect(bar).to_have_count(0)
    assert [lease["name"] for lease in tenant.leases("active")] == ["left-alone"]
    visitor.forgive("status of 409")


def test_a_joint_extension_offers_what_each_lease_accepts(visitor: Visitor, tenant: Tenant) -> None:
    hour = 3600
    for name, seconds in (("longer", hour + 1800), ("shorter", hour)):
        tenant.wait(tenant.create({**ONE_A10G, "name": name, "ttl_seconds": seconds}), "active")
    page = visitor.page

    def limit(route: Route) -> None:
        me = route.fetch().json()
        me["tenant"] |= {"max_total_seconds": 3 * hour, "max_ttl_seconds": 100 * hour}
        route.fulfill(json=me)

    page.route("**/v1/me", limit)
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    bar, dialog = page.get_by_role("region", name="Chosen leases"), page.get_by_role("dialog")

    def open_dialog() -> None:
        page.reload()  # so that the list shows the last extension
        page.get_by_role("checkbox", name="Choose all leases of this page").check()
        bar.get_by_role("button", name="Extend chosen").click()

    for options in (["1 hour", "1 h 30 m"], ["30 m 00 s"]):
        open_dialog()
        expect(dialog.get_by_role("radio")).to_have_count(len(options))
        for option in options:
            expect(dialog.get_by_role("radio", name=f"{option}, adds at most")).to_have_count(1)
        dialog.get_by_role("button", name="Extend").click()
        expect(page.get_by_text("2 leases are extended.")).to_be_visible()
    open_dialog()
    expect(dialog).to_contain_text("already: longer. Choose leases without these.")


def test_the_key_for_the_search_leads_to_the_leases(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("overview")
    page.keyboard.press("/")
    field = page.get_by_role("searchbox", name="Search by name or id")
    expect(field).to_be_focused()
    expect(field).to_have_value("")
    page.keyboard.type("a/b")
    expect(field).to_have_value("a/b")
    page.get_by_role("heading", name="Leases", level=1).focus()
    page.keyboard.press("/")
    expect(field).to_be_focused()
