import json
from dataclasses import replace
from datetime import timedelta

import pytest

from app.cli.render import times
from tests.cli.conftest import Cli
from tests.cli.fake_api import OPERATOR_KEY, PLACE, TENANT_ID, TENANT_KEY, Asked, FakeApi, Json
from tests.cli.installation import SUMMARY, a_summary

TENANT = {"id": TENANT_ID, "name": "lab", "status": "active", "max_ttl_seconds": 86400}
WHERE = {name: PLACE[name] for name in ("provider", "region", "instance_type")}
KEYS = f"/v1/tenants/{TENANT_ID}/keys"


def _one(items: object) -> dict[str, object]:
    return {"items": [items], "next_cursor": None}


def _last(api: FakeApi, method: str, path: str) -> Asked:
    return api.calls(method, path)[-1]


def test_me_tells_whose_key_it_is(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/me"] = {"key_name": "lab", "role": "member", "tenant_id": TENANT_ID}
    shown = cli("me").stdout
    assert "member" in shown
    assert "lab" in shown


def test_images_are_shown_with_their_accounts(api: FakeApi, cli: Cli) -> None:
    places = [{"provider": "aws", "account": "main"}, {"provider": "gcp", "account": "research"}]
    api.documents["GET", "/v1/images"] = _one({"name": "pytorch", "accounts": places})
    result = cli("images")
    assert result.exit_code == 0, result.output
    assert "main (aws), research (gcp)" in result.stdout


def test_reservations_fit_a_terminal_of_80_columns(api: FakeApi, cli: Cli) -> None:
    times = {"starts_at": None, "latest_expires_at": "2026-11-24T17:25:00Z"}
    block = {
        **WHERE,
        **times,
        "zone": "us-east-1a",
        "name": "block",
        "slots": 8,
        "free": 3,
        "status": "available",
        "reason": None,
    }
    queue = {**block, "name": "queue", "slots": None, "free": None, "latest_expires_at": None}
    api.documents["GET", "/v1/reservations"] = {"items": [block, queue], "next_cursor": None}
    shown = cli("reservations").stdout
    assert "3 of 8" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_offerings_are_filtered_by_the_api(api: FakeApi, cli: Cli) -> None:
    offering = {**PLACE, "vcpus": 96, "availability": {"status": "cooling_off", "until": None, "reason": "no_capacity"}}
    api.documents["GET", "/v1/offerings"] = _one(offering)
    result = cli("offerings", "--gpu", "A100:8", "--market", "spot", "--max-price", "30", "--sort", "price_per_gpu")
    assert "cooling_off no_capacity" in " ".join(result.stdout.split())
    assert "p4d.24xlarge" in result.stdout
    query = _last(api, "GET", "/v1/offerings").query
    assert query == {
        "gpu_model": ["A100"],
        "min_gpus": ["8"],
        "market": ["spot"],
        "max_price_per_hour": ["30"],
        "sort": ["price_per_gpu"],
        "limit": ["200"],
    }


def test_tenants_are_the_operators_business(api: FakeApi, cli: Cli) -> None:
    api.documents["POST", "/v1/tenants"] = TENANT
    assert cli("tenant", "create", "lab", "--max-ttl", "1d").exit_code == 0
    asked = _last(api, "POST", "/v1/tenants")
    assert asked.body == {"name": "lab", "max_ttl_seconds": 86400}
    assert asked.key == OPERATOR_KEY
    assert asked.headers["idempotency-key"]


def test_a_tenant_is_changed_by_name_and_only_where_told(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/tenants"] = _one(TENANT)
    api.documents["PATCH", f"/v1/tenants/{TENANT_ID}"] = TENANT
    result = cli("tenant", "update", "lab", "--status", "suspended", "--end-leases", "--json")
    assert json.loads(result.stdout) == TENANT
    assert _last(api, "PATCH", f"/v1/tenants/{TENANT_ID}").body == {"status": "suspended", "end_leases": True}
    assert cli("tenant", "update", "lab").exit_code == 2


def test_a_secret_is_shown_when_its_key_is_made(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/me"] = {"tenant_id": TENANT_ID}
    secret = "gpl_" + "s" * 80
    api.documents["POST", KEYS] = {"id": "key_00000000000000000000000001", "secret": secret}
    narrow = replace(cli, environ={**cli.environ, "COLUMNS": "40"})
    result = narrow("key", "create", "ci", "--expires", "30d")
    assert secret in result.stdout.splitlines()
    assert "not shown again" in result.stderr
    asked = _last(api, "POST", KEYS)
    body = asked.body or {}
    assert (asked.key, body["name"], body["role"]) == (TENANT_KEY, "ci", "member")
    expires = times.parse_time(body["expires_at"])
    assert expires is not None
    assert abs(expires - times.now() - timedelta(days=30)) < timedelta(minutes=2)


def test_keys_of_another_tenant_need_the_operator_key(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", KEYS] = _one(
        {"id": "key_00000000000000000000000001", "name": "ci", "role": "member", "prefix": "gpl_key_1"}
    )
    assert "gpl_key_1" in cli("key", "list", "--tenant", TENANT_ID).stdout
    assert _last(api, "GET", KEYS).key == OPERATOR_KEY


def test_a_key_without_tenant_is_told_to_name_one(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/me"] = {"role": "operator", "tenant_id": None}
    result = cli("key", "list", "--as-operator")
    assert result.exit_code == 1
    assert "--tenant" in result.stderr


def test_keys_are_revoked_and_rotated(api: FakeApi, cli: Cli) -> None:
    api.documents["DELETE", "/v1/keys/key_00000000000000000000000001"] = {
        "id": "key_00000000000000000000000001",
        "revoked_at": "2026-06-01T10:00:00Z",
    }
    api.documents["POST", "/v1/keys/key_00000000000000000000000001/rotate"] = {
        "id": "key_00000000000000000000000001",
        "secret": "gpl_second",
    }
    assert "revoked key_00000000000000000000000001" in cli("key", "revoke", "key_00000000000000000000000001").stderr
    assert "gpl_second" in cli("key", "rotate", "key_00000000000000000000000001", "--overlap", "1h").stdout
    assert _last(api, "POST", "/v1/keys/key_00000000000000000000000001/rotate").body == {"overlap_seconds": 3600}


def test_quotas_given_are_merged_and_replace_removes_the_others(api: FakeApi, cli: Cli) -> None:
    path = f"/v1/tenants/{TENANT_ID}/quotas"
    api.documents["PATCH", path] = _one({"resource": "gpus", "limit": 16, "used": 8, "available": 8})
    api.documents["PUT", path] = api.documents["PATCH", path]
    limits = ["gpus=16", "gpus:A100=none", "spend_per_hour=100.00"]
    result = cli("quota", "set", TENANT_ID, *limits)
    assert "16" in result.stdout
    asked = _last(api, "PATCH", path)
    assert asked.key == OPERATOR_KEY
    assert asked.body == {
        "limits": [
            {"resource": "gpus", "limit": 16},
            {"resource": "gpus:A100", "limit": None},
            {"resource": "spend_per_hour", "limit": "100.00"},
        ]
    }
    assert cli("quota", "set", TENANT_ID, *limits, "--replace").exit_code == 0
    assert asked.body is not None
    kept = [row for row in asked.body["limits"] if row["limit"] is not None]
    assert _last(api, "PUT", path).body == {"limits": kept}
    assert cli("quota", "set", TENANT_ID, "gpus=many").exit_code == 2


def test_a_tenant_sees_its_own_quotas(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/quotas"] = _one({"resource": "gpus", "limit": 16, "used": 8, "available": 8})
    assert "gpus" in cli("quota", "show").stdout
    assert _last(api, "GET", "/v1/quotas").key == TENANT_KEY


def test_the_summary_says_that_events_wait(api: FakeApi, cli: Cli) -> None:
    api.documents[SUMMARY] = a_summary(events={"unnumbered_seconds": 330.2, "webhooks_seconds": 61.0})
    shown = " ".join(cli("ops", "summary").stdout.split())
    assert "the oldest has no number after 330 s; a webhook has waited for a worker for 61 s" in shown


def test_the_summary_says_what_waits_and_what_is_charged_without_a_lease(api: FakeApi, cli: Cli) -> None:
    warning = "the host's clock is 9 s ahead of the database's"
    api.documents[SUMMARY] = a_summary(
        overdue={"leases": 12, "seconds": 130.4},
        unlisted_charges=3,
        lost_hosts=[{"host": "worker-2", "kind": "inventory"}],
        warnings=[warning],
    )
    shown = " ".join(cli("ops", "summary").stdout.split())
    assert "queue 12 leases wait for a worker, the oldest for 130 s" in shown
    assert "unlisted charges 3" in shown
    assert "Lost hosts HOST KIND worker-2 inventory" in shown
    assert f"warnings {warning}" in shown


def test_the_summary_has_a_table_for_each_part(api: FakeApi, cli: Cli) -> None:
    api.documents[SUMMARY] = a_summary(
        capacity_failures={"total": 3, "worst": [{**WHERE, "market": "spot", "failures": 3}]}
    )
    shown = cli("ops", "summary").stdout
    for fact in (
        "No brakes active",
        "Nothing waits",
        "634.36 USD/h",
        "Leases by state",
        "By provider",
        "Stuck leases",
        "lease_00000000000000000000000004",
        "p4d.24xlarge",
    ):
        assert fact in shown, shown
    assert "{" not in shown
    assert "leases=" not in shown
    assert json.loads(cli("ops", "summary", "--json").stdout) == api.documents[SUMMARY]


def test_the_summary_names_active_brakes(api: FakeApi, cli: Cli) -> None:
    anywhere = {"account": None, "region": None}
    silent = {
        "brake": "silence",
        "account": "main",
        "region": "us-east-1",
        "message": "no answer",
        "since": None,
        "until": None,
        "code": None,
    }
    refused = {
        "provider": "aws",
        "account": "sim",
        "region": "eu-west-1",
        "reason": "refused",
        "launches": 30,
        "since": "2026-06-01T12:00:00Z",
        "code": "UnauthorizedOperation",
        "message": "not authorized",
    }
    late = {
        **anywhere,
        "kind": "usage_records",
        "interval_seconds": 300.0,
        "last_error": "statement failed",
        "since": "2026-06-01T12:00:00Z",
    }
    failed = {"account": "sim", "failed": 4, "checked_at": None}
    api.documents[SUMMARY] = a_summary(
        active_brakes=[silent], refused_launches=[refused], late_jobs=[late], failed_checks=[failed]
    )
    shown = " ".join(cli("ops", "summary").stdout.split())
    for fact in ("silence main/us-east-1: no answer", "refused 30", "UnauthorizedOperation", "usage_records", "sim 4"):
        assert fact in shown, shown


def _an_account() -> Json:
    listed = {
        "region": "us-east-1",
        "listed": 3,
        "last_complete_listing_at": times.rfc3339(times.now() - timedelta(hours=5, minutes=1, seconds=30)),
        "last_error": None,
    }
    failing = {
        "region": "eu-west-1",
        "listed": None,
        "last_complete_listing_at": None,
        "last_error": {"code": "Timeout", "message": "no response"},
    }
    brake = {"by": "ann", "since": "2026-06-01T11:00:00Z", "note": "audit"}
    regions = [{**region, "service_quotas": [{"code": "L-417A185B"}]} for region in (listed, failing)]
    return {
        "name": "main",
        "provider": "aws",
        "state": "ok",
        "cordoned": brake,
        "brakes": ["silence"],
        "last_error": None,
        "regions": regions,
    }


def test_accounts_show_vms_regions_cordon_and_error(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/ops/accounts"] = _one(_an_account())
    shown = cli("ops", "accounts").stdout
    for fact in (
        "1 of 2 listed, the oldest 5 h 1 min ago",
        "silence",
        "by ann: audit",
        "eu-west-1: Timeout: no response",
    ):
        assert fact in shown, shown
    first, second = cli("ops", "accounts", "--regions").stdout.splitlines()[1:]
    assert "5 h 1 min ago" in first
    assert "Timeout: no response" in second
    assert "L-417A185B" in cli("ops", "accounts", "--json").stdout


def test_an_account_whose_catalogue_fails_shows_state_and_cause(api: FakeApi, cli: Cli) -> None:
    account: Json = {**_an_account(), "state": "failing_catalogue"}
    account["regions"][0]["catalogue_error"] = "Unreachable: Timeout no answer"
    api.documents["GET", "/v1/ops/accounts"] = _one(account)
    result = " ".join(cli("ops", "accounts").stdout.split())
    assert "failing (catalogue)" in result
    assert "us-east-1: Unreachable: Timeout no answer" in result
    assert "failing_catalogue" in cli("ops", "accounts", "--json").stdout


def test_ended_orphans_are_shown_with_their_cost(api: FakeApi, cli: Cli) -> None:
    orphan = {
        **WHERE,
        "account": "sim",
        "zone": "us-east-1a",
        "id": "orphan_01m84jncx1es4vd0pkyemx4c86",
        "instance_id": "i-1",
        "cause": "leftover",
        "state": "gone",
        "age_seconds": 90000,
        "price_per_hour": "22.00",
        "cost": "550.00",
        "gone_at": "2026-06-01T10:00:00Z",
    }
    api.documents["GET", "/v1/ops/orphans"] = _one(orphan)
    shown = cli("ops", "orphans").stdout
    assert _last(api, "GET", "/v1/ops/orphans").query["gone"] == ["true"]
    assert "550.00" in shown
    assert "ended" in shown
    untagged = {**orphan, "cause": "copied_tags"}
    api.documents["GET", "/v1/ops/orphans"] = _one(untagged)
    assert "not listed since" in " ".join(cli("ops", "orphans").stdout.split()), "it may run on without our tags"
    api.documents["GET", "/v1/ops/orphans"] = _one({**untagged, "end_requested_at": "2026-06-01T09:59:00Z"})
    assert "not listed since" not in " ".join(cli("ops", "orphans").stdout.split())
    cli("ops", "orphans", "--open")
    assert "gone" not in _last(api, "GET", "/v1/ops/orphans").query


def test_an_orphan_is_ended_by_its_shortened_id(api: FakeApi, cli: Cli) -> None:
    orphan = "orphan_01m84jncx1es4vd0pkyemx4c86"
    api.documents["GET", "/v1/ops/orphans"] = _one({"id": orphan})
    api.documents["POST", f"/v1/ops/orphans/{orphan}/end"] = {}
    assert cli("ops", "end-orphan", "orphan_…yemx4c86").exit_code == 0
    assert _last(api, "POST", f"/v1/ops/orphans/{orphan}/end").key == OPERATOR_KEY


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["launches", "stop", "--note", "x"], "PUT", "/v1/ops/launches", {"stopped": True, "note": "x"}),
        (["launches", "allow"], "PUT", "/v1/ops/launches", {"stopped": False}),
        (["cordon", "main"], "PUT", "/v1/ops/accounts/main/cordon", {"cordoned": True}),
        (["cordon", "main", "--off"], "PUT", "/v1/ops/accounts/main/cordon", {"cordoned": False}),
        (
            ["cordon", "main", "--region", "r1", "--zone", "r1a", "--type", "t1", "--market", "spot"],
            "PUT",
            "/v1/ops/accounts/main/cordon",
            {
                "cordoned": True,
                "offerings": {"region": "r1", "zone": "r1a", "instance_type": "t1", "market": "spot"},
            },
        ),
        (
            ["cordon", "main", "--region", "r1", "--off"],
            "PUT",
            "/v1/ops/accounts/main/cordon",
            {"cordoned": False, "offerings": {"region": "r1"}},
        ),
        (["resume"], "POST", "/v1/ops/resume", None),
    ],
)
def test_brakes_are_pulled_and_let_go(
    api: FakeApi, cli: Cli, arguments: list[str], method: str, path: str, body: dict[str, object] | None
) -> None:
    api.documents[method, path] = {}
    assert cli("ops", *arguments).exit_code == 0
    asked = _last(api, method, path)
    assert (asked.body, asked.key) == (body, OPERATOR_KEY)


def test_a_cordon_answers_with_what_it_did(api: FakeApi, cli: Cli) -> None:
    """And not with everything that is known of each region."""
    quotas = [{"code": f"L-{number}", "limit": 64} for number in range(40)]
    account = {"name": "main", "state": "ok", "cordoned": None, "regions": [{"region": "r1", "service_quotas": quotas}]}
    path = ("PUT", "/v1/ops/accounts/main/cordon")
    api.documents[path] = {**account, "cordoned": {"by": "key_1", "since": "2026-06-01T11:00:00Z", "note": "rotten"}}
    shown = cli("ops", "cordon", "main", "--note", "rotten").stdout
    assert "by key_1: rotten" in shown
    assert "cordoned" in shown
    assert "L-1" not in shown
    api.documents[path] = account
    assert "allowed" in cli("ops", "cordon", "main", "--off").stdout


def test_a_cordon_of_offerings_answers_with_the_cordons_of_its_region(api: FakeApi, cli: Cli) -> None:
    by = {"by": "key_1", "since": "2026-06-01T11:00:00Z", "note": "rotten"}
    cordon = {"zone": "r1a", "instance_type": None, "market": "spot", **by}
    regions = [{"region": "r1", "cordons": [cordon]}, {"region": "r2", "cordons": [{**cordon, "zone": "r2a"}]}]
    account = {"name": "main", "state": "ok", "cordoned": None, "regions": regions}
    api.documents["PUT", "/v1/ops/accounts/main/cordon"] = account
    shown = cli("ops", "cordon", "main", "--region", "r1", "--zone", "r1a", "--market", "spot").stdout
    assert "every type, r1a, spot" in shown
    assert "by key_1: rotten" in shown
    assert "r2a" not in shown
    api.documents["PUT", "/v1/ops/accounts/main/cordon"] = {**account, "regions": [{"region": "r1", "cordons": []}]}
    assert "none" in cli("ops", "cordon", "main", "--region", "r1", "--off").stdout
    api.documents["GET", "/v1/ops/accounts"] = _one({**account, "brakes": ["offering_cordon"]})
    listed = " ".join(cli("ops", "accounts", "--regions").stdout.split())
    assert "every type, r1a, spot" in listed


def test_offerings_are_cordoned_in_a_region(api: FakeApi, cli: Cli) -> None:
    refused = cli("ops", "cordon", "main", "--type", "t1")
    assert (refused.exit_code, api.asked) == (2, [])
    assert "--region" in refused.stderr


def test_connection_options_stand_before_or_after_the_command(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/me"] = {"role": "operator"}
    for arguments in (["--json", "--as-operator", "me"], ["me", "--json", "--as-operator"]):
        assert json.loads(cli(*arguments).stdout) == {"role": "operator"}
    assert [asked.key for asked in api.asked] == [OPERATOR_KEY, OPERATOR_KEY]


def test_a_wrong_key_is_refused_by_the_api_and_not_repeated_on_screen(cli: Cli) -> None:
    result = cli("me", "--key", "gpl_wrong_secretpart")
    assert result.exit_code == 1
    assert "401" in result.stderr
    assert "secretpart" not in result.output


def test_an_idle_floor_is_set_shown_and_cleared(api: FakeApi, cli: Cli) -> None:
    path = f"/v1/tenants/{TENANT_ID}/idle-floor"
    floor = {"after_seconds": 3600, "action": "end", "max_keep_seconds": 7200}
    api.documents["GET", "/v1/tenants"] = _one(TENANT)
    for method in ("GET", "PUT", "DELETE"):
        api.documents[method, path] = floor
    given = ["--idle-after", "1h", "--idle-action", "end", "--max-keep", "2h"]
    assert cli("tenant", "idle-floor", "set", "lab", *given).exit_code == 0
    assert _last(api, "PUT", path).body == floor
    assert "7200" in cli("tenant", "idle-floor", "show", "lab").stdout
    assert cli("tenant", "idle-floor", "clear", "lab").exit_code == 0
    assert _last(api, "DELETE", path).body is None
