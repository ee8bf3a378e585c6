"""`ops top`: what it asks for, how it fits, how it ends."""

import contextlib
import fcntl
import io
import json
import os
import pty
import signal
import struct
import termios
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from app.cli.client import Api
from app.cli.config import Endpoint
from app.cli.errors import ProblemError
from app.cli.top import Board
from app.cli.top_views import Away, Screen, Seen, Size, lines
from tests.cli.conftest import Cli
from tests.cli.fake_api import OPERATOR_KEY, Answer, FakeApi, Json, a_lease, problem

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SUMMARY = ("GET", "/v1/ops/summary")
START, END = "\x1b[?1049h", "\x1b[?1049l"
"""Of the terminal's second screen."""


def _group(name: str, leases: int, spend: str) -> Json:
    return {"name": name, "leases": leases, "gpus": 8 * leases, "spend_per_hour": spend}


def _summary(**changes: object) -> Json:
    return {
        "as_of": "2026-06-01T11:59:50Z",
        "brakes": {"installation_id": "install-7", "launches_stopped": None, "hold": None},
        "by_state": [{"state": "queued", "leases": 2, "gpus": 0}, {"state": "active", "leases": 31, "gpus": 248}],
        "by_provider": [_group("aws", 30, "612.40"), _group("gcp", 1, "21.96")],
        "by_region": [_group(f"region-{number}", number, f"{number}.00") for number in range(1, 13)],
        "by_gpu_model": [_group("A100", 31, "634.36")],
        "gpus": 248,
        "spend_per_hour": "634.36",
        "spend_month_to_date": "10401.77",
        "orphans": [{"cause": "no_row", "orphans": 3}, {"cause": "leftover", "orphans": 0}],
        "stuck": [
            {
                "kind": "booting",
                "lease_id": f"lease_{number:02}",
                "tenant_id": "tenant_01",
                "state": "booting",
                "account": "main",
                "region": "us-east-1",
                "since": "2026-06-01T11:40:00Z",
            }
            for number in range(5)
        ],
        "time_to_ready": {"leases": 30, "p50_seconds": 64.0, "p95_seconds": None},
        "invariants": {"checked_at": None, "broken": []},
        **changes,
    }


def _event(sequence: int, lease_id: str = "lease_01", **changes: Any) -> Json:
    head = {"id": f"event_{sequence}", "sequence": sequence, "lease_id": lease_id, "type": f"lease.number{sequence}"}
    return {**head, "data": {"provider": "aws"}, "created_at": "2026-06-01T11:59:00Z", **changes}


USUAL = Size(80, 24)
EVENTS = tuple(_event(number) for number in range(60, 0, -1))


def _text(summary: Json, *, away: Away | None = None, size: Size = USUAL) -> str:
    shown = lines(Seen(summary, EVENTS), away, NOON, size)
    assert len(shown) <= size.height
    assert all(line.cell_len <= size.width for line in shown), [line.cell_len for line in shown]
    return "\n".join(line.plain for line in shown)


def test_the_whole_installation_fits_24_lines_of_80() -> None:
    text = _text(_summary())
    for fact in (
        "install-7  10 s ago",
        "no brake on",
        "634.36 USD/h",
        "month 10401.77 USD",
        "GPUs 248",
        "p50 64 s, p95 -",
        "queued 2  active 31",
        "region-12",
        "9 more",
        "stuck 5",
        "lease_02  main us-east-1",
        "2 more, see",
        "orphans no_row 3",
        "lease.number60",
    ):
        assert fact in text, text
    assert "lease_03" not in text
    assert "region-9 " not in text
    assert len(text.splitlines()) == 24
    assert text.index("lease.number60") < text.index("lease.number59")


def test_a_larger_terminal_shows_more() -> None:
    text = _text(_summary(), size=Size(120, 50))
    assert "lease_04" in text
    assert "region-6" in text
    assert text.count("lease.number") > 20


@pytest.mark.parametrize("size", [Size(20, 5), Size(1, 1), Size(79, 3)])
def test_a_tiny_terminal_breaks_nothing(size: Size) -> None:
    _text(_summary(), size=size)


def test_brakes_come_first() -> None:
    stop = {"by": "key_1", "since": "2026-06-01T11:50:00Z", "note": "costs"}
    brakes = {"installation_id": "i", "launches_stopped": stop, "hold": {"reason": "another cluster", "since": None}}
    broken = {"checked_at": None, "broken": [{"name": "x"}]}
    shown = _text(_summary(brakes=brakes, invariants=broken)).splitlines()
    assert shown[1] == "LAUNCHES STOPPED by key_1 10 min ago: costs"
    assert shown[2] == "ON HOLD : another cluster"
    assert "INVARIANTS BROKEN: 1" in shown[3]


def test_an_absent_api_leaves_the_last_picture_and_says_since_when() -> None:
    text = _text(_summary(), away=Away("connection refused", NOON - timedelta(minutes=2)))
    assert "API AWAY since 2026-06-01T11:58:00Z (2 min ago): connection refused" in text.splitlines()[1]
    assert "634.36 USD/h" in text


def test_since_when_counts_from_the_first_miss_until_an_answer() -> None:
    screen = Screen()
    screen.away("refused", NOON)
    screen.away("refused", NOON + timedelta(hours=1))
    console = Console(width=80, height=24, file=io.StringIO())
    with console.capture() as before:
        console.print(screen)
    screen.show(Seen(_summary(), EVENTS))
    with console.capture() as after:
        console.print(screen)
    assert "API AWAY since 2026-06-01T12:00:00Z" in before.get()
    assert "API AWAY" not in after.get()


