"""`gpulease group`: create, list, show, hosts, scale, release, ssh."""

import csv
import signal
from typing import Any

import pytest

from app.cli.groups.watch import interrupted
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, ALL_PARTS, PLACE, TENANT_ID, Answer, FakeApi, Json, a_lease, problem
from tests.cli.terminal import Terminal

ID = "group_01m84jncx1es4vd0pkyemx4c86"
PATH = f"/v1/groups/{ID}"
POOL: Json = {
    "account": "research",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "instance_type": "p4d.24xlarge",
    "market": "on_demand",
}


SEEN = {"nodes": 3, "mesh": "ok", "unreachable": [], "checked_at": "2026-06-01T10:06:00Z"}
CHECKS = (
    {**SEEN, "all_reduce": "ok", "all_reduce_gbps": 178.4},
    {**SEEN, "mesh": "failed", "unreachable": [2], "all_reduce": "unavailable", "all_reduce_gbps": None},
    {**SEEN, "all_reduce": "failed", "all_reduce_gbps": None},
)


def a_group(state: str = "queued", *members: str, **changes: Any) -> Json:
    """A group as the contract has it; `members`: their states by rank."""
    states = members or ("queued", "queued")
    return {
        "id": ID,
        "tenant_id": TENANT_ID,
        "name": "train",
        "state": state,
        "terminal": state == "ended",
        "reason": None,
        "size": len(states),
        "min_size": len(states),
        "ready": states.count("active"),
        "placement": "cluster",
        "interconnect": "required",
        "form_seconds": 900,
        "on_member_loss": "end",
        "pool": POOL if state != "queued" else None,
        "pools_tried": [{**POOL, "zone": "us-east-1b", "failed_at": "2026-06-01T10:05:00Z"}],
        "pool_started_at": "2026-06-01T10:05:10Z",
        "expires_at": "2099-06-01T10:00:00Z",
        "cost": {
            "accrued": "12.50",
            "price_per_hour": None,
            "parts": None,
            "as_of": "2026-06-01T10:06:00Z",
            **ALL_PARTS,
        },
        "estimate": {"price_per_hour": str(55 * len(states)), "price_for_term": str(220 * len(states)), **ALL_PARTS},
        "created_at": "2026-06-01T10:00:00Z",
        "release_requested_at": None,
        "lease": {"gpu": {"model": "A100", "count": 8, "min_count": None}},
        "members": [
            {
                "rank": rank,
                "lease_id": f"lease_{rank:026}",
                "name": f"train-{rank}",
                "state": one,
                "reason": None,
                "public_ip": f"198.51.100.{rank}",
                "private_ip": f"10.0.0.{rank}",
                "zone": "us-east-1a",
                "check": None if rank > 2 else CHECKS[rank],
            }
            for rank, one in enumerate(states)
        ],
        **changes,
    }


@pytest.fixture(autouse=True)
def listed(api: FakeApi) -> None:
    shown = {name: value for name, value in a_group("forming").items() if name not in {"members", "lease"}}
    api.documents["GET", "/v1/groups"] = {"items": [shown], "next_cursor": None, "total_count": None}
    api.documents["GET", PATH] = a_group("active", "active", "active")


def create(cli: Cli, *options: str) -> Any:
    return cli("group", "create", "train", "--size", "2", "--gpu", "A100:8", "--ttl", "4h", "--no-ssh-key", *options)


def test_the_request_of_a_member_goes_into_the_groups(api: FakeApi, cli: Cli) -> None:
    api.documents["POST", "/v1/groups"] = a_group()
    result = create(cli, "--placement", "cluster", "--fabric", "required", "--form-time", "10m", "--min-size", "1")
    assert result.exit_code == 0, result.output
    (asked,) = api.calls("POST", "/v1/groups")
    assert asked.headers["idempotency-key"]
    body = asked.body or {}
    assert body.pop("lease")["gpu"] == {"model": "A100", "count": 8}
    assert body == {
        "name": "train",
        "size": 2,
        "min_size": 1,
        "placement": "cluster",
        "interconnect": "required",
        "form_seconds": 600,
    }


