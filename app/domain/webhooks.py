"""Rules of webhooks: which events may be subscribed to, what is sent and signed, and when a try is repeated.

Messages follow the Standard Webhooks specification 1.0.0 (https://www.standardwebhooks.com).
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

MOST = 10
"""Maximum number of webhooks of one tenant."""
LONGEST_URL = 2000
OVERLAP = timedelta(hours=24)
"""How long the previous secret signs beside the new one."""
LASTS = timedelta(days=3)
"""How long a delivery is retried."""
TEST = "webhook.test"


_PREFIX = "whsec_"
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


def secret_text(key: bytes) -> str:
    """A secret in the form that its owner sees."""
    return _PREFIX + base64.b64encode(key).decode()


def message(event_id: str, event_type: str, at: str, about: Mapping[str, Any]) -> bytes:
    """The body of a message. `at`: RFC 3339. Equal arguments give equal bytes: a repeated try is the same message."""
    content = {"type": event_type, "timestamp": at, "data": {"id": event_id, **about}}
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def signed_headers(secrets: Iterable[str], message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers of a message, with a signature by each of `secrets`. `at`: seconds since 1970."""
    signed = b".".join((message_id.encode(), str(at).encode(), body))
    signatures = (_signature(secret, signed) for secret in secrets)
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": " ".join(signatures)}


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


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
