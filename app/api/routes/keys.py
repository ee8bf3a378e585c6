"""API keys, managed by operators and by the admins of a tenant."""

from typing import Any

from fastapi import Request, Response

from app.api.http.etags import tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.keys import ApiKey, ApiKeyPage, ApiKeyWithSecret, KeyRotation, NewApiKey
from app.services.key_format import prefix
from app.services.preconditions import list_tag
from app.services.principal import Role
from app.services.tenants.keys import NewKey

router = make_router("keys")


@router.post("/v1/tenants/{tenant_id}/keys", status_code=201, response_model=ApiKeyWithSecret)
async def create_key(
    request: Request,
    tenant_id: str,
    body: NewApiKey,
    principal: Admin,
    services: UseServices,
    key: IdempotencyHeader = None,
) -> Response:
    """Create a key. Only this response contains its secret."""
    repeat = idempotency_key(request, principal, key, body)
    new = NewKey(name=body.name, role=Role(body.role), expires_at=body.expires_at, budget=body.budget)
    made = await services.keys.create(principal, tenant_id, new, repeat)
    return created(_with_secret(made.values), replayed=made.replayed)


@router.get("/v1/tenants/{tenant_id}/keys", response_model=ApiKeyPage)
async def list_keys(
    request: Request, tenant_id: str, principal: Admin, services: UseServices, page: UsePage
) -> Response:
    """List a tenant's keys, newest first, including revoked keys."""
    matches = await services.keys.page(principal, tenant_id, page)
    items = [_key(row) for row in matches.rows]
    content = ApiKeyPage(
        items=items, next_cursor=matches.next_cursor, total_count=matches.total_count
    ).model_dump_json()
    return tagged(request, content.encode(), list_tag((), also=content))


@router.delete("/v1/keys/{key_id}", response_model=ApiKey)
async def revoke_key(key_id: str, principal: Admin, services: UseServices) -> Response:
    """Revoke a key. All processes reject it within 5 seconds."""
    return answer(_key(await services.keys.revoke(principal, key_id)))


@router.post("/v1/keys/{key_id}/rotate", status_code=201, response_model=ApiKeyWithSecret)
async def rotate_key(
    request: Request,
    key_id: str,
    body: KeyRotation,
    principal: Admin,
    services: UseServices,
    key: IdempotencyHeader = None,
) -> Response:
    """Rotate the secret of a key. The old secret stays valid for `overlap_seconds`.

    A key that expires rotates only keys that expire no later.
    """
    repeat = idempotency_key(request, principal, key, body)
    made = await services.keys.rotate(principal, key_id, body.overlap_seconds, repeat)
    return created(_with_secret(made.values), replayed=made.replayed)


def _key(row: dict[str, Any]) -> ApiKey:
    return ApiKey.model_validate({**row, "prefix": prefix(row["id"])})


def _with_secret(row: dict[str, Any]) -> ApiKeyWithSecret:
    return ApiKeyWithSecret.model_validate({**row, "prefix": prefix(row["id"])})
