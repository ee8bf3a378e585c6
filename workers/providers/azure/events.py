"""Azure's events, as an Event Grid subscription on the resource group puts them into the account's storage queue.

Storage REST reference, "Get Messages" and "Delete Message2"; Event Grid's schema of events of resource groups.
"""

import base64
import json
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

from azure.core.rest import HttpRequest

from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.common.batch import answered
from workers.providers.errors import OutcomeUnknown
from workers.providers.types import ProviderEvent

_MOST = 32
_HIDDEN_SECONDS = 30
_VM = "/providers/microsoft.compute/virtualmachines/"
_ENDS = ("/delete", "/deallocate/action", "/poweroff/action")
_HEALTH = "Microsoft.ResourceNotifications.HealthResources."
_GONE = 404


def receive(group: Group, url: str | None, everywhere: Collection[str]) -> list[ProviderEvent]:
    """What is there now. An event names no region: all of the account's are meant. Raises ProviderError."""
    if url is None:
        return []
    query = urlencode({"numofmessages": _MOST, "visibilitytimeout": _HIDDEN_SECONDS})
    with translated():
        answer = group.clients.queue.send_request(HttpRequest("GET", f"{url}/messages?{query}"))
        answer.raise_for_status()
    return [_event(queue_message, everywhere) for queue_message in _messages(answer.text())]


def delete(group: Group, url: str | None, used: Sequence[ProviderEvent]) -> None:
    """One call each. What is not deleted comes again. Raises ProviderError when none is."""
    answered([event.receipt for event in used], lambda event: _delete(group, url, event))


def _delete(group: Group, url: str | None, receipt: str) -> None:
    message_id, _, pop_receipt = receipt.partition(" ")
    query = urlencode({"popreceipt": pop_receipt})
    with translated():
        answer = group.clients.queue.send_request(HttpRequest("DELETE", f"{url}/messages/{message_id}?{query}"))
        if answer.status_code != _GONE:
            answer.raise_for_status()


def _messages(text: str) -> list[ET.Element]:
    try:
        return ET.fromstring(text).findall("QueueMessage")  # noqa: S314  from our own queue; expat bounds entities
    except ET.ParseError as error:
        raise OutcomeUnknown(f"the queue's answer is no XML: {error}", code="MalformedAnswer") from None


def _event(message: ET.Element, everywhere: Collection[str]) -> ProviderEvent:
    receipt = f"{message.findtext('MessageId')} {message.findtext('PopReceipt')}"
    ends = tells_an_end(message.findtext("MessageText") or "")
    return ProviderEvent(receipt=receipt, regions=frozenset(everywhere if ends else ()))


def tells_an_end(text: str) -> bool:
    """Whether an event of Event Grid (base64 of JSON) says that a VM was deleted or stopped, or that its health changed."""
    try:
        event: Any = json.loads(base64.b64decode(text))
    except ValueError:
        return False
    if not isinstance(event, dict) or _VM not in str(event.get("subject")).lower():
        return False
    data = event.get("data")
    operation = str(data.get("operationName")).lower() if isinstance(data, dict) else ""
    return str(event.get("eventType")).startswith(_HEALTH) or operation.endswith(_ENDS)
