"""`gpulease lease metrics`: the GPUs of a lease over time."""

from typing import Annotated

import typer

from app.cli import lookup, values
from app.cli.errors import Json
from app.cli.leases.leases import Reference
from app.cli.paths import path_of
from app.cli.render import output, times
from app.cli.render.layout import Layout
from app.cli.render.output import Columns
from app.cli.session import Session

_HOUR = 3600
_SERIES = ("gpu_percent", "memory_percent", "power_w", "temperature_c", "sm_clock_mhz", "cpu_percent")
METRICS: Columns = (("AT", "at"), *((name.upper().replace("_", " "), name) for name in _SERIES))
METRICS_LAYOUT = Layout(right=frozenset(title for title, _ in METRICS[1:]))


def metrics(
    session: Session,
    lease: Reference,
    *,
    since: Annotated[
        int | None,
        typer.Option(metavar="DURATION", parser=values.seconds, help="How far back, such as 24h; default: 1h."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(metavar="DURATION", parser=values.seconds, help="Time between two rows, such as 5m."),
    ] = None,
) -> None:
    """Show the use, memory, power and temperature of a lease's GPUs over time."""
    api = session.api()
    path = path_of("/v1/leases", lookup.lease_id(api, lease), "metrics")
    begin = times.rfc3339(times.ago(since or _HOUR))
    document = api.get(path, {"from": begin, "step": step})
    if session.as_json:
        output.write_json(document)
        return
    session.items({"items": _rows(document)}, METRICS, none="no samples in this time", layout=METRICS_LAYOUT)


def _rows(document: Json) -> list[Json]:
    series = {name: document["series"].get(name) or [] for name in _SERIES}
    rows = [
        {"at": moment, **{name: values[place] for name, values in series.items() if place < len(values)}}
        for place, moment in enumerate(document["at"])
    ]
    return [row for row in rows if any(row.get(name) is not None for name in _SERIES)]
