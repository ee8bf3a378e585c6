"""What the person at the terminal sees."""

import io
import re

import pytest

from app.local.progress import Progress


class ClosedTerminal(io.StringIO):
    def write(self, text: str, /) -> int:
        raise BrokenPipeError


def test_a_step_names_itself_at_once_and_its_seconds_when_done() -> None:
    out = io.StringIO()
    with Progress(out).step("PostgreSQL"):
        assert out.getvalue().strip().startswith("PostgreSQL")
    assert re.search(r"\d+\.\d s\n$", out.getvalue())


def test_a_step_that_fails_says_so() -> None:
    out = io.StringIO()
    with pytest.raises(KeyError), Progress(out).step("Redis"):
        raise KeyError
    assert out.getvalue().endswith("failed\n")


def test_a_closed_terminal_stops_nothing() -> None:
    with Progress(ClosedTerminal()).step("PostgreSQL"):
        Progress(ClosedTerminal()).say("still here")
