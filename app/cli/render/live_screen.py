"""A screen that is drawn again and again until q or Ctrl-C, through restarts of the API."""

import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.live import Live

from app.cli.errors import CliError
from app.cli.render import output, times

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Seen = TypeVar("Seen")
Seen_contra = TypeVar("Seen_contra", contravariant=True)

_TERMINATED = 128 + signal.SIGTERM


class Screen(Protocol[Seen_contra]):
    """What is drawn: the last data, and since when the API does not respond."""

    def show(self, seen: Seen_contra) -> None:
        """Records a response of the API."""

    def away(self, why: str, now: datetime) -> None:
        """Records that the API did not respond. The last data stays."""

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """The rendered screen."""


def follow(look: Callable[[], Seen], screen: Screen[Seen], interval: float) -> None:
    """Polls with `look` every `interval` seconds and draws, until a person ends it. Raises CliError that no retry mends."""
    from app.cli.keyboard import ending_with  # noqa: PLC0415 - Unix alone has what it imports

    live = Live(console=output.console(), get_renderable=lambda: screen, refresh_per_second=2, screen=True)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with ending_with("q"), suppress(KeyboardInterrupt), live:
            while True:
                times.pause(max(interval, _poll(look, screen)))
    finally:
        signal.signal(signal.SIGTERM, before)


def _poll(look: Callable[[], Seen], screen: Screen[Seen]) -> float:
    """Records the current data. Returns the seconds that the API requests before the next poll."""
    try:
        screen.show(look())
    except CliError as error:
        if not error.passing:
            raise
        screen.away(str(error), times.now())
        return error.retry_after
    return 0.0


def _terminate(*_: object) -> None:
    """Raises an exception, so that the terminal's settings are restored."""
    raise SystemExit(_TERMINATED)
