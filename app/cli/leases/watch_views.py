"""The three outputs of `lease watch`: a live display, lines for a log, JSON lines for a program."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from app.cli.errors import Json
from app.cli.leases import views
from app.cli.render import output, states, times
from app.cli.render.texts import placement
from app.cli.render.timeline import Stage, stages

_BY_ITSELF = frozenset({"cost", "last_observed_at"})
_NEWS = frozenset({"reason", "connect", "interruption"})
_SPINNER = Spinner("dots")
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
        self._printed: set[str] = set()

    def show(self, seen: Snapshot) -> None:
        """Prints the new lines."""
        for key, line in _log(seen):
            if key not in self._printed:
                self._printed.add(key)
                sys.stdout.write(output.printable(line) + "\n")
        sys.stdout.flush()


class LiveView(View):
    """A display that is redrawn in place, with clocks that run between two polls."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: Snapshot | None = None
        self._live = Live(console=output.console(), get_renderable=self._picture, refresh_per_second=8)

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
        """A part of the display until the next response."""
        self._trouble = message

    def _picture(self) -> RenderableType:
        body = picture(self._seen) if self._seen else Text("connecting")
        if self._trouble is None:
            return body
        return Group(body, Text(output.printable(self._trouble), style="yellow"))


def picture(seen: Snapshot) -> RenderableType:
    """States with their times, attempts, then the current facts."""
    lease = seen.lease
    title = Text.assemble(
        (output.printable(str(lease.get("name") or lease["id"])), "bold"),
        "  ",
        (str(lease["id"]), "dim"),
        _elapsed(lease),
    )
    parts: list[RenderableType] = [title, _stages(seen)]
    if seen.attempts:
        parts.append(_tries(seen.attempts))
    parts.append(output.details(_facts(lease)))
    return Group(*parts)


def _elapsed(lease: Json) -> str:
    """The time since the creation, while the lease is on its way to a VM."""
    created = times.parse_time(lease.get("created_at"))
    if created is None or states.ends(lease) or lease.get("state") == "active":
        return ""
    return f"  elapsed {times.duration((times.now() - created).total_seconds())}"


def _stages(seen: Snapshot) -> Table:
    grid = Table.grid(padding=(0, 1))
    for stage in stages(seen.lease, seen.attempts):
        over = bool(seen.lease.get("terminal")) and stage.ended is None
        style = "dim" if stage.ended else states.STATE_STYLES.get(stage.state, "")
        elapsed = "" if over else times.duration(stage.took(times.now()).total_seconds())
        phase = "" if over or stage.ended else _phase(seen)
        grid.add_row(_mark(stage, style, over=over), Text(stage.state, style), Text(elapsed, justify="right"), phase)
    return grid


def _mark(stage: Stage, style: str, *, over: bool) -> Text:
    """A spinner for the state in progress."""
    if stage.state == "failed":
        return Text("✗", style)
    if stage.ended or over or stage.state == "active":
        return Text("✓", style)
    frame = _SPINNER.render(times.now().timestamp())
    return Text(str(frame), style)


def _phase(seen: Snapshot) -> Text:
    """What gpulease does in the current state."""
    last = seen.attempts[-1] if seen.attempts else {}
    trying = f"try {last.get('n')}: {placement(last.get('offering')) or 'choosing an offering'}"
    texts = {
        "queued": states.reason(seen.lease) or "waiting for a worker or for capacity",
        "provisioning": trying,
        "booting": "the VM boots",
        "releasing": "waiting until the provider confirms the end",
    }
    return Text(output.printable(texts.get(str(seen.lease.get("state")), "")), "dim")


def _tries(attempts: tuple[Json, ...]) -> Table:
    """The last attempts with the code of the error. The message of each error follows when the lease fails."""
    grid = Table.grid(padding=(0, 1))
    for attempt in attempts[-_TRIES:]:
        code = output.at(attempt, "error.code") or output.at(attempt, "error.class") or " "
        cells = (f"  try {attempt.get('n')}", placement(attempt.get("offering")), attempt.get("outcome"), code)
        grid.add_row(*map(output.cell, cells))
    return grid


def _facts(lease: Json) -> list[tuple[str, object]]:
    cost, rate = views.cost(lease), output.rounded(output.at(lease, "cost.price_per_hour"))
    if cost and rate and not states.ends(lease):
        cost = f"{cost}, {rate} USD/h"
    return [
        ("reason", states.reason(lease)),
        ("connect", views.connect(lease)),
        ("interruption", views.interruption(lease)),
        ("cost", cost),
        ("expires", states.expires(lease)),
    ]


def _log(seen: Snapshot) -> Iterator[tuple[str, str]]:
    """The lines to print, each with a key. A key that was printed before is skipped."""
    for number, stage in enumerate(stages(seen.lease, seen.attempts)):
        yield f"{number} {stage.state}", f"{times.rfc3339(stage.began)} {stage.state}"
    errors: set[str] = set()
    for attempt in seen.attempts:
        yield f"try {attempt.get('n')} {attempt.get('outcome')}", _try_line(attempt, errors)
    for name, value in _facts(seen.lease):
        if value and name in _NEWS:
            yield f"{name}: {value}" if name != "interruption" else name, f"{name}: {value}"


def _try_line(attempt: Json, errors: set[str]) -> str:
    """One attempt. The message of an error that is in `errors` is left out. Adds the error to `errors`."""
    refusal = states.refusal(attempt)
    text = refusal.partition(":")[0] if refusal in errors else refusal
    if refusal:
        errors.add(refusal)
    parts = [f"try {attempt.get('n')}", placement(attempt.get("offering")), attempt.get("outcome"), text]
    return ", ".join(str(part) for part in parts if part)