def test_names_from_others_cannot_steer_the_terminal() -> None:
    bad = "\x1b[2J[red]\nx"
    summary = _summary(by_provider=[_group(bad, 1, "1.00")], orphans=[{"cause": bad, "orphans": 1}])
    shown = lines(Seen(summary, (_event(1, type=bad, data={"a": bad}),)), Away(bad, NOON), NOON, Size(200, 40))
    assert not [line for line in shown if "\x1b" in line.plain or "\n" in line.plain]


@pytest.fixture
def client(api: FakeApi) -> Iterator[Api]:
    with Api(Endpoint(api.url, OPERATOR_KEY), note=list[str]().append) as opened:
        yield opened


def test_an_unchanged_installation_costs_two_small_answers(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = _summary()
    api.add(a_lease())
    api.events += [_event(number) for number in range(1, 151)]
    board = Board(client)
    assert [event["sequence"] for event in board.look().events] == list(range(150, 100, -1))
    first = len(api.asked)
    api.events.append(_event(151))
    assert board.look().events[0]["sequence"] == 151
    assert board.look().summary == _summary()
    summary, events, *again = api.asked[first:]
    assert "if-none-match" in summary.headers
    assert events.query["after"] == ["150"]
    assert len(again) == 2


def test_events_that_have_no_number_yet_are_waited_for(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = _summary()
    api.add(a_lease())
    board = Board(client)
    assert not board.look().events
    assert not api.calls("GET", "/v1/events")
    api.events.append(_event(1))
    assert [event["sequence"] for event in board.look().events] == [1]


def test_an_installation_without_leases_begins_at_its_oldest_event(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = _summary()
    board = Board(client)
    assert not board.look().events
    (asked,) = api.calls("GET", "/v1/events")
    assert "after" not in asked.query


def test_events_no_longer_kept_are_left_out(api: FakeApi, client: Api) -> None:
    api.documents[SUMMARY] = _summary()
    board = Board(client)
    api.events.append(_event(1))
    board.look()
    api.events.append(_event(9))
    api.next_answers.extend([Answer(200, _summary()), problem(410, "cursor_expired", "gone")])
    assert [event["sequence"] for event in board.look().events] == [9, 1]
    api.next_answers.extend([Answer(200, _summary()), problem(403, "forbidden", "no")])
    with pytest.raises(ProblemError):
        board.look()


def test_what_is_no_terminal_gets_one_picture(api: FakeApi, cli: Cli) -> None:
    api.documents[SUMMARY] = _summary()
    api.add(a_lease())
    api.events.append(_event(1))
    result = cli("ops", "top")
    assert result.exit_code == 0, result.output
    assert "634.36 USD/h" in result.stdout
    assert "lease.number1" in result.stdout
    assert "\x1b" not in result.stdout
    assert api.calls(*SUMMARY)[-1].key == OPERATOR_KEY
    shown = json.loads(cli("ops", "top", "--json").stdout)
    assert shown == {"summary": _summary(), "events": [_event(1)]}
    assert "no table" in cli("ops", "top", "--output", "csv").stderr


class Terminal:
    """A terminal of 80 columns and 24 lines with `ops top` in it."""

    def __init__(self, cli: Cli) -> None:
        self._mine, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = cli.start(
            "ops",
            "top",
            "--interval",
            "0.2",
            stdin=self.theirs,
            stdout=self.theirs,
            environ={"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
        )
        self._shown = bytearray()
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def shown(self) -> str:
        return self._shown.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def wait_for(self, text: str, *, after: int = 0) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self.shown[after:], 30), self.shown[-3000:]

    def ended(self) -> int:
        return self.process.wait(30)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self.theirs)
        self._reader.join()
        os.close(self._mine)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # Linux says so when the other side of a terminal has gone
            while chunk := os.read(self._mine, 65536):
                with self._news:
                    self._shown += chunk
                    self._news.notify_all()


@pytest.fixture
def terminal(api: FakeApi, cli: Cli) -> Iterator[Terminal]:
    api.documents[SUMMARY] = _summary()
    opened = Terminal(cli)
    opened.wait_for("634.36 USD/h")
    yield opened
    opened.close()


def _given_back(terminal: Terminal) -> bool:
    terminal.wait_for(END)
    return termios.tcgetattr(terminal.theirs) == terminal.before and terminal.shown.count(START) == 1


def test_q_ends_it_and_gives_the_terminal_back(terminal: Terminal) -> None:
    assert termios.tcgetattr(terminal.theirs) != terminal.before
    terminal.type("xq")
    assert terminal.ended() == 0
    assert _given_back(terminal)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_gives_the_terminal_back(terminal: Terminal, number: int, code: int) -> None:
    terminal.process.send_signal(number)
    assert terminal.ended() == code
    assert _given_back(terminal)


def test_a_refusal_ends_it_with_its_message(api: FakeApi, terminal: Terminal) -> None:
    del api.documents[SUMMARY]
    assert terminal.ended() == 1
    assert _given_back(terminal)
    assert terminal.process.stderr is not None
    assert "404" in terminal.process.stderr.read()


def test_it_waits_for_an_api_that_is_away_even_from_the_start(cli: Cli) -> None:
    api = FakeApi()
    with api.serving() as url:
        pass
    cli.environ.update({"GPULEASE_URL": url, "GPULEASE_KEY": OPERATOR_KEY})
    api.documents[SUMMARY] = _summary()
    terminal = Terminal(cli)
    try:
        terminal.wait_for("API AWAY since")
        with api.serving():
            terminal.wait_for("634.36 USD/h")
        seen = len(terminal.shown)
        terminal.wait_for("API AWAY since", after=seen)
        terminal.wait_for("634.36 USD/h", after=seen)
        terminal.type("q")
        assert terminal.ended() == 0
    finally:
        terminal.close()
