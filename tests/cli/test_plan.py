"""`lease plan`, and the question of `lease create`."""

import json
import re
from dataclasses import replace

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import ALL_PARTS, PLACE, FakeApi, Json, a_lease
from tests.cli.terminal import Terminal

REQUEST = ["--gpu", "H100:8", "--ttl", "2h"]
PLAN = ("POST", "/v1/leases/plan")


def _offering(number: int) -> Json:
    name = "Standard_ND96isr_H100_v5" if number % 3 == 0 else "p5.48xlarge"
    gpu = {"model": "H100", "count": 8, "memory_gib": 80}
    place = {"provider": "azure", "zone": "germanywestcentral-3"} if number % 3 == 0 else {}
    return {
        **PLACE,
        **place,
        "instance_type": name,
        "gpu": gpu,
        "market": "on_demand",
        "price_per_hour": f"{number + 50}.0624",
    }


def _a_plan() -> Json:
    candidates = [
        {
            "rank": n,
            "offering": _offering(n),
            "disk_gib": 75,
            "price_for_term": f"{2 * n + 100}.1248",
            "quota_fits": True,
        }
        for n in range(1, 29)
    ]
    codes = {f"rule_{n}": n for n in range(1, 12)} | {"gpu_model": 680, "gpu_count": 12}
    each = [
        {"offering": _offering(n), "code": code, "detail": f"has T4 {n}"}
        for code, count in codes.items()
        for n in range(count)
    ]
    groups = [
        {
            "code": code,
            "count": count,
            "message": f"{count} offerings",
            "nearest": _offering(1),
            "nearest_detail": "has T4",
        }
        for code, count in sorted(codes.items(), key=lambda group: -group[1])
    ]
    need = {"resource": "gpus", "limit": 64, "used": 8, "asked": 8, "fits": True}
    return {
        "admissible": True,
        "launches_stopped": False,
        "candidates": candidates,
        "excluded": each,
        "excluded_by_reason": groups,
        "quota": {"fits": True, "resources": [need]},
        "cost": {"price_per_hour": "51.0624", "price_for_term": "102.1248", **ALL_PARTS},
        "as_of": "2026-06-01T10:00:00Z",
    }


def test_a_plan_fits_one_screen(api: FakeApi, cli: Cli) -> None:
    api.documents[PLAN] = _a_plan()
    result = replace(cli, environ={**cli.environ, "COLUMNS": "80"})("lease", "plan", *REQUEST)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) <= 23, result.stdout
    assert max(len(line.rstrip()) for line in lines) <= 80
    for fact in (
        "cost          51.06 USD/h, 102.12 USD for 2 h",
        "not included  traffic",
        "gpus: 8 requested, 56 of 64 available",
        "18 more candidates: --all",
        "other GPU model",
        "680",
        "more reasons",
        "azure germanywestcentral-3",
    ):
        assert fact in result.stdout, result.stdout


def test_all_shows_every_candidate_and_every_excluded_offering(api: FakeApi, cli: Cli) -> None:
    api.documents[PLAN] = _a_plan()
    lines = cli("lease", "plan", *REQUEST, "--all").stdout.splitlines()
    assert len(lines) > 28 + 680
    assert any("has T4 679" in line for line in lines)


def test_all_reads_the_plan_in_pages(api: FakeApi, cli: Cli) -> None:
    plan = _a_plan()
    plan |= {"candidates_count": 28, "excluded_count": len(plan["excluded"])}
    api.documents[PLAN] = plan
    assert cli("lease", "plan", *REQUEST, "--all").exit_code == 0
    asked = [call.query for call in api.calls(*PLAN)]
    assert asked == [{"limit": ["200"]}, *({"limit": ["200"], "skip": [skip]} for skip in ("200", "400", "600"))]


def test_a_plan_is_the_apis_document_for_programs(api: FakeApi, cli: Cli) -> None:
    api.documents[PLAN] = _a_plan()
    assert json.loads(cli("lease", "plan", *REQUEST, "--json").stdout) == _a_plan()


def test_a_plan_without_offers_and_quota_says_so(api: FakeApi, cli: Cli) -> None:
    short = {"resource": "gpus", "limit": "8", "used": "8", "asked": "8", "fits": False}
    empty: Json = {
        "candidates": [],
        "cost": None,
        "quota": {"fits": False, "resources": [short]},
        "launches_stopped": True,
    }
    api.documents[PLAN] = {**_a_plan(), **empty}
    shown = cli("lease", "plan", *REQUEST).stdout
    assert "exceeded: gpus: 8 requested, 0 of 8 available" in shown
    assert "operators have stopped launches" in shown


