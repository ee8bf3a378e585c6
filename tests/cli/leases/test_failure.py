"""A failed wait: each error once, with its count, and what to try."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from rich.console import Console

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.leases.failure import failure_lines
from app.cli.leases.watch import Pace, follow
from app.cli.leases.watch_views import Snapshot, picture
from app.cli.render import times
from app.cli.session import Connection, Session
from tests.cli.conftest import Cli
from tests.cli.fake_api import (
    ACTIVE,
    BOOTING,
    NO_CAPACITY,
    PLACE,
    PROVISIONING,
    REFUSED_ATTEMPT,
    RELEASED,
    TENANT_KEY,
    FakeApi,
    Json,
    a_lease,
)

FAST = Pace(fastest=0.01, slowest=0.02)
SENTENCE = "We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested."


def _attempts(count: int) -> list[Json]:
    error = {"class": "no_capacity", "code": "InsufficientInstanceCapacity", "message": SENTENCE}
    other = {"class": "quota", "code": "VcpuLimitExceeded", "message": "vCPU limit"}
    return [
        {
            **REFUSED_ATTEMPT,
            "n": n,
            "error": error if n < count else other,
            "offering": {**PLACE, "zone": f"us-east-1{'abcdef'[n % 6]}"},
        }
        for n in range(1, count + 1)
    ]


@pytest.fixture
def client(api: FakeApi) -> Iterator[Api]:
    with Api(Endpoint(api.url, TENANT_KEY), note=list[str]().append) as opened:
        yield opened


def test_fifty_refusals_are_two_lines_and_an_advice() -> None:
    lines = list(failure_lines(a_lease(1, **NO_CAPACITY), _attempts(50)))
    assert lines[0] == "error: train-1 is failed: capacity_exhausted: every offering refused"
    assert lines[1].startswith(f"  49 x InsufficientInstanceCapacity: {SENTENCE} (aws us-east-1b,")
    assert lines[1].endswith("and 2 more)")
    assert lines[2] == "  1 x VcpuLimitExceeded: vCPU limit (aws us-east-1c)"
    assert "--wait 2h" in lines[3]
    assert "gpulease lease explain lease_00000000000000000000000001" in lines[4]
    assert len(lines) == 5


def test_a_failed_watch_prints_the_providers_sentence_twice_at_most(
    api: FakeApi, client: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add(a_lease(1, attempts_count=50), {**PROVISIONING, "attempts_count": 50}, NO_CAPACITY, attempts=_attempts(50))
    with Session(Connection()) as session:
        assert follow(session, client, "lease_00000000000000000000000001", until="active", timeout=60, pace=FAST) == 1
    printed = capsys.readouterr()
    assert printed.out.count(SENTENCE) == 1
    assert printed.out.count("InsufficientInstanceCapacity") == 49
    assert printed.err.count(SENTENCE) == 1
    assert "try: wait longer" in printed.err


def test_programs_read_the_lease_and_people_the_reason(
    api: FakeApi, client: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add(a_lease(1), NO_CAPACITY)
    with Session(Connection(as_json=True)) as session:
        follow(session, client, "lease_00000000000000000000000001", until="active", timeout=60, pace=FAST)
    assert [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()] == ["queued", "failed"]


def test_a_release_of_the_user_is_no_failure_with_advice(api: FakeApi, cli: Cli) -> None:
    reason = {"code": "released_by_user", "message": "released"}
    api.add(a_lease(1, **RELEASED, reason=reason))
    result = cli("lease", "watch", "lease_00000000000000000000000001", "--until", "active")
    assert result.exit_code == 1
    assert "train-1 is released: released_by_user" in result.stderr
    assert "try:" not in result.stderr


def _drawn(lease: Json, attempts: list[Json], monkeypatch: pytest.MonkeyPatch, second: float) -> str:
    start = times.parse_time("2026-06-01T10:00:10Z")
    assert start is not None
    moment = start + timedelta(seconds=second)
    monkeypatch.setattr(times, "now", lambda: moment)
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(picture(Snapshot(lease, tuple(attempts))))
    return captured.get()


def test_the_live_display_has_a_moving_spinner_the_phase_and_the_elapsed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = a_lease(1, **PROVISIONING)
    pictures = [_drawn(lease, _attempts(2), monkeypatch, second) for second in (0.0, 0.1, 5.0)]
    assert "train-1  lease_00000000000000000000000001  elapsed 10 s" in pictures[0]
    assert "train-1  lease_00000000000000000000000001  elapsed 15 s" in pictures[2]
    assert "provisioning" in pictures[0]
    assert "try 2: aws us-east-1c p4d.24xlarge spot" in pictures[0]
    spinners = {next(line for line in text.splitlines() if "provisioning" in line)[0] for text in pictures}
    assert len(spinners) > 1


def test_the_display_of_an_active_lease_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = a_lease(1, **{**PROVISIONING, **BOOTING, **ACTIVE})
    drawn = _drawn(lease, [], monkeypatch, 0.0)
    assert "✓ active" in drawn
    assert "connect" in drawn
    ended = _drawn({**lease, **RELEASED}, [], monkeypatch, 0.0)
    assert "connect" not in ended
    assert "USD/h" not in ended
