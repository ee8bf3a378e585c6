"""The states of a lease and their durations, computed from its timestamps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.cli.errors import Json
from app.cli.render.times import parse_time

_ENTERED = (
    ("queued", "created_at"),
    ("booting", "running_at"),
    ("active", "ready_at"),
    ("releasing", "release_requested_at"),
)


@dataclass(frozen=True)
class Stage:
    """One state of a lease. `ended` is None for the current state."""

    state: str
    began: datetime
    ended: datetime | None

    def took(self, now: datetime) -> timedelta:
        """The duration of the state, until `now` for the current one."""
        return (self.ended or now) - self.began


def stages(lease: Json, attempts: Sequence[Json]) -> tuple[Stage, ...]:
    """The states in order; the last one is the lease's current state.

    A state too short to have a timestamp is omitted.
    """
    marks = sorted(_marks(lease, attempts), key=lambda mark: mark[0])
    if marks and marks[-1][1] != lease["state"]:
        marks.append((_last_change(lease, marks[-1][0]), lease["state"]))
    ends: list[datetime | None] = [when for when, _ in marks[1:]]
    return tuple(Stage(state, when, end) for (when, state), end in zip(marks, [*ends, None], strict=True))


def _marks(lease: Json, attempts: Sequence[Json]) -> list[tuple[datetime, str]]:
    marks = [(parse_time(lease.get(field)), state) for state, field in _ENTERED]
    marks += [(min(_starts(attempts), default=None), "provisioning")]
    if lease.get("terminal"):
        marks += [(parse_time(lease.get("ended_at")), lease["state"])]
    return [(when, state) for when, state in marks if when is not None]


def _starts(attempts: Sequence[Json]) -> list[datetime]:
    times = [parse_time(attempt.get("started_at")) for attempt in attempts]
    return [when for when in times if when is not None]


def _last_change(lease: Json, after: datetime) -> datetime:
    changed = parse_time(lease.get("updated_at"))
    return max(changed, after) if changed else after
