"""Entries of price lists that are valid from a time on: each list holds those of the past and of the future too."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_EVER = datetime.min.replace(tzinfo=UTC)
_NEVER = datetime.max.replace(tzinfo=UTC)

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The members of an entry that hold its first moment, and the moment from which on it is no longer valid.

    Both are RFC 3339 times. An entry without a start has always been valid, and one without an end stays valid.
    """

    start: str
    end: str = ""

    def in_force(self, entries: Iterable[Entry], now: datetime) -> list[Entry]:
        """Those of the valid entries that started last: several, where they started together.

        An entry whose times cannot be read is not valid.
        """
        started = [(start, entry) for entry in entries if (start := self._start(entry, now)) is not None]
        newest = max((start for start, _ in started), default=_EVER)
        return [entry for start, entry in started if start == newest]

    def _start(self, entry: Entry, now: datetime) -> datetime | None:
        """None: the entry is not valid now."""
        try:
            start, end = _time(entry.get(self.start), _EVER), _time(entry.get(self.end), _NEVER)
        except (TypeError, ValueError):
            return None
        return start if start <= now < end else None


def _time(text: Any, absent: datetime) -> datetime:
    """`text` None or empty: `absent`."""
    if text is None or text == "":
        return absent
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
