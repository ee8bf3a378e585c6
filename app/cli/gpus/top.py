"""`gpulease top`: the GPUs of own leases, live."""

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.errors import CliError, Json
from app.cli.gpus import readings as gpu_readings
from app.cli.gpus import top_views
from app.cli.render import live_screen, output, sheet, times
from app.cli.session import Session

if TYPE_CHECKING:
    from app.cli.client import Api

_FRESH = timedelta(seconds=30)
"The time after which all is read anew. Agents send a sample a minute, which changes no ETag."
_PAGE = 200
_STATES = ["booting", "active", "releasing"]


def top(
    session: Session,
    *,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Seconds between two polls.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
) -> None:
    """Show the GPUs of your leases live until q or Ctrl-C: use, temperature, power, health and idle time.

    Leases with failing GPUs come first, then idle ones. If standard output is not a terminal, the command prints one table.
    """
    board = Board(session.api())
    if session.as_json:
        output.write_json({"items": board.look()})
    elif session.as_csv:
        sheet.write(sheet.Sheet(top_views.COLUMNS, board.look()))
    elif sys.stdout.isatty() and not once:
        live_screen.follow(board.look, top_views.Screen(), interval)
    else:
        rows = board.look()
        if rows:
            session.console.print(top_views.summary(rows))
            session.table(top_views.COLUMNS, rows, top_views.LAYOUT)
        else:
            session.note("no leases with a VM")


class Board:
    """Polls the leases that have a VM, and the readings of their GPUs."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._etag: str | None = None
        self._leases: list[Json] = []
        self._readings: dict[str, gpu_readings.Readings] = {}
        self._full_at: datetime | None = None

    def look(self) -> list[Json]:
        """A row for each lease, the most urgent first. Raises CliError; the next poll continues from the last success."""
        now = times.now()
        due = self._full_at is None or now - self._full_at >= _FRESH
        page, self._etag = self._api.get_if_changed(
            "/v1/leases", None if due else self._etag, {"state": _STATES, "limit": _PAGE, "sort": "name"}
        )
        if page is not None:
            self._leases = page["items"]
        if due:
            self._readings = self._read()
            self._full_at = now
        return sorted(map(self._row, self._leases), key=top_views.urgency)

    def _read(self) -> dict[str, gpu_readings.Readings]:
        try:
            return gpu_readings.fetch(self._api)
        except CliError as error:
            if error.passing:
                raise
            return {}  # a key that may list leases only

    def _row(self, lease: Json) -> Json:
        readings = self._readings.get(lease["id"], gpu_readings.Readings())
        columns = {name: lease.get(name) for name in _KEPT}
        return {**columns, "hottest_c": readings.hottest, "power_w": readings.power}


_KEPT = ("id", "name", "state", "placement", "utilization", "health", "idle", "ends_at")
