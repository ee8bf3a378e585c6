"""When a delivery is tried again: what its outcome means, and the pause before the next try."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LASTS = timedelta(days=3)
"""How long a delivery is retried."""
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 5.0, 3.0, 3600.0
_JITTER = 0.2
_AWAY = frozenset({408, 425, 429, 502, 503, 504})
_GONE = 410
_SAYS_WHEN = frozenset({429, 503})
_SECONDS = re.compile(r"[0-9]+")
LONGEST_RETRY_AFTER = timedelta(hours=1)
"""What a receiver may ask for with Retry-After. A longer time counts as this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one try ended. `status` None: there was no answer, and `error` holds the cause.

    `retry_after`: the least pause, by the receiver's header.
    """

    status: int | None
    error: str | None = None
    retry_after: timedelta = timedelta(0)

    @property
    def delivered(self) -> bool:
        """The receiver has accepted the message."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        """The receiver wants no more messages, ever."""
        return self.status == _GONE

    @property
    def away(self) -> bool:
        """The receiver accepts no message at present, so all later messages wait. Else it refused only this message."""
        return self.status is None or self.status in _AWAY


def retry_after(status: int, text: str, now: datetime) -> timedelta:
    """The pause that the header Retry-After names (RFC 9110, 10.2.3), at most LONGEST_RETRY_AFTER.

    It counts with status 429 and 503. Zero without it, and for a text that is neither seconds nor a date.
    """
    if status not in _SAYS_WHEN:
        return timedelta(0)
    if _SECONDS.fullmatch(text):
        most = int(LONGEST_RETRY_AFTER.total_seconds())
        return timedelta(seconds=min(int(text), most) if len(text) <= len(str(most)) else most)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return timedelta(0)
    left = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    return max(min(left, LONGEST_RETRY_AFTER), timedelta(0))


def pause(tries: int, roll: float) -> timedelta:
    """The pause before the next try after `tries` tries.

    `roll`: random, 0 to 1, so that deliveries that failed together are not retried together.
    """
    seconds = min(_FIRST_PAUSE * _GROWTH ** min(tries - 1, 10), _LONGEST_PAUSE)
    return timedelta(seconds=seconds * (1 - _JITTER + 2 * _JITTER * roll))
