"""Watches one lease: polls with ETag, prints changes, and continues through restarts of the API."""

import math
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from app.cli.errors import FAILED, CliError, Json
from app.cli.leases.failure import failure_lines
from app.cli.leases.watch_views import JsonView, LineView, LiveView, Snapshot, View
from app.cli.paths import path_of
from app.cli.render import states, times
from app.cli.render.output import at, rounded

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.session import Session

Goal = Literal["active", "terminal"]

_COST_EVERY = timedelta(seconds=10)


@dataclass(frozen=True)
class Pace:
    """Seconds between polls: `fastest` after a change, slower without changes, at most `slowest`."""

    fastest: float = 0.5
    slowest: float = 2.0

    def next(self, current: float, *, changed: bool) -> float:
        """The delay after one more poll."""
        return self.fastest if changed else min(current * 1.25, self.slowest)


def explain_hint(reference: str) -> str:
    """Where a person reads more about a lease that waits."""
    return f"`gpulease lease explain {reference}` shows what it waits for"


class Poller:
    """Reads one lease and its attempts, and requests only changes."""

    def __init__(self, api: "Api", lease_id: str) -> None:
        self._api = api
        self._path = path_of("/v1/leases", lease_id)
        self._etags: dict[str, str | None] = {}
        self._seen: dict[str, Json] = {}
        self._full_at: datetime | None = None

    def poll(self, now: datetime) -> Snapshot:
        """The current lease. Its cost changes without an ETag and is at most 10 s old."""
        if self._full_at is None or now - self._full_at >= _COST_EVERY:
            self._etags.clear()
            self._full_at = now
        lease = self._read(self._path)
        attempts = self._read(f"{self._path}/attempts")
        known = lease.get("attempts_count", math.inf)  # a try made between the two reads belongs to the next look
        return Snapshot(lease, tuple(made for made in attempts.get("items") or () if made.get("n", 0) <= known))

    @property
    def lease(self) -> Json:
        """The lease as last read. Empty before the first read."""
        return self._seen.get(self._path, {})

    def _read(self, path: str) -> Json:
        document, self._etags[path] = self._api.get_if_changed(path, self._etags.get(path))
        if document is not None:
            self._seen[path] = document
        return self._seen[path]


def follow(
    session: "Session", api: "Api", lease_id: str, *, until: Goal, timeout: int | None, pace: Pace | None = None
) -> int:
    """Watches until the target state, the lease's end or the timeout (seconds). Returns the exit code."""
    deadline = times.now() + timedelta(seconds=timeout) if timeout is not None else None
    poller = Poller(api, lease_id)
    try:
        with _view(as_json=session.as_json) as view:
            final = _watch(poller, view, until, deadline, pace or Pace())
    except KeyboardInterrupt:
        session.note(interrupted(lease_id, poller.lease))
        raise
    if final is None:
        session.note(
            f"error: not {until} after {times.duration(timeout or 0)}; the lease continues; {explain_hint(lease_id)}"
        )
        return FAILED
    code = _verdict(final.lease, until)
    if code == FAILED:
        for line in failure_lines(final.lease, final.attempts):
            session.note(line)
    return code


def interrupted(lease_id: str, lease: Json) -> str:
    """The note after Ctrl-C: that the lease continues, and what it costs an hour."""
    if lease.get("terminal"):
        return f"{lease_id} has ended"
    if states.ends(lease):
        return f"{lease_id} continues to end: `gpulease lease watch {lease_id}`"
    rate = rounded(at(lease, "cost.price_per_hour"))
    costs = f" and costs {rate} USD/h" if rate and float(rate) else ""
    return f"{lease_id} continues{costs}: `gpulease lease release {lease_id}` ends it"


def _watch(poller: Poller, view: View, until: Goal, deadline: datetime | None, pace: Pace) -> Snapshot | None:
    last: Snapshot | None = None
    wait = pace.fastest
    while deadline is None or times.now() < deadline:
        seen = _look(poller, view, started=last is not None)
        if seen is not None:
            view.show(seen)
            if is_over(seen.lease, until):
                return seen
        wait = pace.next(wait, changed=seen is not None and seen != last)
        last = seen or last
        times.pause(wait)
    return None


def _look(poller: Poller, view: View, *, started: bool) -> Snapshot | None:
    """One poll. Returns None while the API is unreachable.

    Before the first response, an unreachable API is an error.
    """
    try:
        seen = poller.poll(times.now())
    except CliError as error:
        if not started or not error.passing:
            raise
        view.trouble(f"{error}; retrying")
        times.pause(error.retry_after)
        return None
    view.trouble(None)
    return seen


def is_over(lease: Json, until: Goal) -> bool:
    """True when the watch is complete."""
    return bool(lease.get("terminal")) or (until == "active" and lease["state"] == "active")


def _verdict(lease: Json, until: Goal) -> int:
    reached = lease["state"] == ("active" if until == "active" else "released")
    return 0 if reached else FAILED


def _view(*, as_json: bool) -> View:
    if as_json:
        return JsonView()
    return LiveView() if sys.stdout.isatty() else LineView()
