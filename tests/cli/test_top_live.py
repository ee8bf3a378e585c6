"""`ops top` in a terminal of its own."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import threading
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import OPERATOR_KEY, FakeApi
from tests.cli.installation import SUMMARY, a_summary

START, END = "\x1b[?1049h", "\x1b[?1049l"
"""Of the terminal's second screen."""


class Terminal:
    """A terminal of 80 columns and 24 lines with `ops top` in it."""

    def __init__(self, cli: Cli) -> None:
        self._mine, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = cli.fork(
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
    api.documents[SUMMARY] = a_summary()
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
    api.documents[SUMMARY] = a_summary()
    terminal = Terminal(cli)
    try:
        terminal.wait_for("API UNREACHABLE since")
        with api.serving():
            terminal.wait_for("634.36 USD/h")
        seen = len(terminal.shown)
        terminal.wait_for("API UNREACHABLE since", after=seen)
        terminal.wait_for("634.36 USD/h", after=seen)
        terminal.type("q")
        assert terminal.ended() == 0
    finally:
        terminal.close()
