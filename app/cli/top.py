"""`gpulease ops top`: the whole installation, live."""

import signal
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live

from app.cli import output, times, top_views
from app.cli.errors import CliError, Json, ProblemError
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

_KEPT = 50
"""Events to begin with, and at most on a screen."""
_PAGE = 200
_PAGES = 5
"""In one look: an API with more to tell is asked again with the next."""
_ASKED = 5
"""Leases asked for their events, to learn the newest number."""
_OLDEST = 0
_TERMINATED = 128 + signal.SIGTERM


def top(
    session: Session,
    *,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Between two looks at the API.")] = 2.0,
) -> None:
    """Watch the whole installation until q or Ctrl-C. Goes on through restarts of the API.

    Where standard output is no terminal it is shown once.
    """
    session.refuse_csv("ops top")
    board = Board(session.api(operator=True))
    if session.as_json:
        seen = board.look()
        output.write_json({"summary": seen.summary, "events": list(seen.events)})
    elif sys.stdout.isatty():
        _live(board, interval)
    else:
        output.console().print(*top_views.lines(board.look(), None, times.now(), top_views.PAPER), sep="\n")


class Board:
    """Asks the API for what is new: the summary by its ETag, the events by the last one seen."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._etag: str | None = None
        self._summary: Json = {}
        self._last: int | None = None
        self._events: deque[Json] = deque(maxlen=_KEPT)

    def look(self) -> top_views.Seen:
        """The installation as it is. Raises CliError; the next look goes on from the last that worked."""
        summary, self._etag = self._api.get_if_changed("/v1/ops/summary", self._etag)
        self._summary = self._summary if summary is None else summary
        self._read_events()
        return top_views.Seen(self._summary, tuple(reversed(self._events)))

    def _read_events(self) -> None:
        if self._last is None:
            self._last = self._begin()
        for _ in range(_PAGES if self._last is not None else 0):
            items = self._newer()
            self._events.extend(items)
            self._last = items[-1]["sequence"] if items else self._last
            if len(items) < _PAGE:
                break

    def _begin(self) -> int | None:
        """A number a little below the newest events; None while nobody knows it.

        The API counts upwards from the oldest event: the leases last changed tell how far it has come.
        """
        leases = self._read("/v1/leases", sort="-updated_at", limit=_ASKED)
        if not leases:
            return _OLDEST
        for lease in leases:
            events = self._read(f"/v1/leases/{lease['id']}/events")
            if events:
                return max(_OLDEST, int(events[-1]["sequence"]) - _KEPT)
        return None

    def _newer(self) -> list[Json]:
        """The events after the last one seen; those still kept when that one is not."""
        try:
            return self._read("/v1/events", **({"after": self._last} if self._last else {}))
        except ProblemError as error:
            if error.code != "cursor_expired":
                raise
            return [event for event in self._read("/v1/events") if event["sequence"] > (self._last or _OLDEST)]

    def _read(self, path: str, **params: str | int) -> list[Json]:
        page, _ = self._api.get_if_changed(path, None, {"limit": _PAGE, **params})
        return list((page or {}).get("items") or ())


def _live(board: Board, interval: float) -> None:
    from app.cli.keyboard import ending_with  # noqa: PLC0415 - Unix alone has what it imports

    screen = top_views.Screen()
    live = Live(console=output.console(), get_renderable=lambda: screen, refresh_per_second=2, screen=True)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with ending_with("q"), suppress(KeyboardInterrupt), live:
            while True:
                times.pause(max(interval, _look(board, screen)))
    finally:
        signal.signal(signal.SIGTERM, before)


def _look(board: Board, screen: top_views.Screen) -> float:
    """Show what there is; the seconds that the API asks to be left alone."""
    try:
        screen.show(board.look())
    except CliError as error:
        if not error.passing:
            raise
        screen.away(str(error), times.now())
        return error.retry_after
    return 0.0


def _terminate(*_: object) -> None:
    """As an exception, so that the terminal is given back as it was."""
    raise SystemExit(_TERMINATED)
