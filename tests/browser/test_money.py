"""Budgets, costs, spend caps and quotes: what the dashboard shows and changes of them."""

import json
import re
from typing import Any

import psycopg
from playwright.sync_api import Page, expect

from app.local.waiting import wait_until
from tests.browser.test_every_view import look_at
from tests.browser.test_usage import chart, must_be_drawn, remember
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import PATIENCE, Stack

BILL = """
    WITH imported AS (
        INSERT INTO invoice_import (id, file_name, file_hash, provider, month, lines, billing_accounts, first_day, last_day)
        SELECT 'import_1', 'focus.csv', '\\x00', 'aws', date_trunc('month', today), 1, '["payer"]', today, today
        FROM (SELECT (now() AT TIME ZONE 'UTC')::date) AS clock (today) RETURNING id, first_day)
    INSERT INTO invoice_line (import_id, day, provider, billing_account, resource_id, charge_category, cost, is_vm,
        installation)
    SELECT imported.id, first_day, 'aws', 'payer', 'i-foreign', 'Usage', 31.20, true, installation.id
    FROM imported, installation
"""
"""A VM of this installation that no lease knows."""


def recorded(stack: Stack, tenant: Tenant) -> bool:
    """Usage records contain the lease of test_usage."""
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute("SET ROLE gpulease_worker")
        row = database.execute("SELECT sum(compute_cost) > 95.99 FROM usage_record WHERE tenant_id = %s", [tenant.id])
        return bool((row.fetchone() or [None])[0])


def computed(page: Page, module: str, expression: str) -> Any:
    """What a module of the dashboard computes: `m` is the module."""
    return page.evaluate(
        f"async () => {{ const m = await import(new URL('{module}', document.baseURI)); return {expression}; }}"
    )


def test_a_budget_is_created_watched_changed_and_deleted(visitor: Visitor, tenant: Tenant) -> None:
    tenant.wait(tenant.create({**ONE_A10G, "name": "counted", "labels": {"team": "vision"}}), "active")
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("budgets")
    expect(page.get_by_text("No budgets yet.")).to_be_visible()
    page.get_by_role("button", name="Create a budget").click()
    page.get_by_label("leases with a label").check()
    page.get_by_label("Label", exact=True).fill("team:vision")
    page.get_by_label("Amount, USD").fill("ten")
    page.get_by_role("button", name="Create", exact=True).click()
    amount = page.get_by_label("Amount, USD")
    expect(amount).to_have_attribute("aria-invalid", "true")
    amount.fill("100")
    look_at(visitor, "budget-dialog")
    page.get_by_role("button", name="Create", exact=True).click()
    row = page.get_by_role("row").filter(has_text="Label team:vision")
    expect(row).to_contain_text("committed of $100.00 a month")
    expect(row.get_by_text("within the amount")).to_be_visible()
    row.get_by_role("button", name="Change the budget").click()
    page.get_by_label("Amount, USD").fill("0.10")
    page.get_by_label(re.compile("^Only notifies")).check()
    page.get_by_role("button", name="Save").click()
    expect(row.get_by_text("exceeded", exact=True)).to_be_visible()
    expect(row).to_contain_text("Only notifies")
    look_at(visitor, "budgets")
    visitor.go("overview")
    expect(page.locator(".panel").filter(has_text="Budgets").get_by_text("exceeded", exact=True)).to_be_visible()
    visitor.go("budgets")
    row.get_by_role("button", name="Delete the budget").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No budgets yet.")).to_be_visible()
    visitor.forgive("status of 422")


