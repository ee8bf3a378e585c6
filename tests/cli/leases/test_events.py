"""`events list`, `events tail`, `audit`, and events in words."""

import json
import signal

import pytest

from app.cli.leases.event_views import change_text, event_text
from tests.cli.conftest import Cli
from tests.cli.fake_api import PLACE, FakeApi, Json, a_lease
from tests.cli.installation import an_event


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"n": 1, "offering": PLACE}, "try 1, aws us-east-1a p4d.24xlarge spot, 21.96 USD/h"),
        (
            {
                "n": 1,
                "zone": "us-east-1c",
                "market": "spot",
                "provider": "aws",
                "instance_type": "g5.xlarge",
                "instance_id": "i-1",
                "reservation": None,
            },
            "try 1, aws us-east-1c g5.xlarge spot, i-1",
        ),
        ({"reason": {"code": "expired", "message": "the term is over"}}, "expired: the term is over"),
        ({"reason": "expired"}, "expired"),
        (
            {"n": 3, "error": {"class": "capacity", "code": "Insufficient", "message": "none left"}},
            "try 3, Insufficient: none left",
        ),
        ({"resource": "gpus", "limit": 8, "used": 8}, "resource gpus, limit 8, used 8"),
        ({"expires_at": "2026-06-01T10:00:00Z"}, "expires 2026-06-01T10:00:00Z"),
        ({"labels": {"team": "vision"}}, "labels team=vision"),
        ({}, ""),
    ],
)
def test_an_event_is_words_and_no_raw_data(data: Json, text: str) -> None:
    assert event_text({"data": data}) == text


def test_a_change_shows_old_and_new_values() -> None:
    before = {"limits": {"gpus": 8}, "name": "a", "same": 1}
    after = {"limits": {"gpus": 16}, "name": "a", "same": 1, "note": "more"}
    assert change_text({"before": before, "after": after}) == "limits.gpus 8 → 16, note more"
    assert change_text({"before": None, "after": None}) == ""


def test_the_newest_events_are_listed(api: FakeApi, cli: Cli) -> None:
    api.events = [an_event(number) for number in range(1, 300)]
    result = cli("events", "list", "--limit", "3", "--json")
    assert [event["sequence"] for event in json.loads(result.stdout)["items"]] == [297, 298, 299]
    assert [asked.query["limit"] for asked in api.asked] == [["3"]]


def test_events_are_filtered_by_the_api(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    api.events = [an_event(1)]
    filters = ["--type", "lease.failed", "--type", "lease.active", "--lease", "train-1", "--after", "0"]
    shown = cli("events", "list", *filters)
    assert "lease.number1" in shown.stdout
    query = api.asked[-1].query
    assert query["type"] == ["lease.failed", "lease.active"]
    assert query["lease_id"] == ["lease_00000000000000000000000001"]
    assert "created_after" not in query


@pytest.mark.parametrize("as_json", [False, True])
def test_tail_continues_after_the_last_event_when_the_connection_ends(api: FakeApi, cli: Cli, as_json: bool) -> None:
    api.events = [an_event(7), an_event(8, data={"n": 2})]
    with cli.fork("events", "tail", *(["--json"] if as_json else [])) as process:
        assert process.stdout is not None
        first = [process.stdout.readline(), process.stdout.readline()]
        api.events.append(an_event(9))
        last = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    if as_json:
        assert [json.loads(line)["sequence"] for line in (*first, last)] == [7, 8, 9]
    else:
        assert first[1] == "2026-06-01T11:59:00Z  lease.number8  lease_00000000000000000000000001  try 2\n"
        assert "lease.number9" in last
    assert "connecting again" in errors
    calls = api.calls("GET", "/v1/events/stream")
    assert "last-event-id" not in calls[0].headers
    assert calls[1].headers["last-event-id"] == "8"


def test_tail_ends_when_the_api_rejects_it(api: FakeApi, cli: Cli) -> None:
    result = cli("events", "tail", "--key", "gpl_wrong")
    assert result.exit_code == 1
    assert "401" in result.stderr


def test_tail_shows_the_chosen_types_alone(api: FakeApi, cli: Cli) -> None:
    api.events = [an_event(7), an_event(8), an_event(9)]
    with cli.fork("events", "tail", "--type", "lease.number8", "--type", "lease.number9") as process:
        assert process.stdout is not None
        assert "lease.number8" in process.stdout.readline()
        process.kill()
        process.communicate()


def test_the_audit_trail_shows_who_changed_what(api: FakeApi, cli: Cli) -> None:
    entry = {
        "id": "audit_1",
        "created_at": "2026-06-01T10:00:00Z",
        "principal": "key_00000000000000000000000007",
        "role": "admin",
        "action": "lease.create",
        "target": "lease_00000000000000000000000001",
        "before": None,
        "after": {"request": {"gpu": {"model": "A100"}}},
        "principal_name": "laptop",
        "target_name": "train-1",
    }
    api.documents["GET", "/v1/audit"] = {"items": [entry], "next_cursor": None}
    result = cli(
        "audit",
        "--type",
        "lease.create",
        "--about",
        "lease_00000000000000000000000001",
        "--created-after",
        "2026-05-01T00:00:00Z",
    )
    for fact in (
        "ago",
        "lease.create",
        "train-1 (lease_00000000000000000000000001)",
        "laptop (key_00000000000000000000000007)",
        "request.gpu.model A100",
    ):
        assert fact in result.stdout, result.output
    query = api.asked[-1].query
    assert (query["type"], query["about"]) == (["lease.create"], ["lease_00000000000000000000000001"])
    assert query["created_after"] == ["2026-05-01T00:00:00Z"]
