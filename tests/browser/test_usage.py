"""Charts over time, and the overview: what they show, to eyes and to screen readers."""

import re

import psycopg
from playwright.sync_api import Locator, expect
from psycopg.types.json import Jsonb

from app.db.core.ids import new_id
from app.domain.lease_requests import LeaseRequest
from app.local.waiting import wait_until
from tests.browser.test_every_view import look_at
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE, Stack

NARROW, WIDE, HUGE = 360, 1366, 1920
HISTORY = """
    WITH made AS (
        INSERT INTO lease (id, tenant_id, name, request, minimum_claim, state, desired, provider, gpu_model, gpu_count,
            attempts_count, created_at, ready_at, ended_at, expires_at, wait_until, next_due, cost_closed)
        SELECT %(lease)s, id, 'past', %(request)s, '{}', 'released', 'end', 'aws', 'H100', 8, 1, now() - interval '5 days',
            now() - interval '5 days' + interval '90 seconds', now() - interval '3 days', now(), now(), NULL, 96
        FROM tenant WHERE id = %(tenant)s RETURNING id, tenant_id)
    INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,
        price_per_hour, list_price_per_hour, token, params_hash, state, clean, billing_started_at, billing_ended_at, ended_at)
    SELECT %(attempt)s, id, tenant_id, 1, 'aws', 'a', 'r', 'z', 't', 'spot', '{"gpu": {"model": "H100", "count": 8}}', 2,
        3, %(attempt)s, 'h', 'dead', true, now() - interval '5 days', now() - interval '3 days', now()
    FROM made
"""
"""Two days of eight GPUs, 96 USD; on demand they cost 144."""
AN_HOUR_AGO = """
    UPDATE attempt SET billing_started_at = billing_started_at - interval '1 hour' WHERE lease_id = %s
"""
"""A report ends with the last whole minute: what began since is not in it yet."""
DRAWN = """node => {
    const canvas = node.querySelector("canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) colours.add(data.slice(at, at + 3).join());
    return colours.size;
}"""


def remember(stack: Stack, tenant: Tenant) -> None:
    """A lease that ended days ago, which the job sums up as a correction."""
    request = LeaseRequest.from_json({"name": "past", **ONE_A10G}).as_json()
    ids = {"tenant": tenant.id, "lease": new_id("lease"), "attempt": new_id("attempt"), "request": Jsonb(request)}
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute("SET ROLE gpulease_worker")
        database.execute(HISTORY, ids)
        database.execute("UPDATE usage_progress SET rolled_until = NULL")
        database.execute("UPDATE periodic_job SET next_due = now() WHERE kind = 'usage'")
    assert wait_until(lambda: summed(stack, tenant), timeout=PATIENCE), "the job did not sum up"


def summed(stack: Stack, tenant: Tenant) -> bool:
    """The stored sums contain the past."""
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute("SET ROLE gpulease_worker")
        asked = "SELECT sum(cost) > 95.99 FROM usage_rollup WHERE tenant_id = %s AND step = 'hour' AND gpu_model = '*' AND provider = '*'"
        row = database.execute(asked, [tenant.id]).fetchone()
    return row is not None and bool(row[0])


def chart(visitor: Visitor, name: str) -> Locator:
    return visitor.page.get_by_role("figure", name=name)


def must_be_drawn(figure: Locator) -> None:
    """Axes and at least one series: a canvas that was never painted has no colours."""
    expect(figure.locator("canvas")).to_be_visible()
    assert wait_until(lambda: figure.evaluate(DRAWN) > 3, timeout=PATIENCE), "nothing is drawn"


def test_charts_show_what_was_used_and_read_as_tables(visitor: Visitor, stack: Stack, tenant: Tenant) -> None:
    remember(stack, tenant)
    visitor.sign_in(tenant.key)
    visitor.go("usage")
    expect(visitor.page.get_by_text("Nothing was used in the last 24 hours.")).to_be_visible()
    look_at(visitor, "usage-empty")
    visitor.page.get_by_role("link", name="7 days").click()
    visitor.page.get_by_role("link", name="by GPU model").click()
    assert {"range=7d", "by=gpu_model"} <= set(visitor.page.url.partition("?")[2].split("&"))
    spend = chart(visitor, "Spend per hour")
    must_be_drawn(spend)
    expect(spend.get_by_role("link", name="H100")).to_be_visible()
    expect(spend.get_by_text("$96.00")).to_be_visible()
    expect(chart(visitor, "GPUs in use").get_by_text("384 h")).to_be_visible()
    spend.get_by_text("Show as table").click()
    table = spend.get_by_role("table")
    expect(table.get_by_role("columnheader", name="H100")).to_be_visible()
    expect(table.get_by_role("cell", name="$2.00").first).to_be_visible()
    ready = chart(visitor, "Time to ready")
    ready.get_by_text("Show as table").click()
    expect(ready.get_by_role("cell", name="1 m 30 s")).to_have_count(2)
    expect(visitor.page.get_by_text("No failures in this range.")).to_be_visible()
    look_at(visitor, "usage")
    for width in (NARROW, HUGE):
        visitor.page.set_viewport_size({"width": width, "height": 900})
        visitor.must_fit()
    visitor.page.set_viewport_size({"width": WIDE, "height": 900})
    visitor.page.get_by_role("link", name="30 days").click()
    expect(visitor.page.get_by_text("Days are days in UTC.")).to_be_visible()
    expect(spend.get_by_text("$96.00")).to_be_visible()
    visitor.must_be_accessible()


def test_a_pointer_reads_the_values_of_one_step(visitor: Visitor, stack: Stack, tenant: Tenant) -> None:
    remember(stack, tenant)
    visitor.sign_in(tenant.key)
    visitor.go("usage?range=7d")
    spend = chart(visitor, "Spend per hour")
    must_be_drawn(spend)
    expect(spend.get_by_text("$96.00")).to_be_visible()
    spend.locator(".u-over").hover()
    expect(spend.locator(".when")).to_have_text(re.compile(r"\d \w+,? \d\d:\d\d"))
    expect(spend.get_by_text("$2.00")).to_be_visible()
    expect(chart(visitor, "GPUs in use").locator(".when")).not_to_be_empty()


def test_an_operator_sees_which_tenant_spends(visitor: Visitor, stack: Stack, tenant: Tenant) -> None:
    remember(stack, tenant)
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("usage?range=90d&by=tenant")
    spend = chart(visitor, "Spend per hour")
    must_be_drawn(spend)
    link = spend.locator(f"a[href*='{tenant.id}']")
    expect(link).to_be_visible()
    visitor.must_be_accessible()
    link.click()
    expect(visitor.row("past")).to_be_visible()


def test_the_overview_shows_what_runs_and_what_needs_attention(visitor: Visitor, stack: Stack, tenant: Tenant) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "ends-soon", "ttl_seconds": 300})
    tenant.wait(lease_id, "active")
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute("SET ROLE gpulease_worker")
        database.execute(AN_HOUR_AGO, [lease_id])
    visitor.sign_in(tenant.key)
    visitor.go("overview")
    attention = visitor.page.locator(".panel").filter(has_text="Needs attention")
    expect(attention.get_by_role("link", name="ends-soon")).to_be_visible()
    expect(attention.get_by_text("expiring soon")).to_be_visible()
    expect(visitor.page.get_by_role("link", name=re.compile("^Leases running"))).to_contain_text("1 active")
    must_be_drawn(chart(visitor, "GPUs in use"))
    look_at(visitor, "overview")