def test_operators_set_budgets_that_admins_only_read(
    visitor: Visitor, tenant: Tenant, operator: Operator, stack: Stack
) -> None:
    page = visitor.page
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go(f"budgets?tenant_id={tenant.id}")
    page.get_by_role("button", name="Create a budget").click()
    page.get_by_label("Amount, USD").fill("0")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="All leases")).to_contain_text("of $0.00 a month")
    (budget,) = operator.items("/v1/budgets", tenant_id=tenant.id)
    assert (budget["set_by"], budget["when_exceeded"], budget["thresholds"]) == ("operator", "refuse", [50, 80, 100])
    visitor.go("fleet")
    visitor.settled()
    page.get_by_role("button", name="Sign out").click()
    visitor.sign_in(tenant.key)
    visitor.go("budgets")
    row = page.get_by_role("row").filter(has_text="All leases")
    expect(row).to_contain_text("set by operators")
    expect(row.get_by_role("button")).to_have_count(0)


def test_costs_are_divided_ranked_and_saved(visitor: Visitor, stack: Stack, tenant: Tenant) -> None:
    remember(stack, tenant)
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute("SET ROLE gpulease_worker")
        database.execute("UPDATE periodic_job SET next_due = now() WHERE kind = 'usage_records'")
    assert wait_until(lambda: recorded(stack, tenant), timeout=PATIENCE), "no usage records"
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("costs?range=24h")
    expect(page.get_by_text("Nothing was billed in the last 24 hours.")).to_be_visible()
    page.get_by_role("link", name="7 days").click()
    page.get_by_role("link", name="by GPU model").click()
    spend = chart(visitor, "Cost per day")
    must_be_drawn(spend)
    expect(spend.get_by_role("link", name="H100")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^Savings"))).to_contain_text("33 % by spot and reservations")
    ranking = page.locator(".panel").filter(has_text="Most expensive leases")
    expect(ranking.get_by_role("link", name="past")).to_be_visible()
    expect(page.get_by_text("if the present rate stays")).to_be_visible()
    look_at(visitor, "costs")
    with page.expect_download() as report:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert report.value.suggested_filename == "costs-7d.csv"
    assert report.value.path().read_text(encoding="utf-8").startswith("start,gpu_model,cost,")
    page.get_by_role("button", name="FOCUS").click()
    with page.expect_download() as usage:
        page.get_by_role("button", name="Download").click()
    assert re.fullmatch(r"focus-\d{4}-\d\d\.csv", usage.value.suggested_filename)
    assert "BilledCost" in usage.value.path().read_text(encoding="utf-8").partition("\n")[0]
    page.get_by_role("link", name="by hour").click()
    must_be_drawn(chart(visitor, "Cost per hour"))
    assert {"range=7d", "bucket=hour", "by=gpu_model"} <= set(page.url.partition("?")[2].split("&"))
    label = page.get_by_label("by label")
    label.fill("team")
    label.press("Enter")
    expect(chart(visitor, "Cost per hour").get_by_text("none", exact=True)).to_be_visible()
    label.fill("no key")
    label.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="the key of a label")).to_be_visible()
    page.get_by_role("link", name="by market").click()
    expect(label).to_have_value("")
    visitor.forgive("status of 422")


