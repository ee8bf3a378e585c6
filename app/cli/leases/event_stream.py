"""Events as they happen, from the API's stream of server-sent events."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from app.cli.errors import CliError, Json
from app.cli.render import times

if TYPE_CHECKING:
    from app.cli.client import Api, Params

_PATH = "/v1/events/stream"
_PAUSE = 1.0
"Seconds before a new connection."


def follow(api: "Api", params: "Params", *, after: int | None, note: Callable[[str], None]) -> Iterator[Json]:
    """Every event after the number `after`, or every new event. Continues through restarts of the API.

    Raises CliError if the first connection fails, or if the API rejects a later one.
    """
    last, connected = after, False
    while True:
        start = {} if last is None else {"Last-Event-ID": str(last)}
        try:
            for position, data in _messages(api.lines(_PATH, params, start)):
                connected = True
                last = last if position is None else position
                if data is not None:
                    yield json.loads(data)
            trouble, pause = "the stream ended", 0.0
        except CliError as error:
            if not connected or not error.passing:
                raise
            trouble, pause = str(error), error.retry_after
        note(f"{trouble}; connecting again")
        times.pause(max(_PAUSE, pause))


def _messages(lines: Iterable[str]) -> Iterator[tuple[int | None, str | None]]:
    """Position and data of each message (https://html.spec.whatwg.org/multipage/server-sent-events.html).

    A message without data only moves the position. Both are None for a sign of life.
    """
    position: int | None = None
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif line.startswith("id:") and line[3:].strip().isdecimal():
            position = int(line[3:])
        elif not line:
            yield position, "\n".join(data) if data else None
            position, data = None, []
        else:
            yield None, None
