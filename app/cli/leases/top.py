"""`gpulease ops top`: the whole installation, live."""

import sys
from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.errors import Json, ProblemError
from app.cli.leases import top_views
from app.cli.render import live_screen, output, times
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

_KEPT = 50
"Number of events at the start, and the maximum on a screen."
_PAGE = 200
_PAGES = 5
"Maximum events per poll. The next poll reads further events."

_OLDEST = 0


def top(
    session: Session,
    *,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Seconds between two polls.")] = 2.0,
) -> None:
    """Show the whole installation live until q or Ctrl-C. The display continues through restarts of the API.

    If standard output is not a terminal, the command prints it once.
    """
    session.refuse_csv("ops top")
    board = Board(session.api(operator=True))
    if session.as_json:
        seen = board.look()
        output.write_json({"summary": seen.summary, "events": list(seen.events)})
    elif sys.stdout.isatty():
        live_screen.follow(board.look, top_views.Screen(), interval)
    else:
        size = top_views.Size(min(top_views.PAPER.width, session.console.width), top_views.PAPER.height)
        session.console.print(*top_views.lines(board.look(), None, times.now(), size), sep="\n")


class Board:
    """Polls the API for changes: the summary by its ETag, the events by the last sequence."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._etag: str | None = None
        self._summary: Json = {}
        self._last: int | None = None
        self._events: deque[Json] = deque(maxlen=_KEPT)

    def look(self) -> top_views.PollResult:
        """The current state of the installation. Raises CliError; the next poll continues from the last success."""
        summary, self._etag = self._api.get_if_changed("/v1/ops/summary", self._etag)
        self._summary = self._summary if summary is None else summary
        self._read_events()
        return top_views.PollResult(self._summary, tuple(reversed(self._events)))

    def _read_events(self) -> None:
        if self._last is None:
            self._last = self._begin()
        for _ in range(_PAGES):
            items = self._newer()
            self._events.extend(items)
            self._last = items[-1]["sequence"] if items else self._last
            if len(items) < _PAGE:
                break

    def _begin(self) -> int:
        """A number slightly below the newest event's."""
        newest = self._read("/v1/events", sort="-created_at", limit=1)
        return max(_OLDEST, int(newest[0]["sequence"]) - _KEPT) if newest else _OLDEST

    def _newer(self) -> list[Json]:
        """The events after the last one read. If that one was deleted, the events that are still stored."""
        try:
            return self._read("/v1/events", **({"after": self._last} if self._last else {}))
        except ProblemError as error:
            if error.code != "cursor_expired":
                raise
            return [event for event in self._read("/v1/events") if event["sequence"] > (self._last or _OLDEST)]

    def _read(self, path: str, **params: str | int) -> list[Json]:
        page, _ = self._api.get_if_changed(path, None, {"limit": _PAGE, **params})
        return list((page or {}).get("items") or ())
