"""The catalogue of prices: cards by GPU, what recent launches taught, and the form that a row fills."""

import json
import re

from playwright.sync_api import Route, expect

from tests.browser.test_every_view import look_at
from tests.browser.test_money import computed
from tests.browser.visitor import Visitor
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import Stack


def test_a_row_of_prices_says_where_and_fills_the_form(visitor: Visitor, tenant: Tenant, stack: Stack) -> None:
    tenant.wait(tenant.create(ONE_A10G), "active")
    page = visitor.page
    visitor.sign_in(tenant.key)
    visitor.go("prices")
    card = page.locator(".panel").filter(has=page.get_by_role("heading", name="A10G 24 GiB"))
    row = card.get_by_role("row").filter(has_text=re.compile(r"^1 GPUon demand"))
    expect(row).to_contain_text("AWS us-east-1g5.xlarge")
    expect(row).to_contain_text(re.compile(r"\d+ of \d+ready in"))
    expect(row).to_contain_text("$1.02")
    expect(card.get_by_role("row").filter(has_text="8 GPUs").first).to_contain_text("a GPU")
    look_at(visitor, "prices")
    page.get_by_label("Market").select_option("spot")
    expect(row).to_have_count(0)
    link = card.get_by_role("link", name="Lease this 4 GPUs, A10G spot")
    link.focus()
    page.keyboard.press("Enter")
    for label, value in (("GPU model", "A10G"), ("GPUs", "4"), ("Market", "spot")):
        expect(page.get_by_label(label, exact=True)).to_have_value(value)
    expect(page.locator(".plan").get_by_role("row").filter(has_text="g5.12xlarge").first).to_be_visible()
    visitor.go("prices?gpu_model=nothing")
    expect(page.get_by_text("No offering matches the filters.")).to_be_visible()
    page.route(re.compile("/v1/offerings"), refuse)
    visitor.go("prices?provider=gcp")
    expect(page.get_by_role("alert").filter(has_text="Catalogue closed.")).to_be_visible()
    visitor.must_be_accessible()
    visitor.forgive("status of 500")


def refuse(route: Route) -> None:
    route.fulfill(status=500, body=json.dumps({"detail": "Catalogue closed."}), content_type="application/problem+json")


def offering(count: int = 1, price: str | None = "2.00", status: str = "unknown", **statistics: int | None) -> str:
    known = {"launches": 0, "refusals": 0, "ready_seconds": None, **statistics}
    until = "2026-11-29T12:00:00Z" if status == "cooling_off" else None
    return json.dumps(
        {
            "gpu": {"model": "A100", "vendor": "nvidia", "memory_gib": 40, "count": count, "fraction": 1},
            "market": "spot",
            "price_per_hour": price,
            "price_per_gpu_hour": price and str(float(price) / count),
            "availability": {"status": status, "until": until},
            "statistics": known,
        }
    )


def test_cards_and_what_launches_taught_are_computed(visitor: Visitor) -> None:
    page = visitor.page
    several = f"[{offering(8, '16.00')}, {offering(price=None)}, {offering(1, '3.00')}, {offering(1, '2.50')}]"
    (card,) = computed(page, "price_cards.js", f"m.priceCards({several})")
    assert (card["lowest"], card["sizes"]) == (2, 1)
    assert [(row["count"], row["best"]["price_per_hour"], len(row["offerings"])) for row in card["rows"]] == [
        (1, "2.50", 3),
        (8, "16.00", 1),
    ]
    cooling, gone = offering(status="cooling_off", refusals=3), offering(status="unavailable", launches=5)
    fine = offering(launches=9, refusals=1, ready_seconds=70)
    poor = offering(launches=1, refusals=3)
    for offerings, kind in (
        (f"{gone}", "unavailable"),
        (f"{cooling}, {gone}", "cooling_off"),
        (f"{offering()}, {gone}", "untried"),
        (f"{fine}, {gone}", "good"),
        (f"{fine}, {cooling}, {poor}", "mixed"),
        (f"{poor}", "poor"),
    ):
        assert computed(page, "price_cards.js", f"m.learned([{offerings}])")["kind"] == kind, offerings
    assert computed(page, "price_cards.js", f"m.learned([{fine}]).ready") == 70
