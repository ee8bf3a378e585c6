"""`gpulease lease explain`."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PLACE, REFUSED_ATTEMPT, FakeApi, a_lease

EXPLANATION: dict[str, Any] = {
    "lease_id": "lease_00000000000000000000000001",
    "state": "queued",
    "code": "no_capacity",
    "summary": "The only offering that fits is in cool-off; gpulease tries again at 12:03:10 UTC.",
    "since": "2026-06-01T10:00:00Z",
    "next_try_at": "2999-06-01T10:00:30Z",
    "gives_up_at": "2999-06-01T11:00:00Z",
    "typical_ready_seconds": None,
    "retryable": None,
    "candidates": [
        {
            "offering": PLACE,
            "verdict": "cooling_off",
            "message": "in cool-off: the provider had no capacity (InsufficientInstanceCapacity)",
            "since": "2026-06-01T10:00:04Z",
            "cool_off_until": "2999-06-01T10:00:30Z",
            "last_attempt": {name: REFUSED_ATTEMPT[name] for name in ("n", "error", "started_at", "ended_at")},
        }
    ],
    "candidates_count": 21,
    "excluded": [
        {
            "code": "price_cap",
            "count": 12,
            "message": "12 offerings cost more than max_price_per_hour",
            "nearest": PLACE,
            "nearest_detail": "costs 21.96 USD an hour, the cap is 10",
        }
    ],
    "quota": [
        {"resource": "gpus", "limit": "8", "used": "8", "reserved": "0", "needed": "8", "free": "0", "fits": False},
        {"resource": "leases", "limit": None, "used": "1", "reserved": "1", "needed": "1", "free": None, "fits": True},
    ],
    "queue": {"position": 3, "waiting": 14, "position_in_tenant": 1, "waiting_in_tenant": 2},
    "suggestions": [
        {
            "code": "price_cap",
            "message": "Raise max_price_per_hour to 21.96.",
            "change": {"max_price_per_hour": "21.96"},
            "offering": PLACE,
        }
    ],
    "as_of": "2026-06-01T10:00:10Z",
}


@pytest.fixture(autouse=True)
def explained(api: FakeApi) -> None:
    api.add(a_lease(1))
    api.documents["GET", "/v1/leases/lease_00000000000000000000000001/explain"] = EXPLANATION


def test_explain_shows_the_sentence_the_verdicts_and_what_would_fit(cli: Cli) -> None:
    result = replace(cli, environ={**cli.environ, "COLUMNS": "80"})("lease", "explain", "train-1")
    assert result.exit_code == 0, result.output
    assert max(cell_len(line.rstrip()) for line in result.stdout.splitlines()) <= 80
    text = " ".join(result.stdout.split())
    for part in (
        "The only offering that fits is in cool-off",
        "3 of 14 queued leases",
        "the best 1 of 21",
        "21.96",
        "gpus 8 0 8",
        "Raise max_price_per_hour to 21.96.",
        "12 offerings cost more than max_price_per_hour; nearest:",
    ):
        assert part in text, result.stdout
    assert "leases 1" not in text


def test_a_planned_time_that_has_passed_is_now(api: FakeApi, cli: Cli) -> None:
    past = {"next_try_at": "2026-06-01T10:00:30Z", "gives_up_at": "2026-06-01T10:00:31Z"}
    api.documents["GET", "/v1/leases/lease_00000000000000000000000001/explain"] = {**EXPLANATION, **past}
    lines = [line.split() for line in cli("lease", "explain", "train-1").stdout.splitlines()]
    assert ["gives", "up", "now"] in lines
    assert ["next", "try", "now"] in lines


def test_explain_is_json_or_its_candidates_as_csv(cli: Cli) -> None:
    assert json.loads(cli("lease", "explain", "lease_00000000000000000000000001", "--json").stdout) == EXPLANATION
    (row,) = csv.DictReader(
        io.StringIO(cli("lease", "explain", "lease_00000000000000000000000001", "--output", "csv").stdout, newline="")
    )
    assert (row["VERDICT"], row["COOL-OFF UNTIL"]) == ("cooling_off", "2999-06-01T10:00:30Z")


def test_a_waiting_lease_names_the_command(api: FakeApi, cli: Cli) -> None:
    assert "`gpulease lease explain train-1`" in cli("lease", "show", "train-1").stderr
    assert cli("lease", "show", "lease_00000000000000000000000001", "--json").stderr == ""
    api.add(a_lease(2) | BOOTING | ACTIVE)
    assert cli("lease", "show", "train-2").stderr == ""
