"""Layout of `gpulease top`: a line for each lease, those that need attention first."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from app.cli.errors import Json
from app.cli.gpus.use import health_status, idle_time, percent
from app.cli.render import times
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, DualValue, at, printable
from app.cli.render.states import expires, state
from app.cli.render.texts import location

_KILOWATT = 1000
_HEAD = 3
"Lines above the rows: the head, the sums, the titles."
_URGENCY = {"failing": 0, "degraded": 1}


def _gpus(item: Json) -> str | None:
    model = at(item, "placement.gpu.model")
    return f"{at(item, 'placement.gpu.count')} x {model}" if model else None


def _power(item: Json) -> str | None:
    watts = item.get("power_w")
    if watts is None:
        return None
    return f"{watts / _KILOWATT:.1f} kW" if watts >= _KILOWATT else f"{watts:.0f} W"


def _degrees(item: Json) -> str | None:
    return None if item.get("hottest_c") is None else f"{item['hottest_c']:.0f} °C"


COLUMNS: Columns = (
    ("NAME", "name"),
    ("GPUS", _gpus),
    ("GPU", DualValue(lambda item: percent(at(item, "utilization.gpu_percent")), "utilization.gpu_percent")),
    ("MEM", DualValue(lambda item: percent(at(item, "utilization.memory_percent")), "utilization.memory_percent")),
    ("TEMP", DualValue(_degrees, "hottest_c")),
    ("POWER", DualValue(_power, "power_w")),
    ("HEALTH", health_status),
    ("IDLE", DualValue(idle_time, "idle.since")),
    ("STATE", state),
    ("LOCATION", lambda item: location(item.get("placement"))),
    ("ENDS", DualValue(expires, "ends_at")),
    ("ID", "id"),
)
LAYOUT = Layout(
    ("NAME", "GPU", "MEM", "TEMP", "POWER", "HEALTH", "IDLE", "GPUS", "STATE", "LOCATION", "ENDS", "ID"),
    wrap={"NAME": 12},
    right=frozenset({"GPU", "MEM", "TEMP", "POWER"}),
)


def urgency(item: Json) -> tuple[int, int, str]:
    """Sorts leases: failing, degraded, then idle ones, the longest idle first, then by name."""
    began = times.parse_time(at(item, "idle.since"))
    idle = -int((times.now() - began).total_seconds()) if began else 1
    return _URGENCY.get(str(at(item, "health.status")), len(_URGENCY)), idle, str(item.get("name"))


def summary(rows: Sequence[Json]) -> Text:
    """`3 leases, 17 GPUs, 64 % used on average, 1 lease idle`. The mean counts GPUs of leases with a sample."""
    known = [row for row in rows if at(row, "utilization.gpu_percent") is not None]
    weights = [int(at(row, "placement.gpu.count") or 0) for row in known]
    used = sum(weight * row["utilization"]["gpu_percent"] for weight, row in zip(weights, known, strict=True))
    gpus = sum(int(at(row, "placement.gpu.count") or 0) for row in rows)
    idle = sum(1 for row in rows if row.get("idle"))
    parts = [_counted(len(rows), "lease"), _counted(gpus, "GPU")]
    parts += [f"{used / sum(weights):.0f} % used on average"] if sum(weights) else []
    parts += [f"{_counted(idle, 'lease')} idle"] if idle else []
    return Text(", ".join(parts))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Screen:
    """The current rows, drawn into the available space."""

    def __init__(self) -> None:
        self._rows: list[Json] | None = None
        self._away: tuple[str, datetime] | None = None

    def show(self, seen: list[Json]) -> None:
        """Records a response of the API."""
        self._rows, self._away = seen, None

    def away(self, why: str, now: datetime) -> None:
        """Records that the API did not respond. The last rows stay."""
        self._away = (why, self._away[1] if self._away else now)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or options.size.height
        yield self._fitted(self._head(), options.max_width)
        if self._rows is None:
            return
        if not self._rows:
            yield Text("no leases with a VM")
            return
        room = max(1, height - _HEAD - 1)
        yield self._fitted(summary(self._rows), options.max_width)
        visible = self._rows if len(self._rows) <= room else self._rows[: room - 1]
        yield FittedTable(COLUMNS, visible, LAYOUT)
        if len(visible) < len(self._rows):
            yield Text(f"{len(self._rows) - len(visible)} more", "dim")

    def _head(self) -> Text:
        if self._away is None:
            when = "connecting" if self._rows is None else times.rfc3339(times.now())
            return Text.assemble(("gpulease top", "bold"), f"  {when}  ", ("q to quit", "dim"))
        why, since = self._away
        text = f"API UNREACHABLE since {times.rfc3339(since)} ({times.relative(since, times.now())}): {why}"
        return Text(printable(text).replace("\n", " "), "bold yellow")

    @staticmethod
    def _fitted(line: Text, width: int) -> Text:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
        return line
