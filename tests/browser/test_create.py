"""Creating a lease: the plan, the same request elsewhere, errors beside their fields."""

import json
import os
import re
import subprocess
import sys

from playwright.sync_api import Page, Route, expect

from tests.browser.visitor import Visitor
from tests.e2e.cloud import Cloud
from tests.e2e.people import Tenant
from tests.e2e.stack import PATIENCE, Stack
from tests.harness.databases import ROOT

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtK0Jm1ZPyZ0mUe7W2Qq6i2hK4b1z1J9b0p1V4mEvEy me@laptop"


def fill(page: Page, **fields: str) -> None:
    """The form's fields by their labels, with _ for a space."""
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)


def shown_request(page: Page, form: str) -> str:
    page.get_by_role("button", name=form, exact=True).click()
    return page.locator(".beside pre").inner_text()


def test_a_lease_is_created_after_its_plan(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    page.get_by_role("link", name="Create a lease").first.click()
    expect(page.get_by_text("Choose a GPU model")).to_be_visible()
    fill(page, GPU_model="a10g", Name="from the page", Term="2")
    plan = page.locator(".plan")
    expect(plan.get_by_text("Total for 2 h")).to_be_visible()
    expect(plan.get_by_role("row").filter(has_text="g5.xlarge").first).to_be_visible()
    expect(plan.get_by_text("16 left of 16")).to_be_visible()
    page.get_by_role("button", name="Create lease").click()
    expect(page.get_by_role("heading", name="from the page", level=1)).to_be_visible()
    expect(page).to_have_title("from the page · Leases · gpulease")
    (lease,) = tenant.leases("!terminal")
    request = lease["request"]
    assert (lease["name"], request["ttl_seconds"], request["market"]) == ("from the page", 7200, "on_demand")
    assert (request["gpu"]["model"], request["gpu"]["count"]) == ("A10G", 1)


def test_no_plan_is_requested_while_the_lease_is_created(visitor: Visitor, tenant: Tenant) -> None:
    """The plan of a request whose name the new lease has taken would be refused."""
    page = visitor.page
    page.clock.install()
    visitor.leaves_a_trace = True

    def answered_late(route: Route) -> None:
        answer = route.fetch()
        page.clock.fast_forward(1000)
        route.fulfill(response=answer)

    page.route(re.compile("/v1/leases$"), answered_late)
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    fill(page, GPU_model="A10G", Name="at once")
    page.get_by_role("button", name="Create lease").click()
    expect(page.get_by_role("heading", name="at once", level=1)).to_be_visible()
    assert 409 not in visitor.asked("/v1/leases/plan")


def test_the_same_request_is_what_the_command_and_the_api_take(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    fill(page, GPU_model="A10G", Name="it's mine", Term="90", GPUs="4")
    page.get_by_label("Unit of the term").select_option("minutes")
    page.get_by_label("Accept more GPUs").check()
    page.get_by_text("More options", exact=True).click()
    page.get_by_label("Labels, one key=value per line").fill("team=vision\njob=night run")
    body = json.loads(shown_request(page, "JSON"))
    assert body == {
        "name": "it's mine",
        "gpu": {"model": "A10G", "min_count": 4},
        "market": "on_demand",
        "ttl_seconds": 5400,
        "labels": {"team": "vision", "job": "night run"},
    }
    assert f"{stack.credentials.api_url}/v1/leases" in shown_request(page, "curl")
    fill(page, Name="its own")
    assert offers(shown_request(page, "CLI"), stack, tenant) == [4]
    page.get_by_label("Start-up script").fill("#!/bin/sh\necho 'it works'")
    assert offers(shown_request(page, "CLI"), stack, tenant) == [4], "a script travels in the request's JSON"
    visitor.forgive("status of 422")


def offers(command: str, stack: Stack, tenant: Tenant) -> list[int]:
    """The GPUs of the first candidate that the shown command plans."""
    planned = command.replace("gpulease lease create", f"{sys.executable} -P -m app.cli --json lease plan")
    environment = {**os.environ, "GPULEASE_URL": stack.credentials.api_url, "GPULEASE_KEY": tenant.key}
    done = subprocess.run(
        ["/bin/sh", "-c", planned],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [one["offering"]["gpu"]["count"] for one in json.loads(done.stdout)["candidates"][:1]]


def test_a_group_shows_the_price_of_each_member_and_of_all_before_it_starts(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("groups")
    page.get_by_role("link", name="Create a group").first.click()
    fill(page, GPU_model="A10000", Name="nodes")
    expect(page.get_by_label("GPU model", exact=True)).to_have_accessible_description(re.compile("did you mean A100"))
    fill(page, GPU_model="A10G")
    page.get_by_label("Members", exact=True).fill("3")
    plan = tenant.http.post(
        "/v1/groups/plan",
        json={"name": "nodes", "size": 3, "lease": {"gpu": {"model": "A10G"}, "ttl_seconds": 4 * 3600}},
    ).json()
    each = f"${float(plan['member_cost']['price_per_hour']):.2f}"
    expect(page.get_by_text(f"3 members at {each} an hour each.")).to_be_visible()
    expect(page.get_by_text(f"${float(plan['cost']['price_per_hour']):.2f}", exact=True)).to_be_visible()
    visitor.must_be_accessible()
    page.get_by_role("button", name="Create group").click()
    expect(page.get_by_role("heading", name="nodes", level=1)).to_be_visible()
    expect(page.get_by_text("an hour for all members")).to_be_visible()
    visitor.forgive("status of 422")


def test_errors_stand_beside_their_fields(visitor: Visitor, tenant: Tenant) -> None:
    tenant.create({"gpu": {"model": "A10G"}, "name": "mine", "ttl_seconds": 3600})
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    fill(page, GPU_model="A10000")
    model = page.get_by_label("GPU model", exact=True)
    expect(model).to_have_accessible_description(re.compile("did you mean A100"))
    expect(model).to_have_attribute("aria-invalid", "true")
    visitor.must_be_accessible()
    fill(page, GPU_model="A10G", Name="mine")
    expect(model).not_to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Create lease").click()
    page.get_by_role("alert").get_by_role("link", name="Show that lease").click()
    expect(page).to_have_title("mine · Leases · gpulease")
    visitor.forgive("status of 4(09|22)")


def test_a_stored_key_is_offered_and_used(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("keys")
    visitor.settled()
    page.get_by_role("button", name="Add an SSH key").click()
    fill(page, Name="laptop", Public_key=SSH_KEY)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("region", name="SSH keys").get_by_text("default", exact=True)).to_be_visible()
    visitor.go("leases/new")
    expect(page.get_by_label("laptop", exact=True)).to_be_checked()
    fill(page, GPU_model="A10G")
    assert "--ssh-key laptop" in shown_request(page, "CLI")
    page.get_by_role("button", name="Create lease").click()
    expect(page.locator(".timeline")).to_be_visible()
    (lease,) = tenant.leases("!terminal")
    assert [key.split()[1] for key in lease["request"]["ssh_public_keys"]] == [SSH_KEY.split()[1]]


def test_a_failed_lease_says_what_to_try_and_is_the_start_of_the_next(
    visitor: Visitor, tenant: Tenant, cloud: Cloud
) -> None:
    with cloud.capacity(0, instance_type="p4d.24xlarge"):
        lease_id = tenant.create({"instance_types": ["p4d.24xlarge"], "ttl_seconds": 10800, "labels": {"team": "nlp"}})
        tenant.wait(lease_id, "failed")
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go(f"leases/{lease_id}")
    reason = page.get_by_role("region", name="Reason")
    expect(reason.get_by_text("What to try")).to_be_visible()
    expect(reason.get_by_role("listitem").first).to_contain_text("p4d.24xlarge in AWS")
    page.get_by_role("link", name="Create again").click()
    page.get_by_text("More options", exact=True).click()
    expect(page.get_by_label("Instance types instead of a GPU model")).to_have_value("p4d.24xlarge")
    expect(page.get_by_label("Labels, one key=value per line")).to_have_value("team=nlp")
    expect(page.get_by_label("Term", exact=True)).to_have_value("3")
