"""What happens elsewhere appears by itself, and what is done here happens."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import psycopg
from playwright.sync_api import expect
from psycopg.types.json import Jsonb

from app.local.waiting import wait_until
from tests.browser.test_money import computed
from tests.browser.visitor import Visitor
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import PATIENCE, Stack

WIDE, PHONE = 1366, 360
SPOT = {**ONE_A10G, "market": "spot"}


@contextmanager
def launches_stopped(operator: Operator) -> Iterator[None]:
    operator.stop_launches(stopped=True)
    try:
        yield
    finally:
        operator.stop_launches(stopped=False)


def test_a_queued_lease_becomes_active_without_a_reload(
    visitor: Visitor, operator: Operator, tenant: Tenant, stack: Stack
) -> None:
    with launches_stopped(operator):
        lease_id = tenant.create({**ONE_A10G, "name": "waiting"})
        visitor.sign_in(stack.credentials.operator_key)
        expect(visitor.page.get_by_text("All launches are stopped")).to_be_visible()
        visitor.page.get_by_role("link", name=re.compile("^Leases running")).click()
        visitor.page.evaluate("window.untouched = true")
        expect(visitor.state("waiting")).to_have_text("queued")
    expect(visitor.state("waiting")).to_have_text("active")
    visitor.page.get_by_role("link", name="waiting", exact=True).click()
    timeline = visitor.page.locator(".timeline")
    for state in ("queued", "provisioning", "booting", "active"):
        expect(timeline.get_by_text(state)).to_be_visible()
    expect(visitor.page.get_by_text(tenant.lease(lease_id)["placement"]["instance_id"]).first).to_be_visible()
    expect(visitor.page.get_by_role("region", name="Attempts").get_by_text("launched")).to_be_visible()
    assert visitor.page.evaluate("window.untouched") is True


def test_a_lease_that_waits_explains_itself(visitor: Visitor, tenant: Tenant, cloud: Cloud) -> None:
    with cloud.capacity(0, instance_type="p4d.24xlarge"):
        lease_id = tenant.create({"instance_types": ["p4d.24xlarge"], "ttl_seconds": 3600, "wait_seconds": 600})
        visitor.sign_in(tenant.key)
        visitor.go(f"leases/{lease_id}")
        candidates = visitor.page.get_by_role("region", name="Candidates")
        expect(candidates.get_by_text("cooling off").first).to_be_visible()
        expect(visitor.page.get_by_text(re.compile("gpulease (tries|is launching)")).first).to_be_visible()
        expect(visitor.page.get_by_text(re.compile("^Allow the instance type"))).to_be_visible()
        visitor.page.get_by_text(re.compile("excluded$")).click()
        visitor.must_be_accessible()
        visitor.page.set_viewport_size({"width": PHONE, "height": 850})
        visitor.must_fit()
        visitor.picture("lease-waiting-phone")
        visitor.page.set_viewport_size({"width": WIDE, "height": 850})
        visitor.picture("lease-waiting-wide")


def test_filters_and_search_live_in_the_address(visitor: Visitor, tenant: Tenant) -> None:
    for name in ("train-7b", "notebook"):
        tenant.create({**ONE_A10G, "name": name})
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    page = visitor.page
    expect(page.get_by_role("main").get_by_role("row")).to_have_count(3)
    page.get_by_label("Search by name or id").fill("TRAIN")
    expect(page.get_by_role("main").get_by_role("row")).to_have_count(2)
    expect(visitor.row("train-7b")).to_be_visible()
    assert "search=TRAIN" in page.url
    page.get_by_role("link", name="Clear").click()
    expect(visitor.row("notebook")).to_be_visible()
    page.get_by_role("link", name="failed").click()
    expect(page.get_by_text("No lease matches the filters.")).to_be_visible()
    page.go_back()
    expect(visitor.row("notebook")).to_be_visible()
    page.get_by_label("Cloud").select_option("aws")
    page.get_by_role("link", name="Name", exact=True).click()
    expect(page.get_by_role("main").get_by_role("row").nth(1)).to_contain_text("notebook")
    assert {"provider=aws", "sort=name"} <= set(page.url.partition("?")[2].split("&"))


def test_the_members_of_a_group_are_extended_together(visitor: Visitor, tenant: Tenant) -> None:
    group = tenant.http.post("/v1/groups", json={"name": "nodes", "size": 2, "lease": ONE_A10G}).json()
    visitor.sign_in(tenant.key)
    visitor.go(f"groups/{group['id']}")
    page = visitor.page
    page.get_by_role("button", name="Extend").click()
    page.get_by_label(re.compile("^4 hours")).check()
    page.get_by_role("dialog").get_by_role("button", name="Extend").click()
    expect(page.get_by_text(re.compile("nodes now ends"))).to_be_visible()
    ends = {tenant.lease(member["lease_id"])["expires_at"] for member in group["members"]}
    assert ends == {tenant.http.get(f"/v1/groups/{group['id']}").json()["expires_at"]}
    assert min(ends) > group["expires_at"]
    tenant.http.delete(f"/v1/groups/{group['id']}")


def test_the_dialog_of_an_extension_offers_what_the_limits_allow(visitor: Visitor) -> None:
    hour, now = 3600, 1_800_000_000
    lease = {"created_at": "2027-01-15T07:00:00Z", "expires_at": "2027-01-15T10:00:00Z"}  # an hour ago, in two hours
    limits = {"max_ttl_seconds": 24 * hour, "max_total_seconds": 8 * hour + 90}

    def offered(**changes: int) -> list[int]:
        call = f"m.offeredTerms({json.dumps(lease)}, {json.dumps({**limits, **changes})}, {now * 1000})"
        return [seconds for seconds, _ in computed(visitor.page, "parts/lease_actions.js", call)]

    assert offered() == [hour, 4 * hour, 5 * hour + 60]
    assert offered(max_ttl_seconds=2 * hour + 600) == [600]
    assert offered(max_ttl_seconds=2 * hour) == []
    assert offered(max_total_seconds=100 * hour, max_ttl_seconds=100 * hour) == [hour, 4 * hour, 12 * hour, 24 * hour]


def test_a_release_asks_first_and_an_extension_counts(visitor: Visitor, tenant: Tenant) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "done-with"})
    before = tenant.wait(lease_id, "active")
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    page = visitor.page
    page.get_by_role("button", name="Extend done-with").click()
    added = 4 * Decimal(before["cost"]["price_per_hour"])
    page.get_by_label(re.compile(rf"^4 hours.*adds at most \${added:.2f}$")).check()
    page.get_by_role("button", name="Extend", exact=True).click()
    expect(page.get_by_text(re.compile("done-with now ends"))).to_be_visible()
    assert tenant.lease(lease_id)["expires_at"] > before["expires_at"]
    page.get_by_role("button", name="Release done-with").click()
    expect(page.get_by_role("dialog", name="Release done-with?")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert tenant.lease(lease_id)["desired"] == "run"
    page.get_by_role("button", name="Release done-with").click()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text("done-with is being released.")).to_be_visible()
    expect(page.get_by_text("No lease is running.")).to_be_visible()
    assert tenant.wait(lease_id, "released")["reason"]["code"] == "released_by_user"


def test_an_interruption_appears_by_itself(visitor: Visitor, tenant: Tenant, cloud: Cloud) -> None:
    lease_id = tenant.create({**SPOT, "name": "on-spot"})
    vm = tenant.wait(lease_id, "active")["placement"]["instance_id"]
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    expect(visitor.state("on-spot")).to_have_text("active")
    cloud.interrupt(vm, notice_seconds=6)
    expect(visitor.row("on-spot").get_by_text("interruption", exact=True)).to_be_visible()
    visitor.go(f"leases/{lease_id}")
    expect(visitor.page.get_by_text("The provider interrupts this VM")).to_be_visible()
    expect(visitor.page.get_by_text(re.compile("^interrupted")).first).to_be_visible()
    expect(visitor.page.locator(".head").get_by_text("released")).to_be_visible()


def test_a_vm_without_a_lease_is_shown_and_ended_on_demand(
    visitor: Visitor, operator: Operator, cloud: Cloud, stack: Stack
) -> None:
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("accounts")
    vm = cloud.plant({"gpulease-installation": operator.installation_id()})
    visitor.page.get_by_role("button", name=f"End now {vm}").click()
    visitor.page.get_by_role("button", name="End the VM").click()
    expect(visitor.page.get_by_text(f"{vm} will be ended in the next cycle.")).to_be_visible()
    assert wait_until(lambda: not cloud.vm(vm)["alive"], timeout=PATIENCE)
    visitor.ask_until(visitor.page.get_by_role("row").filter(has_text=vm).get_by_text("gone"))
    visitor.page.get_by_role("link", name="Hide terminated orphans").click()
    expect(visitor.page.get_by_role("row").filter(has_text=vm)).to_have_count(0)
    visitor.page.get_by_role("link", name="Include terminated orphans").click()
    expect(visitor.page.get_by_role("row").filter(has_text=vm)).to_be_visible()


FAILED_CHECK = {
    "subject": "right",
    "name": "ec2:DescribeVolumes",
    "result": "failed",
    "detail": "UnauthorizedOperation",
    "fix": "grant ec2:DescribeVolumes",
    "region": "us-east-1",
}


def test_a_failed_check_is_shown_with_its_fix_and_another_run_can_be_requested(visitor: Visitor, stack: Stack) -> None:
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute(
            "INSERT INTO account_check (account, checked_at, failed, checks) SELECT name, now(), 1, %s FROM account LIMIT 1 "
            "ON CONFLICT (account) DO UPDATE SET checked_at = excluded.checked_at, failed = 1, checks = excluded.checks",
            [Jsonb([FAILED_CHECK])],
        )
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("accounts")
    expect(visitor.page.get_by_text("right ec2:DescribeVolumes")).to_be_visible()
    expect(visitor.page.get_by_text("Fix: grant ec2:DescribeVolumes")).to_be_visible()
    visitor.must_be_accessible()
    visitor.page.get_by_role("button", name=re.compile("^Check again: ")).click()
    expect(visitor.page.get_by_text("No VM is started")).to_be_visible()


def test_the_api_goes_away_and_comes_back_and_so_does_the_page(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    expect(visitor.page.get_by_text("No lease is running.")).to_be_visible()
    visitor.page.evaluate("window.untouched = true")
    stack.kill("api")
    visitor.ask_again()
    expect(visitor.page.get_by_text("The API does not respond")).to_be_visible()
    stack.wait_until_ready()
    tenant.create({**ONE_A10G, "name": "afterwards"})
    expect(visitor.row("afterwards")).to_be_visible()
    expect(visitor.page.get_by_text("The API does not respond")).to_have_count(0)
    assert visitor.page.evaluate("window.untouched") is True
    visitor.forgive("net::ERR|Failed to load resource")


def test_without_the_event_stream_the_clock_does(visitor: Visitor, tenant: Tenant) -> None:
    visitor.page.route("**/v1/events/stream", lambda route: route.abort())
    visitor.sign_in(tenant.key)
    visitor.go("leases")
    tenant.create({**ONE_A10G, "name": "told-by-nobody"})
    expect(visitor.state("told-by-nobody")).to_have_text("active")
    visitor.forgive("ERR_FAILED")


def test_the_stream_is_open_while_somebody_is_signed_in(visitor: Visitor, tenant: Tenant) -> None:
    with visitor.page.expect_request("**/v1/events/stream") as opened:
        visitor.sign_in(tenant.key)
    assert opened.value.url.endswith("/v1/events/stream"), "the key is not in the address"
    answer = opened.value.response()
    assert answer is not None
    assert answer.headers["content-type"].startswith("text/event-stream")
    with visitor.page.expect_event("requestfailed", lambda request: request.url == opened.value.url):
        visitor.page.get_by_role("button", name="Sign out").click()
