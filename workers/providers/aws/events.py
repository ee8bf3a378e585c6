"""EC2's events, as an EventBridge rule puts them into the account's SQS queue.

EC2 user guide, "Automate Amazon EC2 with EventBridge": spot interruption warnings and state changes.
"""

import json
from collections.abc import Sequence
from typing import Any

import structlog

from workers.providers.aws.clients import AwsClients
from workers.providers.aws.errors import translated
from workers.providers.common.batch import answered, chunks
from workers.providers.types import ProviderEvent

log = structlog.get_logger(__name__)

_MOST = 10
"""Messages of one receive and of one delete (SQS API reference)."""
_WARNING = "EC2 Spot Instance Interruption Warning"
_CHANGE = "EC2 Instance State-change Notification"
_ENDS = frozenset({"shutting-down", "terminated", "stopping", "stopped"})


def receive(clients: AwsClients, url: str | None) -> list[ProviderEvent]:
    """Waits a few seconds for the first. Raises ProviderError."""
    if url is None:
        return []
    with translated():
        answer = clients.sqs().receive_message(
            QueueUrl=url, MaxNumberOfMessages=_MOST, WaitTimeSeconds=clients.longest_wait
        )
    return [
        ProviderEvent(receipt=message["ReceiptHandle"], regions=regions(message.get("Body", "")))
        for message in answer.get("Messages", ())
    ]


def delete(clients: AwsClients, url: str | None, used: Sequence[ProviderEvent]) -> None:
    """What SQS does not delete comes again. Raises ProviderError when it deletes none."""
    portions = {some[0]: some for some in chunks([event.receipt for event in used], _MOST)}
    answered(portions, lambda first: _delete(clients, url, portions[first]))


def _delete(clients: AwsClients, url: str | None, receipts: Sequence[str]) -> None:
    entries = [{"Id": str(n), "ReceiptHandle": receipt} for n, receipt in enumerate(receipts)]
    with translated():
        answer = clients.sqs().delete_message_batch(QueueUrl=url, Entries=entries)
    for failed in answer.get("Failed", ()):
        log.warning("item left out", item=receipts[int(failed["Id"])], code=failed["Code"], error=failed.get("Message"))


def regions(body: str) -> frozenset[str]:
    """Where a VM ends or soon will, says a message of EventBridge; nowhere, says any other text."""
    try:
        message = json.loads(body)
    except ValueError:
        return frozenset()
    if not isinstance(message, dict) or not _tells_an_end(message):
        return frozenset()
    return frozenset({str(message.get("region"))})


def _tells_an_end(message: dict[str, Any]) -> bool:
    detail = message.get("detail")
    if message.get("source") != "aws.ec2" or not isinstance(detail, dict):
        return False
    return message.get("detail-type") == _WARNING or (
        message.get("detail-type") == _CHANGE and detail.get("state") in _ENDS
    )
