"""Bodies and views about webhooks."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from app.api.schemas.base import ActingTenant, Body, Moment, Page, Text, View
from app.domain.webhooks.formats import WebhookEventType, WebhookFormat
from app.domain.webhooks.urls import LONGEST_URL


def _once_each(names: list[WebhookEventType]) -> list[WebhookEventType]:
    if len(set(names)) < len(names):
        raise ValueError("an event type is listed twice")
    return names


EventTypes = Annotated[
    list[Annotated[WebhookEventType, Field(strict=False)]],
    Field(
        min_length=1,
        max_length=len(WebhookEventType),
        description="Only these types. Null: all types of events. `usage.hour` must be listed.",
    ),
    AfterValidator(_once_each),
]


Url = Annotated[
    Text,
    Field(
        max_length=LONGEST_URL,
        examples=["https://hooks.example.org/gpulease"],
        description="An https URL that resolves only to public addresses. The service does not follow redirects.",
    ),
]


Description = Annotated[Text, Field(max_length=200)]


Format = Annotated[WebhookFormat, Field(strict=False)]


class NewWebhook(Body):
    """A webhook to create. It receives events from now on."""

    url: Url
    description: Description | None = None
    event_types: EventTypes | None = None
    format: Format = WebhookFormat.STANDARD
    tenant_id: ActingTenant = None


class WebhookPatch(Body):
    """Absent fields stay unchanged. A null `url`, `format` or `enabled` also stays unchanged."""

    url: Url | None = None
    description: Description | None = None
    event_types: EventTypes | None = None
    format: Format | None = None
    enabled: Annotated[
        bool | None,
        Field(description="After it is enabled again, the webhook receives new events and pending deliveries."),
    ] = None


class DisabledReason(StrEnum):
    """Who disabled the webhook: a user of the tenant, or the receiver with status 410. The list may grow."""

    BY_USER = "by_user"
    GONE = "gone"


class Webhook(View):
    """A webhook, which delivers a tenant's events."""

    id: str
    tenant_id: str
    url: str
    description: str | None
    event_types: Annotated[list[WebhookEventType] | None, Field(description="Null: all types of events.")]
    format: Annotated[WebhookFormat, Field(description="The form of the bodies.")]
    enabled: bool
    disabled_reason: DisabledReason | None
    previous_valid_until: Annotated[
        Moment | None, Field(description="Until this time, messages are also signed with the previous secret.")
    ]
    version: int
    created_at: Moment
    updated_at: Moment


class WebhookWithSecret(Webhook):
    """A new webhook, or a new secret."""

    secret: Annotated[
        str | None,
        Field(description="`whsec_…`, returned only once. Null when this response repeats an earlier one."),
    ]


class WebhookPage(Page):
    """A page of webhooks, newest first."""

    items: list[Webhook]


class DeliveryState(StrEnum):
    """The state of a delivery. `pending`: the receiver has not accepted it yet.

    `delivered`: the receiver has accepted it. Other values: there are no more retries. The list may grow.
    """

    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Delivery(View):
    """A message to a webhook, and the result of its delivery. Deliveries are kept for 30 days."""

    id: str
    webhook_id: str
    event_id: Annotated[str, Field(description="The message's `webhook-id`, the same in every attempt.")]
    sequence: Annotated[int | None, Field(description="The event's number; null for a test and for `usage.hour`.")]
    event_type: Annotated[str, Field(description="An event type, or `webhook.test`.")]
    state: DeliveryState
    tries: int
    status: Annotated[int | None, Field(description="The last HTTP status of the receiver. Null: no response.")]
    error: Annotated[str | None, Field(description="Why the last delivery attempt failed.")]
    next_try_at: Annotated[Moment | None, Field(description="Null: there are no more retries.")]
    last_try_at: Moment | None
    gives_up_at: Moment
    ended_at: Moment | None
    created_at: Moment


class DeliveryPage(Page):
    """A page of deliveries, newest first."""

    items: list[Delivery]
