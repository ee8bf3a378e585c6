"""Compute Engine's audit log, as a log sink puts it into the account's Pub/Sub subscription.

Cloud Logging reference, `LogEntry` and `AuditLog`; Pub/Sub REST reference, `projects.subscriptions.pull`.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from workers.providers.gcp.clients import GcpClients
from workers.providers.types import ProviderEvent

_MOST = 100
_ENDS = ("preempted", "delete", "stop", "suspend", "guestTerminate", "hostError", "terminateOnHostMaintenance")
"""Methods of `compute.instances` after which a VM does not run any more, or not for long."""


def receive(clients: GcpClients, subscription: str | None) -> list[ProviderEvent]:
    """Waits a few seconds for the first. Raises ProviderError."""
    if subscription is None:
        return []
    answer = clients.pubsub(f"{subscription}:pull", {"maxMessages": _MOST})
    return [
        ProviderEvent(receipt=message["ackId"], regions=regions(message.get("message", {}).get("data", "")))
        for message in answer.get("receivedMessages", ())
    ]


def acknowledge(clients: GcpClients, subscription: str | None, used: Sequence[ProviderEvent]) -> None:
    """What is not acknowledged comes again. Raises ProviderError."""
    clients.pubsub(f"{subscription}:acknowledge", {"ackIds": [event.receipt for event in used]})


def regions(data: str) -> frozenset[str]:
    """Where a VM ended, says an entry of the audit log (base64 of JSON); nowhere, says anything else."""
    try:
        entry = json.loads(base64.b64decode(data))
    except ValueError:
        return frozenset()
    payload: Any = entry.get("protoPayload") if isinstance(entry, dict) else None
    if not isinstance(payload, dict):
        return frozenset()
    kind, _, method = str(payload.get("methodName")).rpartition(".")
    parts = str(payload.get("resourceName")).split("/")
    if not kind.endswith("compute.instances") or method not in _ENDS or "zones" not in parts[:-1]:
        return frozenset()
    zone = parts[parts.index("zones") + 1]
    return frozenset({zone.rpartition("-")[0]})
