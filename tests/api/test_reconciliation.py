"""GET /v1/ops/reconciliation."""

from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet

PATH = "/v1/ops/reconciliation"
IMPORT = """
    INSERT INTO invoice_import (id, file_name, file_hash, provider, month, lines, billing_accounts, first_day, last_day)
    VALUES ('import_01jz0000000000000000000001', 'focus.csv', '\\x00', 'aws', '2026-10-01', 3, '["payer"]', '2026-10-01', '2026-10-31')
"""
LINE = """
    INSERT INTO invoice_line (import_id, day, provider, billing_account, resource_id, charge_category, cost, is_vm,
        installation)
    VALUES ('import_01jz0000000000000000000001', %s, 'aws', 'payer', %s, 'Usage', %s, true, (SELECT id FROM installation WHERE %s))
"""
USE = """
    INSERT INTO usage_record (attempt_id, starts_at, revision, tenant_id, lease_id, lease_name, n, labels, provider,
        account, region, zone, instance_type, instance_id, market, seconds, price_per_hour, compute_cost, disk_cost,
        address_cost, list_cost, disk_gib_hours, gpu_hours)
    VALUES (%s, '2026-10-05T10:00Z', 0, %s, %s, 't', 1, '{}', 'aws', 'main', 'r', 'z', 'g5.xlarge', %s, 'spot',
        3600, 1, 1, 0.1, 0, 1, 0, 1)
"""


@pytest.fixture
def charged(database_url: str, alice: Caller) -> Fleet:
    """A matched day, an estimate without a charge, and a charge without a lease."""
    fleet = Fleet(database_url)
    fleet.run(IMPORT)
    for number, instance in enumerate(("i-1", "i-2")):
        fleet.run(USE, f"attempt_{number}", alice.tenant_id, "lease_1", instance)
    fleet.run(LINE, "2026-10-05", "i-1", "1.155", False)
    fleet.run(LINE, "2026-10-06", "i-9", "4", True)
    return fleet


async def ask(caller: Caller, **query: Any) -> dict[str, Any]:
    answer = await caller.get(PATH, params={"month": "2026-10", **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_month_is_compared_by_day_and_resource(charged: Fleet, operator: Caller, alice: Caller) -> None:
    found = await ask(operator)
    matched, missing, orphan = found["items"]
    assert matched == {
        "kind": "matched",
        "day": "2026-10-05",
        "provider": "aws",
        "resource_id": "i-1",
        "ours": True,
        "lease_id": "lease_1",
        "volume_id": None,
        "tenant_id": alice.tenant_id,
        "estimated": "1.10",
        "invoiced": "1.155",
        "difference": "0.055",
    }
    assert (missing["kind"], missing["difference"]) == ("gpulease_only", "-1.10")
    assert (orphan["kind"], orphan["resource_id"], orphan["ours"]) == ("cloud_only", "i-9", True)
    mine, nobodys = found["totals"]
    assert (mine["tenant_id"], mine["estimated"], mine["invoiced"]) == (alice.tenant_id, "2.20", "1.155")
    assert (nobodys["tenant_id"], nobodys["unlisted"]) == (None, 1)
    assert [(one["file_name"], one["last_day"]) for one in found["imports"]] == [("focus.csv", "2026-10-31")]
    assert (await ask(operator, month="2026-09"))["items"] == []


async def test_the_comparison_has_pages_and_filters(charged: Fleet, operator: Caller, alice: Caller) -> None:
    everything = (await ask(operator))["items"]
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while not seen or cursor["cursor"]:
        page = await ask(operator, limit=1, count="true", **cursor)
        seen += page["items"]
        cursor = {"cursor": page["next_cursor"]}
        assert page["total_count"] == 3
    assert seen == everything
    assert [one["kind"] for one in (await ask(operator, kind="cloud_only"))["items"]] == ["cloud_only"]
    assert len((await ask(operator, tenant_id=alice.tenant_id))["items"]) == 2
    wrong = await operator.get(PATH, params={"month": "2026-13"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "#/query/month")
    assert (await operator.get(PATH, params={"month": "2026-10", "cursor": "x"})).status_code == 422


async def test_charges_without_a_lease_are_a_metric(charged: Fleet, operator: Caller) -> None:
    charged.run("UPDATE invoice_import SET unlisted_resources = 1, month = date_trunc('month', now())")
    assert "gpulease_unlisted_charges 1.0" in (await operator.get("/metrics")).text
