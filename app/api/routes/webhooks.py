"""Webhooks, which deliver a tenant's events. Admins manage their own; operators manage those of any tenant."""

from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.auth import turn_of
from app.api.http.etags import UseIfMatch, tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.webhooks import (
    Delivery,
    DeliveryPage,
    NewWebhook,
    Webhook,
    WebhookPage,
    WebhookPatch,
    WebhookWithSecret,
)
from app.services import webhooks as service
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import list_tag, version_tag

router = make_router("webhooks")


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
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    matches = await services.webhooks.page(principal, tenant_id, page)
    tag = list_tag(((row["id"], row["version"]) for row in matches.rows), also=matches.position)
    items = [_hook(row) for row in matches.rows]
    return tagged(
        request, WebhookPage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count), tag
    )


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
    members = body.model_dump(exclude_unset=True)
    values = {
        name: value for name, value in members.items() if value is not None or name not in {"url", "format", "enabled"}
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
    matches = await services.webhooks.deliveries(principal, webhook_id, page)
    items = [Delivery.model_validate(row) for row in matches.rows]
    content = DeliveryPage(
        items=items, next_cursor=matches.next_cursor, total_count=matches.total_count
    ).model_dump_json()
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
