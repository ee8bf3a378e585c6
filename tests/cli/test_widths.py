"""Every table at 80, 120 and 200 columns, on a terminal and in a pipe, with and without colours."""

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Cli
from tests.cli.fake_api import (
    ACTIVE,
    BOOTING,
    PLACE,
    PROVISIONING,
    REFUSED_ATTEMPT,
    TENANT_ID,
    FakeApi,
    Json,
    a_lease,
)
from tests.cli.installation import SUMMARY, a_summary, an_event
from tests.cli.terminal import Terminal

TAIL = "01m84jncx1es4vd0pkyemx4c86"
WHEN = "2026-06-01T10:00:00Z"
LONG = "a sentence of the provider that says at length why nothing was created here"
AZURE: Json = {
    **PLACE,
    "provider": "azure",
    "account": "research-and-development",
    "region": "germanywestcentral",
    "zone": "germanywestcentral-3",
    "instance_type": "Standard_ND96isr_H100_v5",
    "market": "on_demand",
    "gpu": {"model": "H100", "count": 8, "memory_gib": 80},
    "price_per_hour": "1098.32",
}
LEASE = {
    **a_lease(1, **{**PROVISIONING, **BOOTING, **ACTIVE}) | {"placement": AZURE},
    "id": f"lease_{TAIL}",
    "name": "n" * 40,
}
OFFERING: Json = {
    **AZURE,
    "vcpus": 96,
    "memory_gib": 1900.0,
    "price_per_gpu_hour": "137.29",
    "availability": {"status": "cooling_off", "reason": "no_capacity"},
}
BRAKE = {"by": f"key_{TAIL}", "since": WHEN, "note": LONG}

