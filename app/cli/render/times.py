"""Clock and durations. Only this module of the command line reads the clock or sleeps."""

import re
import threading
import time
from datetime import UTC, datetime, timedelta

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def now() -> datetime:
    """The current time, UTC."""
    return datetime.fromtimestamp(time.time(), UTC)


def ago(seconds: float) -> datetime:
    """The time that many seconds before now, UTC."""
    return now() - timedelta(seconds=seconds)


def pause(seconds: float) -> None:
    """Waits between two polls; Ctrl-C ends the wait."""
    threading.Event().wait(seconds)


def parse_duration(text: str) -> int:
    """Converts `45s`, `90m`, `4h`, `1h30m`, `2d` or `0` to whole seconds. Raises ValueError for other text."""
    if text.isascii() and text.isdigit():
        if int(text) == 0:
            return 0
        msg = f"{text!r} has no unit: {text}s, {text}m or {text}h?"
        raise ValueError(msg)
    match = _DURATION.fullmatch(text.strip().lower())
    if not text or match is None or not any(match.groups()):
        msg = f"{text!r} is not a duration: use 45s, 90m, 4h, 1h30m or 2d"
        raise ValueError(msg)
    return sum(int(count or 0) * unit for count, unit in zip(match.groups(), _UNITS.values(), strict=True))


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time of the API. None for null or for an invalid time."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def rfc3339(when: datetime) -> str:
    """Formats a time as the API does: UTC, seconds, `Z`."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """Formats a duration in its two largest units: `12 s`, `4 min 10 s`, `3 h 58 min`, `2 d 4 h`.

    A negative one counts as zero.
    """
    rest = max(0, int(seconds))
    parts = []
    for count, word in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        amount, rest = divmod(rest, count)
        parts.append((amount, word))
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{amount} {word}" for amount, word in parts[:2] if amount or len(parts) == 1)


def relative(when: datetime, at: datetime) -> str:
    """`in 3 h 58 min`, `5 min 2 s ago` or `now`, relative to `at`."""
    gap = (when - at).total_seconds()
    if abs(gap) < timedelta(seconds=1).total_seconds():
        return "now"
    return f"in {duration(gap)}" if gap > 0 else f"{duration(-gap)} ago"


def exact(seconds: int) -> str:
    """A duration as options take it, without loss: `2h`, `90m`, `45s`. The inverse of `parse_duration`."""
    unit, letter = next((u, letter) for u, letter in ((3600, "h"), (60, "m"), (1, "s")) if seconds % u == 0)
    return f"{seconds // unit}{letter}"
