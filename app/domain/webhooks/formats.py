"""The forms in which webhooks receive events. A form is a function from a message to a request."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.domain.event_types import EventType
from app.domain.webhooks.sentences import sentence
from app.domain.webhooks.signature import message_body, signed_headers


class WebhookFormat(StrEnum):
    """The form of a webhook's messages. The list may grow.

    `standard`: JSON by the Standard Webhooks specification, signed. `slack`: a sentence for a chat, as Slack's incoming
    webhooks take it, not signed. `cloudevents`: CloudEvents 1.0, signed.
    """

    STANDARD = "standard"
    SLACK = "slack"
    CLOUDEVENTS = "cloudevents"


class MeterMessage(StrEnum):
    """What webhooks receive besides events. The list may grow."""

    USAGE_HOUR = "usage.hour"


class WebhookEventType(StrEnum):
    """What a webhook may select: types of events, and messages that are no events. The list may grow."""

    _ignore_ = "_type"
    for _type in (*EventType, *MeterMessage):
        vars()[_type.name] = _type.value


NEEDS_FORMAT: Mapping[str, frozenset[WebhookFormat]] = {MeterMessage.USAGE_HOUR: frozenset({WebhookFormat.CLOUDEVENTS})}
"""The formats of messages that not every format can carry. Such a message is sent only where it is selected by name."""


def check_format(event_types: Iterable[str] | None, body_format: WebhookFormat) -> None:
    """Raises ValueError when a webhook of this format cannot receive one of these types."""
    for name in event_types or ():
        formats = NEEDS_FORMAT.get(name)
        if formats is not None and body_format not in formats:
            raise ValueError(f"{name} needs the format {' or '.join(sorted(formats))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """What is sent. `created_at`: RFC 3339. `about`: the event's data and its ids. `dashboard`: its URL, if it is known.

    `sent_at`: seconds since 1970.
    """

    id: str
    type: str
    created_at: str
    about: Mapping[str, Any]
    sent_at: int
    lease_name: str | None = None
    dashboard: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """Headers besides the usual ones, and the body with its media type. Equal messages have equal bodies."""

    headers: Mapping[str, str]
    body: bytes
    media_type: str = "application/json"


Form = Callable[[WebhookMessage, Sequence[str]], WebhookRequest]


def render(form: str, message: WebhookMessage, secrets: Sequence[str]) -> WebhookRequest:
    """The request for a message. `secrets` sign it where the form has signatures."""
    return _FORMS[WebhookFormat(form)](message, secrets)


def _standard(message: WebhookMessage, secrets: Sequence[str]) -> WebhookRequest:
    body = message_body(message.id, message.type, message.created_at, message.about)
    return WebhookRequest(signed_headers(secrets, message.id, message.sent_at, body), body)


def _cloudevent(message: WebhookMessage, secrets: Sequence[str]) -> WebhookRequest:
    """CloudEvents 1.0, structured mode: https://github.com/cloudevents/spec. The subject is the tenant."""
    content = {
        "specversion": "1.0",
        "id": message.id,
        "source": "gpulease",
        "type": message.type,
        "subject": message.about["tenant_id"],
        "time": message.created_at,
        "datacontenttype": "application/json",
        "data": message.about,
    }
    body = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    return WebhookRequest(
        signed_headers(secrets, message.id, message.sent_at, body), body, "application/cloudevents+json"
    )


def _slack(message: WebhookMessage, _secrets: Sequence[str]) -> WebhookRequest:
    """`text` is what notifications show; the block shows the same, with a link where there is one.

    `verbatim`: Slack makes no links and no mentions of plain text, for people choose the names in it.

    Source: https://api.slack.com/messaging/webhooks and https://api.slack.com/reference/surfaces/formatting
    """
    text = _escaped(sentence(message.type, message.about, lease_name=message.lease_name))
    link = _link(message)
    linked = text if link is None else f"{text} {link}"
    section = {"type": "mrkdwn", "text": linked, "verbatim": True}
    content = {"text": text, "blocks": [{"type": "section", "text": section}]}
    return WebhookRequest({}, json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode())


def _link(message: WebhookMessage) -> str | None:
    if message.dashboard is None:
        return None
    lease_id = message.about.get("lease_id")
    page, name = (f"leases/{lease_id}", "Show the lease") if lease_id else ("events", "Show the events")
    return f"<{message.dashboard}#/{page}|{name}>"


def _escaped(text: str) -> str:
    """Slack's three control characters as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_FORMS: Mapping[WebhookFormat, Form] = {
    WebhookFormat.STANDARD: _standard,
    WebhookFormat.SLACK: _slack,
    WebhookFormat.CLOUDEVENTS: _cloudevent,
}
