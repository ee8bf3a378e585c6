"""What a webhook message contains, and its signature.

Messages follow the Standard Webhooks specification 1.0.0 (https://www.standardwebhooks.com).
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

OVERLAP = timedelta(hours=24)
"""How long the previous secret signs beside the new one."""
TEST = "webhook.test"
_PREFIX = "whsec_"


def secret_text(key: bytes) -> str:
    """A secret in the form that its owner sees."""
    return _PREFIX + base64.b64encode(key).decode()


def message_body(event_id: str, event_type: str, at: str, about: Mapping[str, Any]) -> bytes:
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
