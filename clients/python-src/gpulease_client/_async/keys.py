"""API keys of a tenant."""

from collections.abc import AsyncIterator
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import ApiKey, ApiKeyWithSecret, Me
from gpulease_client.errors import InvalidValueError
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of


class AsyncKeys(AsyncResource):
    """`/v1/tenants/{tenant_id}/keys` and `/v1/keys`. `tenant_id`: for operators; others act for their own tenant."""

    async def create(self, *, tenant_id: str | None = None, **fields: Any) -> ApiKeyWithSecret:
        """Creates a key, and returns its secret once: `create(name="ci", role="member", budget="20")`."""
        path = await self._path(tenant_id)
        return await self._call(ApiKeyWithSecret, "POST", path, json=body_of(None, fields))

    async def list(self, *, tenant_id: str | None = None, **filters: Any) -> AsyncIterator[ApiKey]:
        """All keys of the tenant, page after page, without their secrets."""
        async for key in self._iterate(ApiKey.from_dict, await self._path(tenant_id), filters):
            yield key

    async def rotate(self, key_id: str, *, overlap_seconds: int = 0) -> ApiKeyWithSecret:
        """A new secret of a key. The former one stays valid for `overlap_seconds`."""
        path = path_of("/v1/keys", key_id, "rotate")
        return await self._call(ApiKeyWithSecret, "POST", path, json={"overlap_seconds": overlap_seconds})

    async def revoke(self, key_id: str) -> ApiKey:
        """Ends a key at once. Its leases continue."""
        return await self._call(ApiKey, "DELETE", path_of("/v1/keys", key_id))

    async def _path(self, tenant_id: str | None) -> str:
        own = tenant_id or (await self._call(Me, "GET", "/v1/me")).tenant_id
        if not own:
            raise InvalidValueError("this key belongs to no tenant: give tenant_id")
        return path_of("/v1/tenants", own, "keys")
