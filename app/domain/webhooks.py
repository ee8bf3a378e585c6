"""Rules of webhooks: which events may be subscribed to, what is sent and signed, and when a try is repeated.

Messages follow the Standard Webhooks specification 1.0.0 (https://www.standardwebhooks.com).
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from app.domain.events import EventType

MOST = 10
"""Maximum number of webhooks of one tenant."""
LONGEST_URL = 2000
OVERLAP = timedelta(hours=24)
"""How long the previous secret signs beside the new one."""
LASTS = timedelta(days=3)
"""How long a delivery is retried."""
TEST = "webhook.test"


class WebhookFormat(StrEnum):
    """The form of a message's body. The list may grow."""

    STANDARD = "standard"
    CLOUDEVENTS = "cloudevents"


class WebhookMessage(StrEnum):
    """What webhooks receive besides events. The list may grow."""

    USAGE_HOUR = "usage.hour"


class WebhookEventType(StrEnum):
    """What a webhook may select: types of events, and messages that are no events. The list may grow."""

    _ignore_ = "_type"
    for _type in (*EventType, *WebhookMessage):
        vars()[_type.name] = _type.value


NEEDS_FORMAT: Mapping[str, frozenset[WebhookFormat]] = {
    WebhookMessage.USAGE_HOUR: frozenset({WebhookFormat.CLOUDEVENTS})
}
"""The formats of messages that not every format can carry. Such a message is sent only where it is selected by name."""

_PREFIX = "whsec_"
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 5.0, 3.0, 3600.0
_JITTER = 0.2
_AWAY = frozenset({408, 425, 429, 502, 503, 504})
_GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one try ended. `status` None: there was no answer, and `error` holds the cause."""

    status: int | None
    error: str | None = None

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


def check_format(event_types: Iterable[str] | None, body_format: WebhookFormat) -> None:
    """Raises ValueError when a webhook of this format cannot receive one of these types."""
    for name in event_types or ():
        formats = NEEDS_FORMAT.get(name)
        if formats is not None and body_format not in formats:
            raise ValueError(f"{name} needs the format {' or '.join(sorted(formats))}")


@dataclass(frozen=True, slots=True)
class MessageBody:
    """What is sent to a receiver."""

    content: bytes
    media_type: str


def message(
    body_format: WebhookFormat, event_id: str, event_type: str, at: str, about: Mapping[str, Any]
) -> MessageBody:
    """The body of a message. `at`: RFC 3339. Equal arguments give equal bytes: a repeated try is the same message."""
    media_type, content = _FORMATS[body_format](event_id, event_type, at, about)
    return MessageBody(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(), media_type)


def _standard(event_id: str, event_type: str, at: str, about: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return "application/json", {"type": event_type, "timestamp": at, "data": {"id": event_id, **about}}


def _cloudevent(event_id: str, event_type: str, at: str, about: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """CloudEvents 1.0, structured mode: https://github.com/cloudevents/spec. The subject is the tenant."""
    content = {
        "specversion": "1.0",
        "id": event_id,
        "source": "gpulease",
        "type": event_type,
        "subject": about["tenant_id"],
        "time": at,
        "datacontenttype": "application/json",
        "data": about,
    }
    return "application/cloudevents+json", content


_FORMATS = {WebhookFormat.STANDARD: _standard, WebhookFormat.CLOUDEVENTS: _cloudevent}


def signed_headers(secrets: Iterable[str], message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers of a message, with a signature by each of `secrets`. `at`: seconds since 1970."""
    signed = b".".join((message_id.encode(), str(at).encode(), body))
    signatures = (_signature(secret, signed) for secret in secrets)
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": " ".join(signatures)}


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def pause(tries: int, roll: float) -> timedelta:
    """The pause before the next try after `tries` tries.

    `roll`: random, 0 to 1, so that deliveries that failed together are not retried together.
    """
    seconds = min(_FIRST_PAUSE * _GROWTH ** min(tries - 1, 10), _LONGEST_PAUSE)
    return timedelta(seconds=seconds * (1 - _JITTER + 2 * _JITTER * roll))
