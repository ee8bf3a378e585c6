"""Costs, forecast, budgets and quotes on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import OPERATOR_KEY, PLACE, TENANT_ID, Answer, FakeApi, Json, a_lease, problem
from tests.cli.test_completion import complete

AMOUNTS: Json = {
    "cost": "120.50",
    "compute": "118.00",
    "disk": "2.00",
    "address": "0.50",
    "list_cost": "300.00",
    "savings": "179.50",
    "gpu_hours": 48.5,
    "idle_gpu_hours": None,
    "idle_cost": None,
    "leases": 3,
}
DAY: Json = {"start": "2026-11-22T00:00:00Z", "group": {"tenant": "vision", "label:team": None}, **AMOUNTS}
COSTS: Json = {"items": [DAY, DAY], "total": {**AMOUNTS, "cost": "241.00", "leases": 4}, "next_cursor": None}
BUDGET: Json = {
    "id": "budget_00000000000000000000000001",
    "tenant_id": TENANT_ID,
    "scope": {"kind": "key", "tenant_id": TENANT_ID, "key_id": "key_00000000000000000000000001", "label": None},
    "period": "month",
    "amount": "100.00",
    "thresholds": [50, 80, 100],
    "when_exceeded": "refuse",
    "set_by": "admin",
    "spent": "20.00",
    "committed": "30.00",
    "available": "50.00",
    "exceeded": False,
    "resets_at": "2099-12-01T00:00:00Z",
}
BUDGETS = "/v1/budgets"


def test_costs_have_a_line_for_each_group_and_a_total(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/costs"] = COSTS
    result = replace(cli, environ={**cli.environ, "COLUMNS": "80"})(
        "costs", "--from", "2026-11-01", "--bucket", "day", "--by", "tenant,label:team"
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split()[:4] == ["2026-11-22", "vision", "-", "120.50"]
    assert lines[3].split()[:4] == ["total", "-", "-", "241.00"]
    (asked,) = api.asked
    assert asked.query | {"limit": ["200"]} == {
        "from": ["2026-11-01T00:00:00Z"],
        "bucket": ["day"],
        "group_by": ["tenant,label:team"],
        "limit": ["200"],
    }


def test_costs_as_csv_have_no_total_because_sheets_add_up_themselves(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/costs"] = COSTS
    header, *rows = cli("costs", "--by", "tenant", "--csv").stdout.splitlines()
    assert header.startswith("START,TENANT,COST USD,")
    assert rows == ["2026-11-22T00:00:00Z,vision,120.50,118.00,2.00,0.50,300.00,179.50,48.5,,,3"] * 2
    assert json.loads(cli("costs", "--json").stdout) == COSTS
    assert cli("costs", "--csv", "--json").exit_code == 2
    assert cli("costs", "--from", "2026-11-01T00:00:00").exit_code == 2


def test_costs_of_another_tenant_need_the_operator_key(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/costs"] = {**COSTS, "items": []}
    result = cli("costs", "--tenant", TENANT_ID)
    assert "no costs" in result.stderr
    (asked,) = api.asked
    assert (asked.key, asked.query["tenant_id"]) == (OPERATOR_KEY, [TENANT_ID])


def test_the_forecast_names_the_month_end_and_when_budgets_are_exhausted(api: FakeApi, cli: Cli) -> None:
    month = {"spent": "100.00", "committed": "50.00", "forecast": "812.34", "ends_at": "2099-12-01T00:00:00Z"}
    budgets = [
        {"id": "budget_00000000000000000000000001", "exhausted_at": "2099-11-28T10:00:00Z"},
        {"id": "budget_00000000000000000000000002", "exhausted_at": None},
    ]
    api.documents["GET", "/v1/forecast"] = {"run_rate_per_hour": "21.96", "month": month, "budgets": budgets}
    shown = cli("forecast").stdout
    assert "21.96 USD/h" in shown
    assert "812.34 USD" in shown
    assert "2099-11-28T10:00:00Z" in shown


@pytest.mark.parametrize(
    ("options", "scope", "key"),
    [
        ([], {"kind": "tenant"}, None),
        (
            ["--for-key", "key_00000000000000000000000007"],
            {"kind": "key", "key_id": "key_00000000000000000000000007"},
            None,
        ),
        (["--label", "team=vision"], {"kind": "label", "label": "team:vision"}, None),
        (["--tenant", TENANT_ID], {"kind": "tenant", "tenant_id": TENANT_ID}, OPERATOR_KEY),
    ],
)
def test_a_budget_counts_a_tenant_a_key_or_a_label(
    api: FakeApi, cli: Cli, options: list[str], scope: Json, key: str | None
) -> None:
    api.documents["POST", BUDGETS] = BUDGET
    result = cli("budget", "create", "100.00", "--thresholds", "50,80%", "--when-exceeded", "end", *options, "--json")
    assert result.exit_code == 0, result.output
    (asked,) = api.calls("POST", BUDGETS)
    assert asked.body == {
        "scope": scope,
        "period": "month",
        "amount": "100.00",
        "thresholds": [50, 80],
        "when_exceeded": "end",
    }
    assert asked.headers["idempotency-key"]
    assert key in {None, asked.key}


def test_budgets_are_listed_changed_and_deleted(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", BUDGETS] = {"items": [BUDGET], "next_cursor": None}
    api.documents["GET", f"{BUDGETS}/budget_00000000000000000000000001"] = BUDGET
    api.documents["PATCH", f"{BUDGETS}/budget_00000000000000000000000001"] = BUDGET
    api.documents["DELETE", f"{BUDGETS}/budget_00000000000000000000000001"] = {}
    shown = cli("budget", "list").stdout
    assert "key key_00000000000000000000000001" in shown
    assert "50.00" in shown
    assert "100.00" in cli("budget", "show", "budget_00000000000000000000000001").stdout
    assert (
        cli("budget", "update", "budget_00000000000000000000000001", "--amount", "200", "--thresholds", "90").exit_code
        == 0
    )
    assert api.calls("PATCH", f"{BUDGETS}/budget_00000000000000000000000001")[0].body == {
        "amount": "200",
        "thresholds": [90],
    }
    assert (
        "deleted budget_00000000000000000000000001"
        in cli("budget", "delete", "budget_00000000000000000000000001").stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["budget", "create", "5", "--for-key", "ci", "--label", "a=b"], "not both"),
        (["budget", "create", "5", "--thresholds", "half"], "50,80,100"),
        (["budget", "update", "budget_00000000000000000000000001"], "nothing to change"),
        (["lease", "create", "--gpu", "T4", "--ttl", "1h", "--warn-before", "soon"], "not a duration"),
    ],
)
def test_wrong_usage_is_rejected_before_any_request(api: FakeApi, cli: Cli, arguments: list[str], message: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not api.asked


def test_a_quote_is_requested_like_a_lease_and_shows_its_price(api: FakeApi, cli: Cli) -> None:
    plan = {"candidates": [{"rank": 1, "offering": PLACE, "price_for_term": "43.92"}]}
    until = "2099-11-23T12:15:00Z"
    api.documents["POST", "/v1/quotes"] = {
        "id": "quote_01",
        "plan": plan,
        "price_per_hour": "21.95001",
        "total": "43.92",
        "currency": "USD",
        "valid_until": until,
    }
    shown = " ".join(cli("quote", "--gpu", "A100:8", "--ttl", "2h").stdout.split())
    for part in ("quote_01", "at most 21.96 USD/h", "43.92 USD for the term", until, "p4d.24xlarge aws us-east-1a"):
        assert part in shown
    (asked,) = api.calls("POST", "/v1/quotes")
    assert asked.body == {"gpu": {"model": "A100", "count": 8}, "instance_types": None, "ttl_seconds": 7200}
    row = cli("quote", "--gpu", "A100:8", "--ttl", "2h", "--csv").stdout.splitlines()[1]
    assert row == f"quote_01,21.95001,43.92,{until}"


def test_a_lease_has_a_cost_cap_warnings_and_a_quote(api: FakeApi, cli: Cli) -> None:
    terms = ["--max-cost", "12.50", "--warn-before", "5m,30m", "--quote", "quote_01"]
    assert cli("lease", "create", *terms).exit_code == 0
    assert cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--warn-before", "none").exit_code == 0
    first, second = (asked.body or {} for asked in api.calls("POST", "/v1/leases"))
    assert (first["max_cost"], first["quote_id"]) == ("12.50", "quote_01")
    assert first["expiry_warnings_seconds"] == [1800, 300]
    assert second["expiry_warnings_seconds"] == []


def test_a_refusal_by_a_budget_names_its_amounts_and_what_to_do(api: FakeApi, cli: Cli) -> None:
    detail = "The budget budget_00000000000000000000000001 has 2.00 USD left, and the lease would cost up to 21.96 USD."
    amounts = {"budget": "5.00", "spent": "1.00", "committed": "2.50", "asked": "21.96", "resets_at": None}
    api.next_answers.append(
        problem(409, "budget_exceeded", detail, budget_id="budget_00000000000000000000000001", **amounts)
    )
    result = cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--no-ssh-key")
    assert result.exit_code == 1
    for part in (detail, "committed: 2.50", "gpulease budget list"):
        assert part in result.stderr


def test_the_cost_cap_is_changed_and_removed(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    for options in (["--max-cost", "20.00"], ["--max-cost", "none"], ["--warn-before", "10m"]):
        assert cli("lease", "update", "lease_00000000000000000000000001", *options).exit_code == 0
    changes = [asked.body for asked in api.calls("PATCH", "/v1/leases/lease_00000000000000000000000001")]
    assert changes == [{"max_cost": "20.00"}, {"max_cost": None}, {"expiry_warnings_seconds": [600]}]


def test_a_lease_shows_its_cap_its_end_and_the_parts_of_its_price(api: FakeApi, cli: Cli) -> None:
    parts = {"compute": "21.96", "disk": "0.02", "address": "0.005"}
    cost = {"accrued": "1.25", "price_per_hour": "21.985", "currency": "USD", "covers": "compute_disk_address"}
    expiry, cap = "2099-06-02T10:00:00Z", "2099-06-01T12:00:00Z"
    api.add(a_lease(1, max_cost="50.00", expires_at=expiry, ends_at=cap, cost={**cost, "parts": parts}))
    shown = " ".join(cli("lease", "show", "lease_00000000000000000000000001").stdout.split())
    assert "1.25 USD to date, at most 50.00 USD" in shown
    assert "(compute 21.96, disk 0.02, address 0.005)" in shown
    assert " ends in " in shown
    assert " expires in " in shown


def test_a_key_of_an_agent_has_a_budget_and_an_end(api: FakeApi, cli: Cli) -> None:
    keys = f"/v1/tenants/{TENANT_ID}/keys"
    api.documents["GET", "/v1/me"] = {"tenant_id": TENANT_ID}
    api.documents["POST", keys] = {"id": "key_00000000000000000000000001", "secret": "gpl_x"}
    assert cli("key", "create", "agent", "--budget", "5", "--expires-in", "7d").exit_code == 0
    body = api.calls("POST", keys)[0].body or {}
    assert (body["name"], body["role"], body["budget"]) == ("agent", "member", "5")
    assert body["expires_at"]


def test_ids_of_budgets_are_completed(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", BUDGETS] = {
        "items": [BUDGET, {**BUDGET, "id": "budget_00000000000000000000000002"}],
        "next_cursor": None,
    }
    assert complete(cli, "gpulease budget show ") == [
        "budget_00000000000000000000000001",
        "budget_00000000000000000000000002",
    ]


def test_the_focus_export_goes_to_standard_output_or_a_file(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    content = b'BilledCost,Tags\r\n1.5,"{""team"": ""\xc3\xbc""}"\r\n'
    for _ in range(2):
        api.next_answers.append(Answer(200, None, {"Content-Type": "text/csv"}, raw=content))
    assert cli("focus", "2026-11").stdout_bytes == content
    file = tmp_path / "focus.csv"
    result = cli("focus", "2026-11", "--to", str(file), "--tenant", TENANT_ID)
    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_bytes() == content
    first, second = api.calls("GET", "/v1/costs/focus")
    assert (first.query, first.headers["accept"]) == ({"month": ["2026-11"]}, "text/csv")
    assert (second.key, second.query["tenant_id"]) == (OPERATOR_KEY, [TENANT_ID])


def test_a_refused_focus_export_writes_no_file(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    api.next_answers.append(problem(403, "forbidden", "an admin key is needed"))
    result = cli("focus", "2026-11", "--to", str(tmp_path / "focus.csv"))
    assert result.exit_code == 1
    assert "an admin key is needed" in result.stderr
    assert not (tmp_path / "focus.csv").exists()
    assert cli("focus", "2026-11", "--to", str(tmp_path / "nowhere" / "focus.csv")).exit_code == 1


def test_the_reconciliation_has_totals_and_charges(api: FakeApi, cli: Cli) -> None:
    amounts = {"estimated": "100.00", "invoiced": "105.00", "difference": "5.00"}
    total = {"tenant_id": None, **amounts, "leases": 4, "gpulease_only": 1, "cloud_only": 2, "unlisted": 1}
    charge = {"kind": "cloud_only", "day": "2026-11-22", "provider": "aws", "resource_id": "i-0123", "ours": True}
    page = {"items": [{**charge, **amounts, "lease_id": None, "tenant_id": None}], "totals": [total]}
    api.documents["GET", "/v1/ops/reconciliation"] = {**page, "next_cursor": None}
    shown = cli("ops", "reconciliation", "2026-11").stdout
    assert "105.00" in shown
    assert "i-0123" not in shown
    assert "i-0123" in cli("ops", "reconciliation", "2026-11", "--kind", "cloud_only").stdout
    assert "i-0123" in cli("ops", "reconciliation", "2026-11", "--charges").stdout
    assert json.loads(cli("ops", "reconciliation", "2026-11", "--json").stdout)["totals"] == [total]
    first, second, *_ = api.asked
    assert (first.key, first.query["month"]) == (OPERATOR_KEY, ["2026-11"])
    assert second.query["kind"] == ["cloud_only"]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("175.68", "exceeded: budget_00000000000000000000000002: 175.68 USD requested, 50.00 of 100.00 available"),
        ("43.92", "budget_00000000000000000000000002: 43.92 USD requested, 50.00 of 100.00 available"),
    ],
)
def test_a_plan_shows_the_budget_with_the_least_room(api: FakeApi, cli: Cli, asked: str, shown: str) -> None:
    money = {"spent": "20.00", "committed": "30.00", "asked": asked}
    budgets = [
        {"budget_id": "budget_00000000000000000000000001", "amount": "500.00", **money, "fits": True},
        {"budget_id": "budget_00000000000000000000000002", "amount": "100.00", **money, "fits": asked == "43.92"},
    ]
    api.documents["POST", "/v1/leases/plan"] = {"candidates": [], "budgets": budgets}
    lines = [" ".join(line.split()) for line in cli("lease", "plan", "--gpu", "T4", "--ttl", "2h").stdout.splitlines()]
    assert f"budget {shown}" in lines