PAGES: dict[str, tuple[str, list[str], Json]] = {
    "leases": ("/v1/leases", ["lease", "list"], LEASE),
    "attempts": (
        f"/v1/leases/lease_{TAIL}/attempts",
        ["lease", "attempts", f"lease_{TAIL}"],
        {**REFUSED_ATTEMPT, "offering": AZURE, "error": {"code": "AllocationFailed", "message": LONG}},
    ),
    "lease events": (
        f"/v1/leases/lease_{TAIL}/events",
        ["lease", "events", f"lease_{TAIL}"],
        an_event(123456, data={"n": 3, "offering": AZURE, "error": {"code": "AllocationFailed", "message": LONG}}),
    ),
    "console": (
        f"/v1/leases/lease_{TAIL}/console",
        ["lease", "console", f"lease_{TAIL}"],
        {"n": 1, "text": "[    0.000000] " + "x" * 300, "created_at": WHEN},
    ),
    "events": (
        "/v1/events",
        ["events", "list"],
        an_event(123456, f"lease_{TAIL}", data={"n": 3, "offering": AZURE, "reason": {"code": "x", "message": LONG}}),
    ),
    "audit": (
        "/v1/audit",
        ["audit"],
        {
            "id": f"audit_{TAIL}",
            "created_at": WHEN,
            "tenant_id": f"tenant_{TAIL}",
            "principal": f"key_{TAIL}",
            "role": "operator",
            "action": "webhook.secret_rotate",
            "target": f"webhook_{TAIL}",
            "before": {"note": "a"},
            "after": {"note": LONG},
            "address": "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "request_id": f"req_{TAIL}",
        },
    ),
    "volumes": (
        "/v1/volumes",
        ["volume", "list"],
        {
            "id": f"vol_{TAIL}",
            "name": "n" * 63,
            "state": "available",
            "size_gib": 16384,
            "account": "research-and-development",
            "zone": "germanywestcentral-3",
            "lease_id": f"lease_{TAIL}",
            "price_per_hour": "1.797260",
            "last_used_at": WHEN,
            "created_at": WHEN,
        },
    ),
    "offerings": ("/v1/offerings", ["offerings"], OFFERING),
    "comparison": ("/v1/offerings", ["offerings", "--compare"], OFFERING),
    "images": (
        "/v1/images",
        ["images"],
        {
            "name": "pytorch-2.4-cuda-12.4",
            "accounts": [{"account": f"account-{n}", "provider": "aws"} for n in range(9)],
        },
    ),
    "reservations": (
        "/v1/reservations",
        ["reservations"],
        {
            **{name: value for name, value in AZURE.items() if name != "market"},
            "name": "r" * 30,
            "slots": 8,
            "free": 3,
            "status": "unavailable",
            "reason": LONG,
        },
    ),
    "gpus": (
        "/v1/gpu-models",
        ["gpus"],
        {
            "model": "RTX-PRO-6000-BLACKWELL",
            "aliases": ["rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition"],
            "vendor": "NVIDIA",
            "memory_gib": [96],
            "counts_by_market": {"on_demand": [1, 2, 4, 8], "spot": [1, 2, 4, 8], "reserved": [8]},
            "min_price_per_gpu_hour": {"on_demand": "2.5", "spot": None, "reserved": None},
        },
    ),
    "regions": (
        "/v1/regions",
        ["regions"],
        {"provider": "azure", "region": "germanywestcentral", "accounts": ["research-and-development", "main"]},
    ),
    "quotas": (
        "/v1/quotas",
        ["quota", "show"],
        {"resource": "gpus:RTX-PRO-6000-BLACKWELL", "limit": 100000, "used": 99999, "available": 1},
    ),
    "budgets": (
        "/v1/budgets",
        ["budget", "list"],
        {
            "id": f"budget_{TAIL}",
            "scope": {"kind": "label", "tenant_id": TENANT_ID, "key_id": None, "label": "team:" + "v" * 40},
            "period": "lifetime",
            "amount": "100000.00",
            "spent": "99999.123456",
            "committed": "123456.789012",
            "available": "-23455.912468",
            "exceeded": True,
            "when_exceeded": "notify",
            "resets_at": WHEN,
        },
    ),
    "keys": (
        f"/v1/tenants/{TENANT_ID}/keys",
        ["key", "list", "--tenant", TENANT_ID],
        {
            "id": f"key_{TAIL}",
            "name": "k" * 40,
            "role": "viewer",
            "prefix": "gpl_key_01m84",
            "last_used_at": WHEN,
            "expires_at": WHEN,
            "revoked_at": WHEN,
        },
    ),
    "tenants": (
        "/v1/tenants",
        ["tenant", "list"],
        {
            "id": f"tenant_{TAIL}",
            "name": "t" * 40,
            "status": "suspended",
            "max_ttl_seconds": 90061,
            "max_total_seconds": 999999,
            "created_at": WHEN,
        },
    ),
    "webhooks": (
        "/v1/webhooks",
        ["webhooks", "list"],
        {
            "id": f"webhook_{TAIL}",
            "url": "https://hooks.example.org/" + "p" * 80,
            "event_types": ["lease.failed"] * 9,
            "enabled": True,
            "description": LONG,
            "created_at": WHEN,
        },
    ),
    "accounts": (
        "/v1/ops/accounts",
        ["ops", "accounts"],
        {
            "name": "research-and-development",
            "provider": "azure",
            "state": "set_aside",
            "identity": "00000000-0000-0000-0000-000000000001",
            "cordoned": BRAKE,
            "last_error": {"code": "AuthorizationFailed", "message": LONG},
            "failed_checks": 12,
            "regions": [
                {"region": "germanywestcentral", "listed": 1000, "last_complete_listing_at": WHEN, "last_error": None}
            ],
        },
    ),
    "orphans": (
        "/v1/ops/orphans",
        ["ops", "orphans"],
        {
            **{name: value for name, value in AZURE.items() if name not in {"gpu", "market"}},
            "id": f"orphan_{TAIL}",
            "instance_id": "i-0123456789abcdef0",
            "cause": "other_installation",
            "state": "ending",
            "age_seconds": 90000,
            "first_seen_at": WHEN,
            "end_error": {"code": "Denied", "message": LONG},
            "lease_id": f"lease_{TAIL}",
        },
    ),
}
WIDTHS = (80, 120, 200)


@pytest.fixture
def documents(api: FakeApi) -> FakeApi:
    for path, _, item in PAGES.values():
        api.documents["GET", path] = {"items": [item, item], "next_cursor": None}
    api.documents[SUMMARY] = a_summary(
        by_tenant=[{"name": "t" * 40, "leases": 3, "gpus": 24, "spend_per_hour": "65.88"}]
    )
    return api