def test_the_request_names_an_exact_count_or_a_minimum(api: FakeApi, cli: Cli) -> None:
    api.documents[PLAN] = _a_plan()
    for arguments, gpu in (
        (["--gpu", "V100"], {"model": "V100"}),
        (["--gpu", "V100:2"], {"model": "V100", "count": 2}),
        (["--gpu", "V100", "--min-gpus", "2"], {"model": "V100", "min_count": 2}),
        (["--gpu", "A100:80GB"], {"model": "A100:80GB"}),
        (["--gpu", "A100:80GB:4"], {"model": "A100:80GB", "count": 4}),
    ):
        assert cli("lease", "plan", *arguments, "--ttl", "1h").exit_code == 0
        assert (api.asked[-1].body or {})["gpu"] == gpu
    assert cli("lease", "plan", "--gpu", "V100:2", "--min-gpus", "2", "--ttl", "1h").exit_code == 2
    assert cli("lease", "plan", "--gpu", "V100", "--market", "any", "--ttl", "1h").exit_code == 0


def test_create_asks_on_a_terminal_and_no_creates_nothing(api: FakeApi, cli: Cli) -> None:
    api.documents[PLAN] = _a_plan()
    with Terminal(cli, ["lease", "create", *REQUEST]) as terminal:
        terminal.wait_for("27 other offerings, up to 78.06 USD/h")
        for fact in ("p5.48xlarge (8 x H100 80 GiB)", "aws us-east-1a", "51.06 USD/h", "102.12 USD for 2 h"):
            assert fact in terminal.text
        terminal.type("n\n")
        code, errors = terminal.finish()
    assert code == 1
    assert "Create this lease? [y/N]" in errors
    assert "declined; nothing was changed" in errors
    assert not api.leases


def test_create_goes_on_after_yes(api: FakeApi, cli: Cli) -> None:
    api.documents[PLAN] = _a_plan()
    with Terminal(cli, ["lease", "create", *REQUEST]) as terminal:
        terminal.wait_for("other offerings")
        terminal.type("y\n")
        assert terminal.finish()[0] == 0
    assert len(api.leases) == 1


@pytest.mark.parametrize("option", ["--yes", "--json"])
def test_create_does_not_ask_with_yes_or_for_programs(api: FakeApi, cli: Cli, option: str) -> None:
    with Terminal(cli, ["lease", "create", *REQUEST, option]) as terminal:
        assert terminal.finish()[0] == 0
    assert not api.calls(*PLAN)


def test_create_does_not_ask_without_a_terminal(api: FakeApi, cli: Cli) -> None:
    assert cli("lease", "create", *REQUEST).exit_code == 0
    assert not api.calls(*PLAN)


def test_ended_leases_show_no_login_and_no_expiry(api: FakeApi, cli: Cli) -> None:
    connection = {"ssh_command": "ssh ubuntu@203.0.113.9", "public_ip": "203.0.113.9"}
    ended = {"connection": connection, "expires_at": "2999-06-01T10:00:00Z", "state": "released", "terminal": True}
    cost = {"accrued": "1.2345", "price_per_hour": None, "currency": "USD", "covers": "compute_disk_address"}
    api.add(a_lease(1, **ended, cost=cost, ended_at="2026-06-01T10:00:00Z"))
    shown = cli("lease", "show", "lease_00000000000000000000000001").stdout
    assert "cost  1.2345 USD\n" in re.sub(r" +\n", "\n", re.sub(r" {3,}", "  ", shown))
    assert "traffic" in shown
    assert "ended" in shown
    assert "connect" not in shown
    assert "expires" not in shown
    assert "price" not in shown
    assert "total" not in shown


def test_a_catalogue_that_cannot_be_read_is_named(api: FakeApi, cli: Cli) -> None:
    cause = "The offerings of aws in us-east-1 cannot be read at present."
    nothing = {"candidates": [], "excluded": [], "excluded_by_reason": [], "cost": None}
    api.documents[PLAN] = {**_a_plan(), **nothing, "catalogue_error": cause}
    assert cause in cli("lease", "plan", *REQUEST).stdout
