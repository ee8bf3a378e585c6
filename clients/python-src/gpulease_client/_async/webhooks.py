"""Webhooks: addresses that receive events, and their deliveries. `gpulease_client.webhooks` checks signatures."""

from collections.abc import AsyncIterator
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Delivery, Webhook, WebhookWithSecret
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of


class AsyncWebhooks(AsyncResource):
    """`/v1/webhooks`."""

    async def create(self, **fields: Any) -> WebhookWithSecret:
        """Creates a webhook, and returns its secret once: `create(url="https://…", event_types=["lease.failed"])`."""
        return await self._call(WebhookWithSecret, "POST", "/v1/webhooks", json=body_of(None, fields))

    async def get(self, webhook_id: str) -> Webhook:
        """One webhook."""
        return await self._call(Webhook, "GET", path_of("/v1/webhooks", webhook_id))

    def list(self, **filters: Any) -> AsyncIterator[Webhook]:
        """All webhooks of the tenant, page after page."""
        return self._iterate(Webhook.from_dict, "/v1/webhooks", filters)

    async def update(self, webhook_id: str, **fields: Any) -> Webhook:
        """Changes a webhook: `update(webhook.id, enabled=False)`."""
        return await self._call(Webhook, "PATCH", path_of("/v1/webhooks", webhook_id), json=body_of(None, fields))

    async def delete(self, webhook_id: str) -> None:
        """Deletes a webhook. Nothing more is sent to it."""
        await self._http.request("DELETE", path_of("/v1/webhooks", webhook_id))

    async def rotate_secret(self, webhook_id: str) -> WebhookWithSecret:
        """A new secret, returned once."""
        return await self._call(WebhookWithSecret, "POST", path_of("/v1/webhooks", webhook_id, "rotate-secret"))

    async def test(self, webhook_id: str) -> Delivery:
        """Sends a test message."""
        return await self._call(Delivery, "POST", path_of("/v1/webhooks", webhook_id, "test"))

    def deliveries(self, webhook_id: str, **filters: Any) -> AsyncIterator[Delivery]:
        """What was sent, and how the receiver answered, page after page."""
        return self._iterate(Delivery.from_dict, path_of("/v1/webhooks", webhook_id, "deliveries"), filters)

    async def replay(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Sends the message of a delivery again."""
        path = path_of("/v1/webhooks", webhook_id, "deliveries", delivery_id, "replay")
        return await self._call(Delivery, "POST", path)