def test_a_lease_has_a_cap_and_comes_from_a_quote(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("leases/new")
    page.get_by_label("GPU model", exact=True).fill("A10G")
    page.get_by_label("Name", exact=True).fill("quoted")
    page.get_by_label("Max cost, USD").fill("2.50")
    page.get_by_text("More options", exact=True).click()
    page.get_by_label(re.compile("^Warnings")).fill("10, 2")
    expect(page.get_by_text(re.compile("reaches its max cost after"))).to_be_visible()
    page.get_by_role("button", name="Get a quote").click()
    expect(page.get_by_text("Quoted total")).to_be_visible()
    look_at(visitor, "create-quoted")
    page.get_by_role("button", name="Create lease from the quote").click()
    cost = page.locator(".panel").filter(has_text="Cost and term")
    expect(cost.get_by_text("of $2.50")).to_be_visible()
    expect(cost.get_by_text("10 m 00 s, 2 m 00 s before the end")).to_be_visible()
    expect(cost.get_by_text(re.compile(r"^launched at \$1\.02 an hour or less"))).to_be_visible()
    (lease,) = tenant.leases("!terminal")
    assert (lease["max_cost"], lease["expiry_warnings_seconds"]) == ("2.50", [600, 120])
    assert lease["quote_id"] is not None
    tenant.wait(lease["id"], "active")
    expect(cost.get_by_text(re.compile(r"The cost reaches \$2\.50"))).to_be_visible()
    page.get_by_role("button", name="Edit quoted").click()
    page.get_by_label("Max cost, USD").fill("")
    page.get_by_role("button", name="Save").click()
    expect(cost.get_by_text("The term is over.")).to_be_visible()
    assert tenant.lease(lease["id"])["max_cost"] is None


def test_an_orphan_in_a_bill_is_an_alarm(visitor: Visitor, stack: Stack) -> None:
    with psycopg.connect(stack.credentials.database_url) as database:
        database.execute(BILL)
    page = visitor.page
    visitor.sign_in(stack.credentials.operator_key)
    visitor.go("reconciliation")
    expect(page.get_by_text("1 charged resource of this installation without a lease or volume.")).to_be_visible()
    look_at(visitor, "reconciliation")
    page.get_by_label("Kind").select_option("cloud_only")
    row = page.get_by_role("row").filter(has_text="i-foreign")
    expect(row.get_by_text("orphan")).to_be_visible()
    expect(row).to_contain_text("+$31.20")


def test_a_key_gets_a_budget(visitor: Visitor, tenant: Tenant) -> None:
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("keys")
    visitor.settled()
    page.get_by_role("button", name="Create a key").click()
    page.get_by_label("Name", exact=True).fill("agent")
    page.get_by_label(re.compile("^Budget for")).fill("5.00")
    page.get_by_label("Expires after days").fill("1")
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("button", name="Done").click()
    visitor.go("budgets")
    row = page.get_by_role("row").filter(has_text="API key agent")
    expect(row).to_contain_text("of $5.00 in all")
    expect(row).to_contain_text("Never resets")


def test_series_rankings_and_bars_are_computed(visitor: Visitor) -> None:
    page = visitor.page
    leap = computed(
        page, "steps.js", "m.stepsBetween(Date.UTC(2028, 0) / 1000, Date.UTC(2028, 3) / 1000, 'month').starts"
    )
    assert leap == [1830297600, 1832976000, 1835481600]
    assert computed(page, "steps.js", "m.ceiling(1832976001, 'month')") == 1835481600
    assert computed(page, "steps.js", "m.monthsBefore(Date.UTC(2028, 1) / 1000, 3)") == 1825027200
    start = "2028-02-01T00:00:00Z"
    amounts = {"compute": "0", "disk": "0", "address": "0", "list_cost": "0", "savings": "0", "gpu_hours": 1}
    items = [{"start": start, "group": {"region": f"r{n}"}, "cost": f"{n}.5", **amounts} for n in range(12)]
    report = json.dumps({"starts_at": start, "ends_at": "2028-04-01T00:00:00Z", "items": items})
    made = computed(page, "cost_series.js", f"m.costSeries({report}, 'month', 'region')")
    assert [one["key"] for one in made["series"]] == [*(f"r{n}" for n in range(11, 2, -1)), "other"]
    assert made["series"][-1]["values"] == [4.5, 0]
    assert sum(one["total"] for one in made["series"]) == 72
    budget = {"amount": "100", "spent": "60", "committed": "65", "thresholds": [50, 100, 200], "exceeded": True}
    bar = computed(page, "parts/budgets.js", f"m.barOf({json.dumps(budget)})")
    assert bar == {
        "spent": 48,
        "held": 100,
        "ticks": [{"at": 40, "percent": 50, "reached": True}, {"at": 80, "percent": 100, "reached": False}],
    }
    months = computed(page, "steps.js", "m.lastMonths(Date.UTC(2028, 2, 31))")
    assert months[:2] == [["2028-03", "March 2028"], ["2028-02", "February 2028"]]
    assert months[-1] == ["2027-03", "March 2027"]
