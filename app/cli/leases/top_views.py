"""Layout of `ops top`: lines that fit the terminal, most urgent first, newest events in the remaining space."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from app.cli.errors import Json
from app.cli.leases.event_views import event_text
from app.cli.ops_views import brake_texts, ready_text
from app.cli.render import states, times
from app.cli.render.layout import short_id
from app.cli.render.output import at, printable, rounded
from app.cli.render.texts import amount

_MOST_BRAKES = 3
_TALL = 30
_GAP = 2


@dataclass(frozen=True)
class PollResult:
    """The result of one poll, newest event first."""

    summary: Json
    events: Sequence[Json]


@dataclass(frozen=True)
class Outage:
    """The API does not respond: the cause and the start time."""

    why: str
    since: datetime


@dataclass(frozen=True)
class Size:
    """Of a terminal."""

    width: int
    height: int


PAPER = Size(100, 40)
"The size if standard output is not a terminal."


class Screen:
    """The current data, drawn into the available space."""

    def __init__(self) -> None:
        self._seen: PollResult | None = None
        self._away: Outage | None = None

    def show(self, seen: PollResult) -> None:
        """Records a response of the API."""
        self._seen, self._away = seen, None

    def away(self, why: str, now: datetime) -> None:
        """Records that the API did not respond. The last data stays."""
        self._away = Outage(why, self._away.since if self._away else now)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        size = Size(options.max_width, options.height or options.size.height)
        yield from lines(self._seen, self._away, times.now(), size)


def lines(seen: PollResult | None, away: Outage | None, now: datetime, size: Size) -> list[Text]:
    """The rendered screen: at most `size.height` lines, none wider than `size.width`."""
    head = list(_head(seen, away, now))
    if seen is None:
        return _fitted(head, size)
    top = [*head, *_figures(seen.summary), Text(), *_groups(seen.summary, size), Text()]
    top += [*_stuck(seen.summary, now, size), _orphans(seen.summary), Text(), Text("NEWEST EVENTS", "bold")]
    return _fitted([*top, *(_event(event, now) for event in seen.events)], size)


def _fitted(texts: Iterable[Text], size: Size) -> list[Text]:
    visible = list(texts)[: size.height]
    for line in visible:
        line.no_wrap = True
        line.truncate(size.width, overflow="ellipsis")
    return visible


def _head(seen: PollResult | None, away: Outage | None, now: datetime) -> Iterator[Text]:
    installation = at(seen.summary, "brakes.installation_id") if seen else None
    as_of = _ago(at(seen.summary, "as_of"), now) if seen else "connecting"
    yield Text.assemble(("gpulease", "bold"), f"  {_plain(installation or '')}  {as_of}  ", ("q to quit", "dim"))
    if away:
        since = f"{times.rfc3339(away.since)} ({times.relative(away.since, now)})"
        yield Text(_plain(f"API UNREACHABLE since {since}: {away.why}"), "bold yellow")
    if seen:
        yield from _brakes(seen.summary, now)


def _brakes(summary: Json, now: datetime) -> Iterator[Text]:
    active = list(brake_texts(summary, lambda moment: _ago(moment, now)))
    for text in active[:_MOST_BRAKES]:
        yield Text(_plain(f"BRAKE {text}"), "bold red")
    if len(active) > _MOST_BRAKES:
        yield Text(f"{len(active) - _MOST_BRAKES} more brakes, see `gpulease ops summary`", "bold red")
    broken = at(summary, "invariants.broken")
    if broken:
        yield Text(f"INVARIANTS BROKEN: {len(broken)}, see `gpulease ops summary`", "bold red")
    if not (active or broken):
        yield Text("No brakes active", "green")


def _figures(summary: Json) -> Iterator[Text]:
    now, month = amount(summary.get("spend_per_hour")), amount(summary.get("spend_month_to_date"))
    yield Text.assemble(
        ("spend ", "dim"),
        (f"{now} USD/h", "bold"),
        (f"  month {month} USD  GPUs {summary.get('gpus')}  ready {ready_text(summary)}", ""),
    )
    counts = Text("leases", "dim")
    for row in summary.get("by_state") or ():
        state = str(row.get("state"))
        counts.append(f"  {_plain(state)} ", states.STATE_STYLES.get(state, ""))
        counts.append(str(row.get("leases")), "bold")
    yield counts


def _groups(summary: Json, size: Size) -> Iterator[Text]:
    """Three small tables side by side with the highest spenders."""
    width = (size.width - 2 * _GAP) // 3
    rows = 8 if size.height >= _TALL else 4
    parts = [
        _group(title, summary.get(name) or (), width, rows)
        for title, name in (("PROVIDER", "by_provider"), ("REGION", "by_region"), ("GPU", "by_gpu_model"))
    ]
    for number in range(max(map(len, parts))):
        cells = [part[number] if number < len(part) else " " * width for part in parts]
        yield Text((" " * _GAP).join(cells), "bold" if number == 0 else "")


def _group(title: str, groups: Sequence[Json], width: int, rows: int) -> list[str]:
    by_spend = sorted(groups, key=lambda group: float(group.get("spend_per_hour") or 0), reverse=True)
    visible = by_spend if len(by_spend) <= rows else by_spend[: rows - 1]
    table = [(title, "LEASES", "USD/H")]
    table += [
        (str(group.get("name")), str(group.get("leases")), str(rounded(group.get("spend_per_hour") or 0)))
        for group in visible
    ]
    sizes = [max(len(row[column]) for row in table) for column in (1, 2)]
    lines = [_columns(row, sizes, width) for row in table]
    if len(visible) < len(by_spend):
        lines.append(set_cell_size(f"{len(by_spend) - len(visible)} more", width))
    return lines


def _columns(row: tuple[str, str, str], sizes: Sequence[int], width: int) -> str:
    """A name and two numbers, with a blank between them. A long name is cut."""
    figures = "".join(f" {text:>{size}}" for text, size in zip(row[1:], sizes, strict=True))
    room = max(1, width - len(figures))
    text = _plain(row[0])
    return set_cell_size(text if cell_len(text) <= room else f"{set_cell_size(text, room - 1)}…", room) + figures


def _stuck(summary: Json, now: datetime, size: Size) -> Iterator[Text]:
    leases = summary.get("stuck") or ()
    rows = 8 if size.height >= _TALL else 3
    yield Text(f"stuck {len(leases)}", "bold red" if leases else "green")
    for lease in leases[:rows]:
        where = " ".join(str(lease[name]) for name in ("account", "region") if lease.get(name))
        parts = (lease.get("kind"), _ago(lease.get("since"), now), lease.get("lease_id"), where)
        yield Text(_plain("  " + "  ".join(str(part) for part in parts if part)), "red")
    if len(leases) > rows:
        yield Text(f"  {len(leases) - rows} more, see `gpulease ops summary`", "red")


def _orphans(summary: Json) -> Text:
    rows = [row for row in summary.get("orphans") or () if row.get("orphans")]
    listed = ", ".join(f"{row.get('cause')} {row.get('orphans')}" for row in rows)
    return Text(_plain(f"orphans {listed or 0}"), "bold red" if rows else "green")


def _event(event: Json, now: datetime) -> Text:
    return Text.assemble(
        (f"{_ago(event.get('created_at'), now):>16}  ", "dim"),
        (f"{_plain(str(event.get('type')))}  ", ""),
        (_plain(f"{short_id(str(event.get('lease_id') or ''))}  {event_text(event)}"), "dim"),
    )


def _ago(text: object, now: datetime) -> str:
    moment = times.parse_time(text) if isinstance(text, str) else None
    return times.relative(moment, now) if moment else ""


def _plain(text: str) -> str:
    """One line without control characters."""
    return printable(text).replace("\n", " ")