def test_a_member_has_no_name_of_its_own(api: FakeApi, cli: Cli) -> None:
    assert create(cli, "--name", "mine").exit_code == 2
    assert not api.asked


@pytest.mark.parametrize(("state", "code"), [("active", 0), ("degraded", 0), ("releasing", 1)])
def test_a_watch_reports_progress_until_the_group_is_formed_or_ends(
    state: str, code: int, api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.cli.groups.watch._POLL_SECONDS", 0.01)
    api.documents["POST", "/v1/groups"] = a_group()
    reason = {"code": "capacity_exhausted", "message": "no pool", "origin": "system", "retryable": True}
    course = [
        a_group("forming", "booting", "queued"),
        a_group("forming", "active", "booting"),
        a_group(state, "active", "active", reason=reason if code else None),
    ]
    api.next_answers.extend([Answer(201, a_group()), *(Answer(200, one) for one in course)])
    result = create(cli, "--watch")
    assert result.exit_code == code, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("forming 0/2 ready, 1 booting, 1 queued in us-east-1a p4d.24xlarge")
    assert lines[1].startswith("forming 1/2 ready, 1 booting in")
    assert "of 15 min" in lines[1]
    assert lines[1].endswith("; 1 pool tried")
    assert ("error: capacity_exhausted: no pool" in result.stderr) == bool(code)


ENDS_IT = f"`gpulease group release {ID}` ends it"
COSTS: Json = {**a_group()["cost"], "price_per_hour": "55.00"}


@pytest.mark.parametrize(
    ("seen", "goes_on"),
    [
        (a_group("queued"), f"continues and costs 110.00 USD/h once it runs: {ENDS_IT}"),
        (
            a_group("forming", "booting", "queued", cost=COSTS),
            f"continues and costs 55.00 USD/h, 110.00 with all members: {ENDS_IT}",
        ),
        (
            a_group("forming", "active", "booting", cost={**COSTS, "price_per_hour": "110.00"}),
            f"continues and costs 110.00 USD/h: {ENDS_IT}",
        ),
    ],
)
def test_ctrl_c_ends_a_watch_and_says_what_the_group_goes_on_to_cost(
    api: FakeApi, cli: Cli, seen: Json, goes_on: str
) -> None:
    api.documents["POST", "/v1/groups"] = api.documents["GET", PATH] = seen
    for command in ([*CREATE, "--watch"], ["group", "watch", "train"]):
        process = cli.fork(*command)
        assert process.stdout is not None
        assert seen["state"] in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 130
        assert errors.endswith(f"{ID} {goes_on}\ninterrupted\n")


def test_the_note_after_ctrl_c_fits_a_group_that_ends_or_was_not_read() -> None:
    assert interrupted(ID, a_group("releasing")) == f"{ID} continues to end: `gpulease group show {ID}`"
    assert interrupted(ID, a_group("ended")) == f"{ID} has ended"
    assert interrupted(ID, {}) == f"{ID} continues: {ENDS_IT}"


@pytest.mark.parametrize("width", ["80", "120"])
def test_lists_and_groups_fit_the_terminal(width: str, cli: Cli) -> None:
    cli.environ["COLUMNS"] = width
    for arguments in (["list"], ["show", ID]):
        result = cli("group", *arguments)
        assert result.exit_code == 0, result.output
        assert max(map(len, result.stdout.splitlines())) <= int(width)
        assert "train" in result.stdout
        assert "p4d.24xlarge" in result.stdout


def test_a_group_shows_its_members_and_the_pools_it_tried(cli: Cli) -> None:
    shown = cli("group", "show", "train").stdout
    assert "2/2 members, at least 2 needed" in shown
    assert "us-east-1b p4d.24xlarge on_demand (research), given up" in shown
    assert "10.0.0.1" in shown
    rows = cli("group", "show", ID, "--csv").stdout.splitlines()
    assert rows[0].startswith("RANK,LEASE,NAME,STATE")
    assert len(rows) == 3


def test_a_group_shows_what_its_members_found_in_the_network(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", PATH] = a_group("active", "active", "active", "active", "active")
    rows = cli("group", "show", ID, "--csv").stdout.splitlines()
    column = rows[0].split(",").index("NETWORK")
    shown = [row[column] for row in csv.reader(rows[1:])]
    assert shown == ["ok, 178 GB/s", "1 member missing", "ok, all-reduce failed", ""]


def test_hosts_are_printed_as_they_come(api: FakeApi, cli: Cli) -> None:
    text = b"10.0.0.0 slots=8\n10.0.0.1 slots=8\n"
    api.next_answers.append(Answer(200, None, {"Content-Type": "text/plain; charset=utf-8"}, raw=text))
    result = cli("group", "hosts", ID)
    assert result.stdout == text.decode()
    assert api.asked[-1].query == {"format": ["hostfile"]}


def test_a_group_is_scaled_and_released_by_name(api: FakeApi, cli: Cli) -> None:
    api.documents["PATCH", PATH] = a_group("active", "active", "active", "queued", "queued")
    api.documents["DELETE", PATH] = a_group("releasing", "releasing", "releasing")
    assert cli("group", "scale", "train", "4").exit_code == 0
    assert [asked.body for asked in api.calls("PATCH", PATH)] == [{"size": 4}]
    assert cli("group", "release", "train").exit_code == 0
    assert len(api.calls("DELETE", PATH)) == 1
    assert cli("group", "release", "ghost").exit_code == 1


def test_ssh_logs_in_to_the_member_of_a_rank(api: FakeApi, cli: Cli) -> None:
    api.add({**a_lease(1), **ACTIVE})
    result = cli("group", "ssh", "train", "--rank", "1", "--print", "--", "hostname")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("ssh ")
    assert result.stdout.rstrip().endswith("203.0.113.9 hostname")
    assert cli("group", "ssh", "train", "--rank", "7").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (["90m"], {"extend_by_seconds": 5400}),
        (["--until", "2099-06-02T10:00:00Z"], {"expires_at": "2099-06-02T10:00:00Z"}),
    ],
)
def test_a_group_is_extended_by_a_duration_or_until_a_time(
    arguments: list[str], body: Json, api: FakeApi, cli: Cli
) -> None:
    api.documents["POST", f"{PATH}/extend"] = a_group("active", "active", "active", expires_at="2099-06-02T10:00:00Z")
    extended = cli("group", "extend", "train", *arguments)
    assert extended.exit_code == 0, extended.output
    assert [asked.body for asked in api.calls("POST", f"{PATH}/extend")] == [body]
    assert "2/2 members" in extended.stdout


