"""The three outputs of `lease watch`: a live display, lines for a log, JSON lines for a program."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli import lease_views, output, times
from app.cli.errors import Json
from app.cli.timeline import Stage, stages

_BY_ITSELF = frozenset({"cost", "last_observed_at"})
_NEWS = frozenset({"reason", "connect", "interruption"})
_TRIES = 5
"Maximum number of recent attempts in the display."


@dataclass(frozen=True)
class Snapshot:
    """The result of one poll: a lease and its attempts."""

    lease: Json
    attempts: tuple[Json, ...]


class View(ABC):
    """The output of a watch. Both calls may be repeated; a view shows each item once."""

    def __init__(self) -> None:
        self._trouble: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Reports every change."""
        sys.stdout.flush()

    @abstractmethod
    def show(self, seen: Snapshot) -> None:
        """Shows the current lease."""

    def trouble(self, message: str | None) -> None:
        """Prints on standard error why updates are missing. None: updates arrive again."""
        if message != self._trouble:
            sys.stderr.write(output.printable(message or "the API responds again") + "\n")
            self._trouble = message


class JsonView(View):
    """Prints the API's lease on one line for each change. A change of the running cost alone does not count."""

    def __init__(self) -> None:
        super().__init__()
        self._last: Json | None = None

    def show(self, seen: Snapshot) -> None:
        """Prints the lease unless only time has passed."""
        essence = {name: value for name, value in seen.lease.items() if name not in _BY_ITSELF}
        if essence != self._last:
            output.write_json_line(seen.lease)
            self._last = essence


class LineView(View):
    """Prints one line for each state, attempt and fact, for pipes and logs."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def show(self, seen: Snapshot) -> None:
        """Prints the new lines."""
        for key, line in _log(seen):
            if key not in self._said:
                self._said.add(key)
                sys.stdout.write(output.printable(line) + "\n")
        sys.stdout.flush()


class LiveView(View):
    """A display that is redrawn in place, with clocks that run between two polls."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: Snapshot | None = None
        self._live = Live(console=output.console(), get_renderable=self._picture, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, seen: Snapshot) -> None:
        """Draws the display."""
        self._seen = seen
        self._live.refresh()

    def trouble(self, message: str | None) -> None:
        """A part of the display that disappears when it expires."""
        self._trouble = message

    def _picture(self) -> RenderableType:
        body = picture(self._seen) if self._seen else Text("asking the API")
        if self._trouble is None:
            return body
        return Group(body, Text(output.printable(self._trouble), style="yellow"))


def picture(seen: Snapshot) -> RenderableType:
    """States with their times, attempts, then the current facts."""
    lease = seen.lease
    title = Text.assemble(
        (output.printable(str(lease.get("name") or lease["id"])), "bold"), "  ", (str(lease["id"]), "dim")
    )
    parts: list[RenderableType] = [title, _stages(lease, stages(lease, seen.attempts))]
    if seen.attempts:
        parts.append(_tries(seen.attempts))
    parts.append(output.details(_facts(lease)))
    return Group(*parts)


def _stages(lease: Json, passed: tuple[Stage, ...]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for stage in passed:
        over = bool(lease.get("terminal")) and stage.ended is None
        style = "dim" if stage.ended else lease_views.STATE_STYLES.get(stage.state, "")
        took = "" if over else times.duration(stage.took(times.now()).total_seconds())
        grid.add_row(Text(_mark(stage, over=over), style), Text(stage.state, style), Text(took, justify="right"))
    return grid


def _mark(stage: Stage, *, over: bool) -> str:
    if stage.state == "failed":
        return "✗"
    return "✓" if stage.ended or over or stage.state == "active" else "●"


def _tries(attempts: tuple[Json, ...]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for attempt in attempts[-_TRIES:]:
        cells = (f"  try {attempt.get('n')}", lease_views.offering(attempt.get("offering")), attempt.get("outcome"))
        grid.add_row(*map(output.cell, cells), output.cell(lease_views.refusal(attempt) or " "))
    return grid


def _facts(lease: Json) -> list[tuple[str, object]]:
    accrued, rate = output.at(lease, "cost.accrued"), output.at(lease, "cost.rate_per_hour")
    cost = f"{accrued} USD" + (f", {rate} USD per hour" if rate else "")
    return [
        ("reason", lease_views.reason(lease)),
        ("connect", output.at(lease, "connection.ssh_command")),
        ("interruption", lease_views.interruption(lease)),
        ("cost", cost if accrued is not None else None),
        ("expires", None if lease.get("terminal") else output.since(lease.get("expires_at"))),
    ]


def _log(seen: Snapshot) -> Iterator[tuple[str, str]]:
    """The lines to print, each with a key. A key that was printed before is skipped."""
    for number, stage in enumerate(stages(seen.lease, seen.attempts)):
        yield f"{number} {stage.state}", f"{times.rfc3339(stage.began)} {stage.state}"
    for attempt in seen.attempts:
        line = _try_line(attempt)
        yield line, line
    for name, value in _facts(seen.lease):
        if value and name in _NEWS:
            yield f"{name}: {value}" if name != "interruption" else name, f"{name}: {value}"


def _try_line(attempt: Json) -> str:
    where, refusal = lease_views.offering(attempt.get("offering")), lease_views.refusal(attempt)
    parts = [f"try {attempt.get('n')}", where, attempt.get("outcome"), refusal]
    return ", ".join(str(part) for part in parts if part)
