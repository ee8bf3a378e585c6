"""Webhooks, which deliver a tenant's events. Admins manage their own; operators manage those of any tenant."""

from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import AfterValidator, Field

from app.api.http.auth import turn_of
from app.api.http.etags import UseIfMatch, tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.base import Body, Moment, Page, Text, View
from app.api.schemas.lease_filters import QueryText
from app.domain.webhook_formats import WebhookEventType, WebhookFormat
from app.domain.webhooks import LONGEST_URL
from app.services import webhooks as service
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import list_tag, version_tag

router = make_router("webhooks")


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
    tenant_id: Annotated[
        str | None,
        Field(max_length=40, description="The tenant to act for. Required for operators; other keys must not set it."),
    ] = None


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


@router.post("/v1/webhooks", status_code=201, response_model=WebhookWithSecret)
async def create_webhook(
    request: Request, body: NewWebhook, principal: Admin, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Create a webhook. Only this response contains its secret. A tenant has at most ten webhooks."""
    repeat = idempotency_key(request, principal, key, body)
    made = await services.webhooks.create(
        principal, service.NewWebhook(**body.model_dump()), repeat, turn_of(request).aside()
    )
    hook = WebhookWithSecret.model_validate(made.values)
    return created(hook, location=f"/v1/webhooks/{hook.id}", replayed=made.replayed)


@router.get("/v1/webhooks", response_model=WebhookPage)
async def list_webhooks(
    request: Request,
    principal: Admin,
    services: UseServices,
    page: UsePage,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> Response:
    """List webhooks, newest first."""
    if principal.tenant_id is not None and tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name a tenant")])
    found = await services.webhooks.page(principal, tenant_id, page)
    tag = list_tag(((row["id"], row["version"]) for row in found.rows), also=found.position)
    items = [_hook(row) for row in found.rows]
    return tagged(request, WebhookPage(items=items, next_cursor=found.next_cursor, total_count=found.total_count), tag)


@router.get("/v1/webhooks/{webhook_id}", response_model=Webhook)
async def get_webhook(request: Request, webhook_id: str, principal: Admin, services: UseServices) -> Response:
    """Read a webhook."""
    row = await services.webhooks.get(principal, webhook_id)
    return tagged(request, _hook(row), version_tag(row["id"], row["version"]))


@router.patch("/v1/webhooks/{webhook_id}", response_model=Webhook)
async def update_webhook(
    request: Request, webhook_id: str, body: WebhookPatch, principal: Admin, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change, disable or enable a webhook."""
    given = body.model_dump(exclude_unset=True)
    values = {
        name: value for name, value in given.items() if value is not None or name not in {"url", "format", "enabled"}
    }
    row = await services.webhooks.change(principal, webhook_id, values, if_match, turn_of(request).aside())
    return answer(_hook(row), headers={"ETag": version_tag(row["id"], row["version"])})


@router.delete("/v1/webhooks/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: str, principal: Admin, services: UseServices) -> Response:
    """Delete a webhook and its delivery log."""
    await services.webhooks.remove(principal, webhook_id)
    return Response(status_code=204)


@router.post("/v1/webhooks/{webhook_id}/rotate-secret", status_code=201, response_model=WebhookWithSecret)
async def rotate_webhook_secret(
    request: Request, webhook_id: str, principal: Admin, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Rotate the secret of a webhook. For 24 hours, messages are signed with both secrets."""
    repeat = idempotency_key(request, principal, key, None)
    made = await services.webhooks.rotate(principal, webhook_id, repeat)
    return created(WebhookWithSecret.model_validate(made.values), replayed=made.replayed)


@router.post("/v1/webhooks/{webhook_id}/test", status_code=202, response_model=Delivery)
async def send_test_event(
    request: Request, webhook_id: str, principal: Admin, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Send the event `webhook.test` once. The delivery log shows the result."""
    repeat = idempotency_key(request, principal, key, None)
    made = await services.webhooks.test(principal, webhook_id, repeat)
    return created(Delivery.model_validate(made.values), status=202, replayed=made.replayed)


@router.get("/v1/webhooks/{webhook_id}/deliveries", response_model=DeliveryPage)
async def list_webhook_deliveries(
    request: Request, webhook_id: str, principal: Admin, services: UseServices, page: UsePage
) -> Response:
    """List past and pending deliveries, newest first."""
    found = await services.webhooks.deliveries(principal, webhook_id, page)
    items = [Delivery.model_validate(row) for row in found.rows]
    content = DeliveryPage(items=items, next_cursor=found.next_cursor, total_count=found.total_count).model_dump_json()
    return tagged(request, content.encode(), list_tag((), also=content))


@router.post("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replay", status_code=202, response_model=Delivery)
async def replay_webhook_delivery(
    request: Request,
    webhook_id: str,
    delivery_id: str,
    principal: Admin,
    services: UseServices,
    key: IdempotencyHeader = None,
) -> Response:
    """Repeat a delivery, with the same `webhook-id`. A delivery can be repeated for up to three days."""
    repeat = idempotency_key(request, principal, key, None)
    made = await services.webhooks.replay(principal, webhook_id, delivery_id, repeat)
    return created(Delivery.model_validate(made.values), status=202, replayed=made.replayed)


def _hook(row: dict[str, Any]) -> Webhook:
    return Webhook.model_validate(row)