@pytest.mark.parametrize("arguments", [[], ["1h", "--until", "2h"]])
def test_the_extension_of_a_group_needs_a_duration_or_a_time_and_not_both(arguments: list[str], cli: Cli) -> None:
    refused = cli("group", "extend", "train", *arguments)
    assert refused.exit_code == 2
    assert "give either DURATION" in refused.stderr


def test_a_refusal_of_a_groups_extension_states_its_amounts(api: FakeApi, cli: Cli) -> None:
    amounts = {"budget": "7.50", "spent": "0.00", "committed": "6.04", "asked": "3.02", "resets_at": None}
    api.refusals["POST", f"{PATH}/extend"] = problem(409, "budget_exceeded", "no room", **amounts)
    refused = cli("group", "extend", "train", "1h")
    assert refused.exit_code == 1
    assert "budget_exceeded" in refused.stderr
    assert all(amount in refused.stderr for amount in ("7.50", "6.04", "3.02"))


PLAN = ("POST", "/v1/groups/plan")
CREATE = ["group", "create", "train", "--size", "2", "--gpu", "A100:8", "--ttl", "4h", "--no-ssh-key"]


@pytest.fixture
def planned(api: FakeApi) -> Json:
    """Two members of 55 USD an hour each."""
    offering = {**PLACE, "price_per_hour": "55.00"}
    plan: Json = {
        "size": 2,
        "candidates": [
            {"rank": 1, "offering": offering, "price_for_term": "220.00", "disk_gib": 100, "quota_fits": True}
        ],
        "candidates_count": 1,
        "excluded": [],
        "excluded_by_reason": [],
        "quota": {"fits": True, "resources": []},
        "member_cost": {"price_per_hour": "55.00", "price_for_term": "220.00", **ALL_PARTS},
        "cost": {"price_per_hour": "110.00", "price_for_term": "440.00", **ALL_PARTS},
    }
    api.documents[PLAN] = plan
    api.documents["POST", "/v1/groups"] = a_group()
    return plan


