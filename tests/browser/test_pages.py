"""Addresses, titles, scroll positions, and what one lease's page can change."""

import re
from pathlib import Path

from playwright.sync_api import Route, expect

from app.local.waiting import wait_until
from app.settings.providers import providers
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE

WIDE, LOW = 1366, 500


def scrolled_to(visitor: Visitor, position: int) -> bool:
    """Asked again and again: the page's policy forbids Playwright's own way to wait."""
    return wait_until(lambda: visitor.page.evaluate("scrollY") == position, timeout=PATIENCE, poll=0.05)


def test_an_unknown_address_is_not_found(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    for address in ("nosuch", "leases/new/more", "quotas/one"):
        visitor.go(address)
        expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    visitor.go("leases/lease_00000000000000000000000000")
    expect(page.get_by_role("heading", name="Lease not found")).to_be_visible()
    page.get_by_role("link", name="all leases").click()
    expect(page).to_have_title("Leases · gpulease")
    visitor.forgive("status of 404")


def test_the_list_fits_a_laptop_and_back_keeps_the_scroll_position(visitor: Visitor, tenant: Tenant) -> None:
    names = [f"a-rather-long-name-for-a-lease-{n}" for n in range(8)]
    for name in names:
        tenant.create({**ONE_A10G, "name": name})
    page = visitor.page
    page.set_viewport_size({"width": WIDE, "height": LOW})
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    expect(page.get_by_role("main").get_by_role("row")).to_have_count(9)
    assert visitor.sideways("Leases") == 0
    page.get_by_role("link", name=names[0], exact=True).scroll_into_view_if_needed()
    expect(page.get_by_role("main").get_by_text("g5.xlarge")).to_have_count(8)  # rows with a placement are higher
    leave = "name => { scrollTo(0, 200); [...document.links].find(link => link.textContent === name).click(); return scrollY; }"
    assert (
        page.evaluate(leave, names[0]) == 200
    )  # in one step: the browser tells of the scrolling after the address has changed
    expect(page).to_have_title(f"{names[0]} · Leases · gpulease")
    assert scrolled_to(visitor, 0)
    page.go_back()
    expect(page).to_have_title("Leases · gpulease")
    assert scrolled_to(visitor, 200)


def test_labels_filter_the_list(visitor: Visitor, tenant: Tenant) -> None:
    for name, team in (("one", "vision"), ("two", "speech")):
        tenant.create({**ONE_A10G, "name": name, "labels": {"team": team}})
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    page.get_by_label("Label", exact=True).fill("team=vision")
    page.get_by_label("Label", exact=True).press("Enter")
    expect(visitor.row("two")).to_have_count(0)
    expect(visitor.row("one")).to_be_visible()
    page.get_by_role("link", name="Remove the label filter team=vision").click()
    expect(visitor.row("two")).to_be_visible()


def test_a_lease_is_renamed_labelled_and_rebooted(visitor: Visitor, tenant: Tenant) -> None:
    script = {"startup_script": "#!/bin/sh\ntrue\n"}
    lease_id = tenant.create({**ONE_A10G, **script, "name": "before", "labels": {"team": "vision"}})
    tenant.wait(lease_id, "active")
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go(f"leases/{lease_id}")
    page.get_by_role("button", name="Edit before").click()
    page.get_by_label("Name", exact=True).fill("after")
    page.get_by_label("Labels, one key=value per line").fill("team=vision\nstage=test")
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_title("after · Leases · gpulease")
    assert tenant.lease(lease_id)["labels"] == {"team": "vision", "stage": "test"}
    page.get_by_role("button", name="Reboot after").click()
    page.get_by_role("button", name="Reboot", exact=True).click()
    expect(page.get_by_text(re.compile("^lease reboot(ing|ed)")).first).to_be_visible()
    expect(page.get_by_text("It runs the script once")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^Time, \w+"))).to_be_attached()


SCRIPTS = Path(__file__).parents[2] / "docs" / "startup-scripts.md"


def documented_commands() -> dict[str, list[str]]:
    """By provider: the command that shows the result of a start-up script, and the one that shows its output."""
    rows = re.findall(r"^\| ([\w, ]+) \| `(.+)` \| `(.+)` \|$", SCRIPTS.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.lower(): commands for names, *commands in rows for name in names.split(", ")}


def test_the_boot_panel_shows_the_commands_of_the_cloud_that_has_the_vm(visitor: Visitor, tenant: Tenant) -> None:
    commands = documented_commands()
    assert commands.keys() == providers().keys()
    lease_id = tenant.create({**ONE_A10G, "startup_script": "#!/bin/sh\ntrue\n"})
    tenant.wait(lease_id, "active")
    page, placed_at = visitor.page, ["aws"]

    def answer(route: Route) -> None:
        found = route.fetch(headers={**route.request.headers, "if-none-match": '"another"'})
        lease = found.json()
        lease["placement"]["provider"] = placed_at[0]
        route.fulfill(response=found, json=lease)

    page.route(re.compile(rf"/v1/leases/{lease_id}(\?|$)"), answer)
    visitor.sign_in(tenant.key)
    visitor.go(f"leases/{lease_id}")
    for provider, expected in commands.items():
        placed_at[0] = provider
        visitor.ask_again()
        for command, purpose in zip(expected, ("result", "output"), strict=True):
            button = page.get_by_role("button", name=f"Copy the command that shows the {purpose}")
            expect(button.locator("xpath=..").locator("code")).to_have_text(
                re.compile(f"^ssh .* {re.escape(command)}$")
            )
    page.unroute_all(behavior="wait")


def test_viewers_get_no_buttons(visitor: Visitor, tenant: Tenant) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "looked-at"})
    tenant.wait(lease_id, "active")
    made = tenant.http.post(f"/v1/tenants/{tenant.id}/keys", json={"name": "eyes", "role": "viewer"}).json()
    page = visitor.page
    visitor.sign_in(made["secret"])
    visitor.go("leases")
    expect(visitor.row("looked-at")).to_be_visible()
    visitor.go(f"leases/{lease_id}")
    expect(page.locator(".timeline")).to_be_visible()
    assert page.get_by_role("button", name=re.compile("Release|Extend|Edit|Reboot")).count() == 0
    visitor.go("leases/new")
    expect(page.get_by_text("Your key only reads.")).to_be_visible()
