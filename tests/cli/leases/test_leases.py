import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import (
    ACTIVE,
    ALL_PARTS,
    BOOTING,
    NO_CAPACITY,
    OPERATOR_KEY,
    PROVISIONING,
    REFUSED_ATTEMPT,
    RELEASED,
    TENANT_ID,
    TENANT_KEY,
    Answer,
    FakeApi,
    Json,
    a_lease,
    problem,
)


def test_create_sends_every_option_as_the_contract_names_it(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text("# laptop\nssh-ed25519 AAAA me\n")
    (tmp_path / "start.sh").write_text("#!/bin/sh\n")
    what = ["--name", "t", "--gpu", "A100:8", "--gpu-memory", "40", "--market", "spot_first", "--provider", "aws"]
    terms = ["--provider", "gcp", "--region", "us-east-1", "--max-price", "40.00", "--ttl", "4h", "--wait", "10m"]
    access = ["--ssh-key", str(tmp_path / "id.pub"), "--startup-script", str(tmp_path / "start.sh")]
    size = ["--min-vcpus", "90", "--min-memory", "900", "--min-local-disk", "1000", "--vendor", "NVIDIA"]
    machine = [
        *size,
        "--interconnect",
        "NVSwitch",
        "--image",
        "pytorch",
        "--disk",
        "200",
        "--no-public-ip",
        "--cidr",
        "203.0.113.0/24",
        "--on-interruption",
        "end",
    ]
    result = cli("lease", "create", *what, *terms, *access, *machine, "--label", "team=vision", "--json")
    assert result.exit_code == 0, result.output
    (asked,) = api.calls("POST", "/v1/leases")
    assert asked.body == {
        "name": "t",
        "gpu": {"model": "A100", "count": 8, "memory_gib": 40, "interconnect": "NVSwitch", "vendor": "NVIDIA"},
        "instance_types": None,
        "min_vcpus": 90,
        "min_memory_gib": 900,
        "min_local_disk_gib": 1000,
        "market": "spot_first",
        "providers": ["aws", "gcp"],
        "regions": ["us-east-1"],
        "max_price_per_hour": "40.00",
        "ttl_seconds": 14400,
        "wait_seconds": 600,
        "ssh_public_keys": ["ssh-ed25519 AAAA me"],
        "startup_script": "#!/bin/sh\n",
        "image": "pytorch",
        "disk_gib": 200,
        "public_ip": False,
        "allowed_cidrs": ["203.0.113.0/24"],
        "on_interruption": "end",
        "labels": {"team": "vision"},
    }
    assert asked.key == TENANT_KEY
    assert json.loads(result.stdout) == api.leases["lease_00000000000000000000000001"]


def test_what_is_not_given_is_left_to_the_api(api: FakeApi, cli: Cli) -> None:
    cli("lease", "create", "--type", "g5.xlarge", "--type", "g6.xlarge", "--ttl", "60s")
    (asked,) = api.calls("POST", "/v1/leases")
    assert asked.body == {"gpu": None, "instance_types": ["g5.xlarge", "g6.xlarge"], "ttl_seconds": 60}


def test_options_go_over_the_file(api: FakeApi, cli: Cli) -> None:
    saved = {"gpu": {"model": "T4", "count": 1}, "ttl_seconds": 60, "labels": {"a": "b"}, "disk_gib": 50}
    result = cli("lease", "create", "--from-file", "-", "--ttl", "2h", "--gpu-memory", "16", stdin=json.dumps(saved))
    assert result.exit_code == 0, result.output
    (asked,) = api.calls("POST", "/v1/leases")
    hardware = {"gpu": {"model": "T4", "count": 1, "memory_gib": 16}, "instance_types": None}
    assert asked.body == {**saved, **hardware, "ttl_seconds": 7200}


def test_every_create_has_its_own_idempotency_key_unless_given(api: FakeApi, cli: Cli) -> None:
    for _ in range(2):
        cli("lease", "create", "--gpu", "T4", "--ttl", "1h")
        cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--idempotency-key", "mine")
    keys = [asked.headers["idempotency-key"] for asked in api.calls("POST", "/v1/leases")]
    assert keys[1] == keys[3] == "mine"
    assert len({*keys}) == 3
    assert len(api.leases) == 3


def test_a_create_whose_answer_is_lost_is_sent_again_under_the_same_key(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(Answer(drop=True))
    result = cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--no-ssh-key", "--json")
    assert result.exit_code == 0, result.output
    first, second = api.calls("POST", "/v1/leases")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert list(api.leases) == ["lease_00000000000000000000000001"]
    assert "retrying" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ttl", "1h"], "no hardware given"),
        (["--gpu", "T4"], "no duration given"),
        (["--gpu", "T4:none", "--ttl", "1h"], "MODEL:COUNT"),
        (["--gpu", "T4", "--ttl", "soon"], "not a duration"),
        (["--gpu", "T4", "--type", "g5.xlarge", "--ttl", "1h"], "not both"),
        (["--gpu", "T4", "--ttl", "1h", "--label", "team"], "KEY=VALUE"),
        (["--gpu", "T4", "--ttl", "1h", "--label", "a=1", "--label", "a=2"], "given twice"),
        (["--gpu", "T4", "--ttl", "1h", "--ssh-key", "/nonexistent/key.pub"], "cannot read"),
        (["--gpu", "T4", "--ttl", "1h", "--market", "cheap"], "cheap"),
        (["--gpu-memory", "40", "--ttl", "1h"], "requires --gpu"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_sent(
    api: FakeApi, cli: Cli, arguments: list[str], message: str
) -> None:
    result = cli("lease", "create", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not api.asked


def test_a_private_key_never_leaves_this_machine(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    result = cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--ssh-key", str(tmp_path / "id"))
    assert result.exit_code == 2
    assert not api.asked


def test_an_operator_acts_for_a_tenant_by_name(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/tenants"] = {"items": [{"id": TENANT_ID, "name": "lab"}], "next_cursor": None}
    cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--tenant", "lab")
    (asked,) = api.calls("POST", "/v1/leases")
    assert (asked.key, (asked.body or {})["tenant_id"]) == (OPERATOR_KEY, TENANT_ID)


def test_list_shows_live_leases_unless_all_are_asked_for(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    api.add(a_lease(2, **RELEASED))
    live, every = cli("lease", "list"), cli("lease", "list", "--all")
    assert "lease_00000000000000000000000001" in live.stdout
    assert "lease_00000000000000000000000002" not in live.stdout
    assert "lease_00000000000000000000000002" in every.stdout


def test_list_passes_filters_on(api: FakeApi, cli: Cli) -> None:
    cli("lease", "list", "--state", "active", "--state", "booting", "--label", "team=vision", "--gpu-model", "A100")
    (asked,) = api.asked
    assert asked.query["state"] == ["active", "booting"]
    assert asked.query["label"] == ["team:vision"]
    assert asked.query["gpu_model"] == ["A100"]


def test_lists_follow_cursors_up_to_the_limit(api: FakeApi, cli: Cli) -> None:
    api.page_size = 2
    for number in range(1, 8):
        api.add(a_lease(number))
    some = json.loads(cli("lease", "list", "--limit", "3", "--json").stdout)
    assert [item["id"] for item in some["items"]] == [
        "lease_00000000000000000000000001",
        "lease_00000000000000000000000002",
        "lease_00000000000000000000000003",
    ]
    rest = json.loads(cli("lease", "list", "--limit", "0", "--cursor", some["next_cursor"], "--json").stdout)
    assert [item["id"] for item in rest["items"]] == [
        "lease_00000000000000000000000004",
        "lease_00000000000000000000000005",
        "lease_00000000000000000000000006",
        "lease_00000000000000000000000007",
    ]
    assert rest["next_cursor"] is None
    assert "--limit 0 shows all" in cli("lease", "list", "--limit", "3").stderr


def test_an_empty_list_says_so_beside_standard_output(cli: Cli) -> None:
    result = cli("lease", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no leases" in result.stderr


def test_a_name_stands_for_the_lease_that_lives(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, name="mine", **RELEASED))
    api.add(a_lease(2, name="mine"))
    assert json.loads(cli("lease", "show", "mine", "--json").stdout)["id"] == "lease_00000000000000000000000002"


def test_a_name_of_an_ended_lease_is_found_too(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, name="mine", **RELEASED))
    assert json.loads(cli("lease", "show", "mine", "--json").stdout)["id"] == "lease_00000000000000000000000001"


def test_an_ambiguous_name_lists_the_ids_and_does_nothing(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, name="mine"))
    api.add(a_lease(2, name="mine"))
    result = cli("lease", "release", "mine")
    assert result.exit_code == 1
    assert "lease_00000000000000000000000001 (queued)" in result.stderr
    assert "lease_00000000000000000000000002 (queued)" in result.stderr
    assert not [asked for asked in api.asked if asked.method == "DELETE"]


def test_an_unknown_name_is_said_to_be_unknown(cli: Cli) -> None:
    result = cli("lease", "show", "ghost")
    assert result.exit_code == 1
    assert "no lease has the name 'ghost'" in result.stderr


def test_show_tells_where_it_runs_how_to_get_in_and_what_it_costs(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, **PROVISIONING | BOOTING | ACTIVE))
    shown = cli("lease", "show", "lease_00000000000000000000000001").stdout
    for fact in ("active", "aws us-east-1a p4d.24xlarge spot", "8 x A100 40 GiB", "ssh ubuntu@203.0.113.9", "1.25 USD"):
        assert fact in shown


def test_names_from_others_cannot_steer_the_terminal(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, name="[red]x\x1b[2J"))
    for arguments in (["lease", "list"], ["lease", "show", "lease_00000000000000000000000001"]):
        shown = cli(*arguments).stdout
        assert "[red]x" in shown
        assert "\x1b" not in shown


def test_extend_adds_a_duration_and_shows_the_added_cost(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, expires_at="2026-01-01T12:00:00Z", estimate={"price_per_hour": "22.00"}))
    extended = cli("lease", "extend", "train-1", "90m")
    assert extended.exit_code == 0
    (asked,) = api.calls("POST", "/v1/leases/lease_00000000000000000000000001/extend")
    assert asked.body == {"extend_by_seconds": 5400}
    note = "extended by 1 h 30 min until 2026-01-01T13:30:00Z; adds at most 33.00 USD at 22.00 USD/h\n"
    assert (extended.stdout, extended.stderr) == (note, "")
    verbose = cli("extend", "train-1", "90m", "--verbose").stdout
    assert verbose.startswith(note)
    assert "lease_00000000000000000000000001" in verbose
    as_json = cli("lease", "extend", "train-1", "90m", "--json")
    assert json.loads(as_json.stdout)["id"] == "lease_00000000000000000000000001"
    assert as_json.stderr == note


def test_extend_takes_a_time_or_a_duration_and_not_both(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, expires_at="2026-01-01T12:00:00Z"))
    assert cli("lease", "extend", "train-1", "--until", "2026-01-02T12:00:00Z").exit_code == 0
    (asked,) = api.calls("POST", "/v1/leases/lease_00000000000000000000000001/extend")
    assert asked.body == {"expires_at": "2026-01-02T12:00:00Z"}
    for arguments in ([], ["1h", "--until", "2h"]):
        refused = cli("lease", "extend", "train-1", *arguments)
        assert refused.exit_code == 2
        assert "give either DURATION" in refused.stderr


def test_keep_holds_idleness_off(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    assert cli("lease", "keep", "train-1", "--for", "2h").exit_code == 0
    (asked,) = api.calls("POST", "/v1/leases/lease_00000000000000000000000001/keep")
    assert asked.body == {"seconds": 7200}
    assert cli("lease", "keep", "train-1").exit_code == 2


def test_create_says_what_holds_for_the_gpus(api: FakeApi, cli: Cli) -> None:
    gpus = ["--idle-after", "1h", "--idle-action", "end", "--proof", "required", "--on-gpu-failure", "replace"]
    made = cli("lease", "create", "--gpu", "A100", "--ttl", "4h", *gpus, "--benchmark", "quick", "--no-ssh-key")
    assert made.exit_code == 0, made.output
    body = api.calls("POST", "/v1/leases")[-1].body or {}
    assert body["idle"] == {"after_seconds": 3600, "action": "end"}
    assert (body["proof"], body["on_gpu_failure"], body["benchmark"]) == ("required", "replace", "quick")
    assert "idle" not in _created(api, cli)


def _created(api: FakeApi, cli: Cli) -> Json:
    assert cli("lease", "create", "--gpu", "A100", "--ttl", "4h", "--no-ssh-key").exit_code == 0
    return api.calls("POST", "/v1/leases")[-1].body or {}


def test_release_gives_the_lease_back(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    assert (
        json.loads(cli("lease", "release", "lease_00000000000000000000000001", "--json").stdout)["state"] == "releasing"
    )


def test_reboot_answers_with_the_lease(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    assert (
        json.loads(cli("lease", "reboot", "lease_00000000000000000000000001", "--json").stdout)["id"]
        == "lease_00000000000000000000000001"
    )


def test_the_console_of_a_failed_boot_is_shown(api: FakeApi, cli: Cli) -> None:
    page = {"items": [{"n": 1, "text": "no such driver", "created_at": "2026-06-01T10:00:00Z"}], "next_cursor": None}
    api.documents["GET", "/v1/leases/lease_00000000000000000000000001/console"] = page
    assert "no such driver" in cli("lease", "console", "lease_00000000000000000000000001").stdout


def test_operators_are_shown_the_providers_own_words(api: FakeApi, cli: Cli) -> None:
    error = {**REFUSED_ATTEMPT["error"], "provider_message": "role worker may not run p4d"}
    api.add(
        a_lease(1, **NO_CAPACITY, provider_message="subnet-1 is full"), attempts=[{**REFUSED_ATTEMPT, "error": error}]
    )
    assert "role worker may not run p4d" in cli("lease", "attempts", "lease_00000000000000000000000001").stdout
    assert "subnet-1 is full" in cli("lease", "show", "lease_00000000000000000000000001").stdout


def test_attempts_show_what_the_provider_said(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1), attempts=[REFUSED_ATTEMPT])
    shown = cli("lease", "attempts", "lease_00000000000000000000000001").stdout
    assert "InsufficientInstanceCapacity: no p4d in us-east-1a" in shown


def test_events_go_on_after_a_sequence_number(api: FakeApi, cli: Cli) -> None:
    event = {
        "id": "event_1",
        "sequence": 8,
        "type": "lease.active",
        "created_at": "2026-06-01T10:00:00Z",
        "data": {"n": 2, "instance_id": "i-7"},
    }
    api.documents["GET", "/v1/leases/lease_00000000000000000000000001/events"] = {"items": [event], "next_cursor": None}
    result = cli("lease", "events", "lease_00000000000000000000000001", "--after", "7")
    assert "lease.active" in result.stdout
    assert "ago" in result.stdout
    assert "try 2, i-7" in result.stdout
    assert api.asked[0].query["after"] == ["7"]


def test_a_refusal_shows_everything_the_problem_says(api: FakeApi, cli: Cli) -> None:
    errors = [{"pointer": "/gpu/count", "detail": "must be at least 1"}]
    api.next_answers.append(problem(422, "invalid_request", "the request is not valid", errors=errors))
    result = cli("lease", "create", "--gpu", "T4", "--ttl", "1h")
    assert result.exit_code == 1
    for part in ("invalid request (422 invalid_request)", "the request is not valid", "--gpu: must be", "req-7"):
        assert part in result.stderr
    assert result.stdout == ""


def test_a_quota_error_is_a_sentence_for_each_limit(api: FakeApi, cli: Cli) -> None:
    short: list[Json] = [
        {"resource": "gpus:A100", "limit": 8, "used": 6, "asked": 4},
        {"resource": "spend_per_hour", "limit": "50", "used": "30.5", "asked": "87.8432"},
    ]
    api.next_answers.append(problem(409, "quota_exceeded", "Quota exceeded: …", **short[0], shortages=short))
    shown = cli("lease", "create", "--gpu", "T4", "--ttl", "1h").stderr.splitlines()
    assert shown[1:3] == [
        "  gpus:A100: 4 requested, 2 of 8 available",
        "  spend_per_hour: 87.84 requested, 19.50 of 50 available",
    ]
    assert "  try: release leases, or request a higher quota; `gpulease quota show` lists the limits" in shown


def test_excluded_offerings_of_an_error_are_counted_by_reason(api: FakeApi, cli: Cli) -> None:
    models, gpus = "700 offerings have another GPU model", "20 offerings have another number of GPUs"
    groups = [
        {"code": "gpu_model", "count": 700, "message": models, "nearest": "g5.xlarge: has A10G, requested T4"},
        {"code": "gpu_count", "count": 20, "message": gpus, "nearest": "g4dn.xlarge: has 1 GPUs, requested 7"},
    ]
    detail = f"None of 720 offerings fits: {models}, {gpus}."
    api.next_answers.append(problem(409, "no_offering", detail, excluded=groups))
    shown = cli("lease", "create", "--gpu", "T4", "--ttl", "1h").stderr
    assert "\n  700 offerings have another GPU model; nearest: g5.xlarge: has A10G, requested T4\n" in shown
    assert shown.count(gpus) == 1


def test_fields_of_the_api_are_shown_as_options(api: FakeApi, cli: Cli) -> None:
    fault = {"pointer": "#/body/regions/0", "detail": "names no region"}
    other = {"pointer": "#/body/gpu/memory_gib", "detail": "must be at least 1"}
    answer = problem(422, "unknown_region", "regions.0 names no region: did you mean us-east-1?")
    api.next_answers.append(replace(answer, body={**(answer.body or {}), "errors": [fault, other]}))
    shown = cli("lease", "create", "--gpu", "T4", "--region", "us-east", "--ttl", "1h").stderr
    assert "  --region names no region: did you mean us-east-1?\n" in shown
    assert "  --gpu-memory: must be at least 1\n" in shown
    assert "regions.0" not in shown


def test_what_the_detail_says_is_not_repeated(api: FakeApi, cli: Cli) -> None:
    message = "names no GPU model of this installation: did you mean H100? known are A100, H100"
    fault = {"pointer": "#/body/gpu/model", "detail": message}
    answer = problem(422, "unknown_gpu_model", f"gpu.model {message}.", known=["A100", "H100"], nearest="H100")
    api.next_answers.append(replace(answer, body={**(answer.body or {}), "errors": [fault]}))
    _, detail, *advice = cli("lease", "create", "--gpu", "H1000", "--ttl", "1h").stderr.splitlines()
    assert detail == f"  --gpu {message}."
    assert [line.split()[0] for line in advice] == ["try:", "request"]


def test_the_total_is_for_the_term_with_its_extensions(api: FakeApi, cli: Cli) -> None:
    estimate = {"price_per_hour": "21.96", "price_for_term": "43.92", **ALL_PARTS}
    api.add(a_lease(1, created_at="2999-01-01T10:00:00Z", expires_at="2999-01-01T12:00:00Z", estimate=estimate))
    shown = cli("lease", "show", "lease_00000000000000000000000001").stdout
    assert "43.92 USD for 2 h" in shown
    assert "total" in shown


def test_an_unknown_model_names_the_known_ones(api: FakeApi, cli: Cli) -> None:
    more = {"known": ["A100", "H100"], "nearest": "H100"}
    api.next_answers.append(problem(422, "unknown_gpu_model", "H1000 is not a GPU model", **more))
    shown = cli("lease", "create", "--gpu", "H1000", "--ttl", "1h").stderr
    assert "known: A100, H100" in shown
    assert "nearest: H100" in shown


def test_a_name_that_is_taken_shows_the_lease(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(
        problem(409, "name_taken", "the name is taken", lease_id="lease_00000000000000000000000009")
    )
    shown = cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--name", "t").stderr
    assert "lease id: lease_00000000000000000000000009" in shown
    assert "another --name" in shown


def test_a_refusal_is_json_for_programs(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(problem(409, "quota_exceeded", "8 of 8 in use"))
    result = cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["code"] == "quota_exceeded"


def test_a_busy_api_is_asked_again_after_its_own_time(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    api.next_answers.append(Answer(429, {"code": "rate_limited"}, {"Retry-After": "0"}))
    result = cli("lease", "show", "lease_00000000000000000000000001")
    assert result.exit_code == 0
    assert "retrying in 0 s" in result.stderr


def test_a_create_waits_for_a_database_that_comes_back(api: FakeApi, cli: Cli) -> None:
    away = problem(503, "database_unavailable", "the service cannot reach its database")
    api.next_answers.append(replace(away, headers={**away.headers, "Retry-After": "0"}))
    assert cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--no-ssh-key").exit_code == 0
    assert len({asked.headers["idempotency-key"] for asked in api.asked}) == 1


def test_a_list_that_never_moves_on_is_an_error_and_not_a_loop(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/leases"] = {"items": [a_lease()], "next_cursor": "same"}
    result = cli("lease", "list", "--limit", "0")
    assert result.exit_code == 1
    assert "repeatedly" in result.stderr


def test_what_may_not_be_repeated_is_sent_once(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    api.next_answers.append(Answer(drop=True))
    assert cli("lease", "reboot", "lease_00000000000000000000000001").exit_code == 3
    assert len(api.asked) == 1


def test_an_answer_of_something_in_between_is_named(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(Answer(403, None, {"Content-Type": "text/html"}, raw=b"<h1>Forbidden</h1>"))
    result = cli("lease", "show", "lease_00000000000000000000000001")
    assert result.exit_code == 1
    assert "403" in result.stderr
    assert len(api.asked) == 1