@pytest.mark.parametrize(("answer", "code", "calls"), [("n", 1, 0), ("y", 0, 1)])
def test_a_terminal_asks_with_the_price_of_all_members(
    api: FakeApi, cli: Cli, planned: Json, answer: str, code: int, calls: int
) -> None:
    with Terminal(cli, CREATE) as terminal:
        terminal.wait_for("440.00 USD for 4 h")
        assert "2 at 55.00 USD/h each" in terminal.text
        assert "110.00 USD/h" in terminal.text
        assert not api.calls("POST", "/v1/groups")
        terminal.type(f"{answer}\n")
        exit_code, errors = terminal.finish()
    assert exit_code == code
    assert "Create this group? [y/N]" in errors
    assert len(api.calls("POST", "/v1/groups")) == calls
    (asked,) = api.calls(*PLAN)
    assert (asked.body or {})["lease"]["ttl_seconds"] == 4 * 3600


def test_without_a_terminal_or_with_yes_nothing_is_asked(api: FakeApi, cli: Cli, planned: Json) -> None:
    assert cli(*CREATE).exit_code == 0
    with Terminal(cli, [*CREATE, "--yes"]) as terminal:
        assert terminal.finish()[0] == 0
    assert len(api.calls("POST", "/v1/groups")) == 2
    assert not api.calls(*PLAN)


def test_a_plan_of_a_group_shows_each_member_and_all(api: FakeApi, cli: Cli, planned: Json) -> None:
    result = cli("group", "plan", *CREATE[2:])
    assert result.exit_code == 0, result.output
    assert "2 at 55.00 USD/h each" in result.stdout
    assert "110.00 USD/h, 440.00 USD for 4 h" in result.stdout
    assert "USD/H EACH" in result.stdout
    assert not api.calls("POST", "/v1/groups")


@pytest.mark.parametrize(
    ("command", "question", "price"),
    [
        (["scale", ID, "4"], "Start these members?", "adds 2 members at 55.00 USD/h each: 110.00 USD/h, at most"),
        (["extend", ID, "2h"], "Extend this group?", "adds 2 h for 2 members: at most 220.00 USD at 110.00 USD/h"),
    ],
)
def test_a_terminal_asks_before_a_group_costs_more(
    api: FakeApi, cli: Cli, command: list[str], question: str, price: str
) -> None:
    api.documents["PATCH", PATH] = api.documents["POST", f"{PATH}/extend"] = a_group()
    with Terminal(cli, ["group", *command], columns=120) as terminal:
        terminal.wait_for(price)
        terminal.type("n\n")
        exit_code, errors = terminal.finish()
    assert exit_code == 1
    assert question in errors
    assert not api.calls("PATCH", PATH) + api.calls("POST", f"{PATH}/extend")
    assert cli("group", *command).exit_code == 0


def test_fewer_members_cost_nothing_and_need_no_answer(api: FakeApi, cli: Cli) -> None:
    api.documents["PATCH", PATH] = a_group()
    with Terminal(cli, ["group", "scale", ID, "1"]) as terminal:
        assert terminal.finish()[0] == 0


def test_a_list_and_a_group_show_price_and_cost(cli: Cli) -> None:
    assert "110.00" in cli("group", "list").stdout
    seen = cli("group", "show", ID).stdout
    assert "110.00 USD/h for all members" in seen
    assert "12.50 USD to date" in seen
