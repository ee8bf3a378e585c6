"""Verifies webhook messages (Standard Webhooks 1.0.0). Needs no client and no connection."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpulease_client.errors import InvalidSignatureError

TOLERANCE = 300.0
"""Seconds by which a message may be older or newer than now."""


@dataclass(frozen=True)
class Message:
    """A verified message. `id` is the same in every delivery of an event: store it to detect repetitions.

    `timestamp`: of the event, also where a webhook of the format `cloudevents` calls it `time`.
    """

    id: str
    type: str
    timestamp: str
    data: dict[str, Any]


def verify(
    secret: str | Iterable[str],
    body: bytes | str,
    headers: Mapping[str, str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Message:
    """The message, if one of its signatures is of one of these secrets and its timestamp is recent.

    It is of a webhook of the format `standard` or `cloudevents`. Those of the format `slack` have no signature.
    `body`: as received, unparsed. `headers`: in any case. `now`: seconds since 1970, by default the present time.
    Raises InvalidSignatureError.
    """
    content = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    message_id, sent, signatures = (_header(given, name) for name in ("id", "timestamp", "signature"))
    _check_time(sent, tolerance, time.time() if now is None else now)
    secrets = [secret] if isinstance(secret, str) else list(secret)
    valid = [_signature(one, f"{message_id}.{sent}.".encode() + content) for one in secrets]
    offered = [part.removeprefix("v1,") for part in signatures.split() if part.startswith("v1,")]
    if not any(hmac.compare_digest(one.encode(), other.encode()) for one in valid for other in offered):
        raise InvalidSignatureError("no signature of this message is valid for the secret")
    document = json.loads(content)
    timestamp = document["time" if "specversion" in document else "timestamp"]
    return Message(message_id, document["type"], timestamp, document["data"])


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(f"webhook-{name}")
    if not value:
        raise InvalidSignatureError(f"the header webhook-{name} is missing")
    return value


def _check_time(sent: str, tolerance: float, now: float) -> None:
    if not (sent.isascii() and sent.isdigit()) or abs(now - int(sent)) > tolerance:
        raise InvalidSignatureError(f"the timestamp {sent!r} is not within {tolerance:g} seconds of now")


def _signature(secret: str, signed: bytes) -> str:
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSignatureError("the secret is not of the form whsec_…") from None
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