def _widest(text: str) -> int:
    return max((cell_len(line.rstrip()) for line in text.splitlines()), default=0)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_table_fits_and_hides_fewer_columns_when_it_is_wider(
    documents: FakeApi, cli: Cli, name: str, width: int
) -> None:
    arguments = PAGES[name][1]
    result = replace(cli, environ={**cli.environ, "COLUMNS": str(width)})(*arguments)
    assert result.exit_code == 0, result.output
    assert 0 < _widest(result.stdout) <= width, result.stdout
    assert "{" not in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("name", PAGES)
def test_wide_and_a_pipe_show_all_columns_and_whole_ids(documents: FakeApi, cli: Cli, name: str) -> None:
    arguments = PAGES[name][1]
    narrow = replace(cli, environ={**cli.environ, "COLUMNS": "80"})
    wide, piped = narrow(*arguments, "--wide"), cli(*arguments)
    assert wide.stdout == piped.stdout
    for result in (wide, piped):
        assert "hidden columns" not in result.stderr
        assert "…" not in result.stdout


@pytest.mark.parametrize("name", PAGES)
def test_json_does_not_depend_on_the_width(documents: FakeApi, cli: Cli, name: str) -> None:
    _, arguments, item = PAGES[name]
    for width in (*WIDTHS, None):
        environ = {**cli.environ, **({"COLUMNS": str(width)} if width else {})}
        document = json.loads(replace(cli, environ=environ)(*arguments, "--json").stdout)
        assert document == {"items": [item, item], "next_cursor": None}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_lease_and_its_explanation_fit(documents: FakeApi, cli: Cli, width: int) -> None:
    path = f"/v1/leases/lease_{TAIL}"
    documents.documents["GET", path] = {**LEASE, "reason": {"code": "capacity_exhausted", "message": LONG}}
    documents.documents["GET", f"{path}/explain"] = {
        "summary": f"{LONG} {LONG}",
        "state": "queued",
        "candidates": [{"offering": AZURE, "verdict": "cooling_off", "message": LONG, "cool_off_until": WHEN}],
        "quota": [{"resource": "gpus", "needed": "8", "free": "0", "limit": "8", "fits": False}],
        "suggestions": [{"message": LONG, "offering": AZURE}],
        "excluded": [{"message": LONG, "nearest": AZURE, "nearest_detail": LONG}],
    }
    for command in ("show", "explain"):
        result = replace(cli, environ={**cli.environ, "COLUMNS": str(width)})("lease", command, f"lease_{TAIL}")
        assert result.exit_code == 0, result.output
        assert 0 < _widest(result.stdout) <= width, result.stdout


@pytest.mark.parametrize("width", WIDTHS)
def test_the_summary_and_top_fit(documents: FakeApi, cli: Cli, width: int) -> None:
    narrow = replace(cli, environ={**cli.environ, "COLUMNS": str(width)})
    for command in ("summary", "top"):
        result = narrow("ops", command)
        assert result.exit_code == 0, result.output
        assert 0 < _widest(result.stdout) <= width, result.stdout


def test_numbers_of_top_do_not_touch_at_80_columns(documents: FakeApi, cli: Cli) -> None:
    group = {"name": "a-region-with-a-long-name", "leases": 1000000, "gpus": 8, "spend_per_hour": "1234567.89"}
    documents.documents[SUMMARY] = a_summary(by_provider=[group], by_region=[group], by_gpu_model=[group])
    shown = replace(cli, environ={**cli.environ, "COLUMNS": "80"})("ops", "top").stdout
    assert shown.count(" 1000000 1234567.89") == 3, shown


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_has_colours_unless_no_color_is_set(
    documents: FakeApi, cli: Cli, width: int, no_color: str, coloured: bool
) -> None:
    with Terminal(cli, ["lease", "list"], columns=width, environ={"NO_COLOR": no_color}) as terminal:
        code, errors = terminal.finish()
    assert code == 0, errors
    assert _widest(terminal.text) <= width
    assert ("\x1b[32m" in terminal.raw) is coloured, terminal.raw
