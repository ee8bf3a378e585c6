"""`ops top`: what it asks for, how it fits, how it ends."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import ProblemError
from app.cli.leases.top import Board
from app.cli.leases.top_views import Outage, PollResult, Screen, Size, lines
from tests.cli.conftest import Cli
from tests.cli.fake_api import OPERATOR_KEY, Answer, FakeApi, Json, a_lease, problem
from tests.cli.installation import SUMMARY, a_group, a_summary, an_event

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


USUAL = Size(80, 24)
EVENTS = tuple(an_event(number) for number in range(60, 0, -1))


def _text(summary: Json, *, away: Outage | None = None, size: Size = USUAL) -> str:
    shown = lines(PollResult(summary, EVENTS), away, NOON, size)
    assert len(shown) <= size.height
    assert all(line.cell_len <= size.width for line in shown), [line.cell_len for line in shown]
    return "\n".join(line.plain for line in shown)


def test_the_whole_installation_fits_24_lines_of_80() -> None:
    text = _text(a_summary())
    for fact in (
        "install-7  10 s ago",
        "No brakes active",
        "634.36 USD/h",
        "month 10401.77 USD",
        "GPUs 248",
        "p50 64 s, p95 -",
        "queued 2  active 31",
        "region-12",
        "9 more",
        "stuck 5",
        "lease_00000000000000000000000002  main us-east-1",
        "2 more, see",
        "orphans lost_row 3",
        "lease.number60",
    ):
        assert fact in text, text
    assert "lease_00000000000000000000000003" not in text
    assert "region-9 " not in text
    assert len(text.splitlines()) == 24
    assert text.index("lease.number60") < text.index("lease.number59")


def test_a_larger_terminal_shows_more() -> None:
    text = _text(a_summary(), size=Size(120, 50))
    assert "lease_00000000000000000000000004" in text
    assert "region-6" in text
    assert text.count("lease.number") > 20


@pytest.mark.parametrize("size", [Size(20, 5), Size(1, 1), Size(79, 3)])
def test_a_tiny_terminal_breaks_nothing(size: Size) -> None:
    _text(a_summary(), size=size)


def test_brakes_come_first() -> None:
    stopped = {"brake": "launches_stopped", "since": "2026-06-01T11:50:00Z", "message": "by key_1: costs"}
    silent = {"brake": "silence", "account": "main", "region": "us-east-1", "since": None, "message": None}
    brakes = [stopped, silent, *({"brake": "cordon", "account": f"a{number}"} for number in range(3))]
    broken = {"checked_at": None, "broken": [{"name": "x"}]}
    shown = _text(a_summary(active_brakes=brakes, invariants=broken)).splitlines()
    assert shown[1:5] == [
        "BRAKE launches_stopped 10 min ago: by key_1: costs",
        "BRAKE silence main/us-east-1",
        "BRAKE cordon a0",
        "2 more brakes, see `gpulease ops summary`",
    ]
    assert "INVARIANTS BROKEN: 1" in shown[5]


def test_an_absent_api_leaves_the_last_picture_and_says_since_when() -> None:
    text = _text(a_summary(), away=Outage("connection refused", NOON - timedelta(minutes=2)))
    assert "API UNREACHABLE since 2026-06-01T11:58:00Z (2 min ago): connection refused" in text.splitlines()[1]
    assert "634.36 USD/h" in text


def test_since_when_counts_from_the_first_miss_until_an_answer() -> None:
    screen = Screen()
    screen.away("refused", NOON)
    screen.away("refused", NOON + timedelta(hours=1))
    console = Console(width=80, height=24, file=io.StringIO())
    with console.capture() as before:
        console.print(screen)
    screen.show(PollResult(a_summary(), EVENTS))
    with console.capture() as after:
        console.print(screen)
    assert "API UNREACHABLE since 2026-06-01T12:00:00Z" in before.get()
    assert "API UNREACHABLE" not in after.get()


def test_names_from_others_cannot_steer_the_terminal() -> None:
    bad = "\x1b[2J[red]\nx"
    summary = a_summary(by_provider=[a_group(bad, 1, "1.00")], orphans=[{"cause": bad, "orphans": 1}])
    shown = lines(
        PollResult(summary, (an_event(1, type=bad, data={"a": bad}),)), Outage(bad, NOON), NOON, Size(200, 40)
    )
    assert not [line for line in shown if "\x1b" in line.plain or "\n" in line.plain]


@pytest.fixture
def client(api: FakeApi) -> Iterator[Api]:
    with Api(Endpoint(api.url, OPERATOR_KEY), note=list[str]().append) as opened:
        yield opened


def test_an_unchanged_installation_costs_two_small_answers(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = a_summary()
    api.add(a_lease())
    api.events += [an_event(number) for number in range(1, 151)]
    board = Board(client)
    assert [event["sequence"] for event in board.look().events] == list(range(150, 100, -1))
    first = len(api.asked)
    api.events.append(an_event(151))
    assert board.look().events[0]["sequence"] == 151
    assert board.look().summary == a_summary()
    summary, events, *again = api.asked[first:]
    assert "if-none-match" in summary.headers
    assert events.query["after"] == ["150"]
    assert len(again) == 2


def test_events_that_have_no_number_yet_are_waited_for(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = a_summary()
    api.add(a_lease())
    board = Board(client)
    assert not board.look().events
    api.events.append(an_event(1))
    assert [event["sequence"] for event in board.look().events] == [1]


def test_an_installation_without_leases_begins_at_its_oldest_event(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = a_summary()
    board = Board(client)
    assert not board.look().events
    _newest, asked = api.calls("GET", "/v1/events")
    assert "after" not in asked.query


def test_events_no_longer_kept_are_left_out(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = a_summary()
    board = Board(client)
    api.events.append(an_event(1))
    board.look()
    api.events.append(an_event(9))
    api.next_answers.extend([Answer(200, a_summary()), problem(410, "cursor_expired", "gone")])
    assert [event["sequence"] for event in board.look().events] == [9, 1]
    api.next_answers.extend([Answer(200, a_summary()), problem(403, "forbidden", "no")])
    with pytest.raises(ProblemError):
        board.look()


def test_what_is_no_terminal_gets_one_picture(api: FakeApi, cli: Cli) -> None:
    api.documents[SUMMARY] = a_summary()
    api.add(a_lease())
    api.events.append(an_event(1))
    result = cli("ops", "top")
    assert result.exit_code == 0, result.output
    assert "634.36 USD/h" in result.stdout
    assert "lease.number1" in result.stdout
    assert "\x1b" not in result.stdout
    assert api.calls(*SUMMARY)[-1].key == OPERATOR_KEY
    shown = json.loads(cli("ops", "top", "--json").stdout)
    assert shown == {"summary": a_summary(), "events": [an_event(1)]}
    assert "no table" in cli("ops", "top", "--output", "csv").stderr
