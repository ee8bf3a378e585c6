"""Watches one group until it is formed or ends."""

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from app.cli.errors import FAILED, Json
from app.cli.groups import views
from app.cli.paths import path_of
from app.cli.render import output, states, times
from app.cli.render.output import at, rounded

if TYPE_CHECKING:
    from app.cli.client import Api
    from app.cli.session import Session

_POLL_SECONDS = 2.0
_FORMED = frozenset({"active", "degraded"})
_ENDS = frozenset({"releasing", "ended"})


def follow(session: "Session", api: "Api", group_id: str, timeout: int | None) -> int:
    """Reports changes until the group is formed, ends, or the time (seconds) is up. Returns the exit code."""
    seen: Json = {}
    try:
        deadline = None if timeout is None else times.now() + timedelta(seconds=timeout)
        while True:
            before, seen = seen, api.get(path_of("/v1/groups", group_id))
            if not before or _phase(seen) != _phase(before):
                _report(session, seen)
            state = str(seen["state"])
            if state in _FORMED:
                return 0
            if state in _ENDS:
                session.note(f"error: {states.reason(seen) or 'the group ends'}")
                return FAILED
            if deadline is not None and times.now() >= deadline:
                session.note("error: not formed in time; the group continues: `gpulease group show` reads it")
                return FAILED
            times.pause(_POLL_SECONDS)
    except KeyboardInterrupt:
        session.note(interrupted(group_id, seen))
        raise


def interrupted(group_id: str, group: Json) -> str:
    """The note after Ctrl-C: that the group continues, what it costs an hour, and how to end it. {}: not read yet."""
    if group.get("terminal"):
        return f"{group_id} has ended"
    if group.get("state") in _ENDS:
        return f"{group_id} continues to end: `gpulease group show {group_id}`"
    now, whole = (_amount(group, path) for path in ("cost.price_per_hour", "estimate.price_per_hour"))
    if now:
        costs = f" and costs {rounded(now)} USD/h" + (f", {rounded(whole)} with all members" if whole > now else "")
    else:
        costs = f" and costs {rounded(whole)} USD/h once it runs" if whole else ""
    return f"{group_id} continues{costs}: `gpulease group release {group_id}` ends it"


def _amount(group: Json, path: str) -> Decimal:
    return Decimal(at(group, path) or 0)


def _phase(seen: Json) -> tuple[object, ...]:
    return seen["state"], seen["ready"], seen["pool"], [member["state"] for member in seen["members"]]


def _report(session: "Session", seen: Json) -> None:
    if session.as_json:
        output.write_json_line(seen)
    else:
        session.console.print(views.progress(seen, times.now()))
