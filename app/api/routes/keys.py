"""API keys, managed by operators and by the admins of a tenant."""

from enum import StrEnum
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import Field

from app.api.http.etags import tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Admin, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.base import Body, DecimalText, Moment, Name, Page, Timestamp, View
from app.services.key_format import prefix
from app.services.keys import NewKey
from app.services.preconditions import list_tag
from app.services.principal import Role

router = make_router("keys")

LONGEST_OVERLAP = 7 * 86_400


class TenantRole(StrEnum):
    """Roles within a tenant. A viewer reads. A member also manages leases. An admin also manages keys."""

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class NewApiKey(Body):
    """A key to create. It expires no later than the key of the request."""

    name: Name
    role: Annotated[TenantRole, Field(strict=False)]
    expires_at: Timestamp | None = None
    budget: Annotated[
        DecimalText | None,
        Field(
            description=(
                "USD that all leases of the key may cost together. Creates a budget of kind `key` for the key's "
                "lifetime, with `when_exceeded` `end`. Null: none."
            ),
            examples=["5.00"],
        ),
    ] = None


class KeyRotation(Body):
    """How long the old secret stays valid after the rotation."""

    overlap_seconds: Annotated[int, Field(ge=0, le=LONGEST_OVERLAP)] = 0


class ApiKey(View):
    """A key, without its secret. `prefix` is the start of the key."""

    id: str
    tenant_id: str | None
    name: str
    role: Role
    prefix: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Annotated[Moment | None, Field(description="When the key was last used, accurate to about a minute.")]
    previous_valid_until: Annotated[
        Moment | None, Field(description="The previous secret stays valid until this time.")
    ]


class ApiKeyWithSecret(ApiKey):
    """A new key, or a new secret of a key."""

    secret: Annotated[
        str | None,
        Field(description="The whole key, returned only once. Null when this response repeats an earlier one."),
    ]


class ApiKeyPage(Page):
    """A page of keys, newest first."""

    items: list[ApiKey]


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
    found = await services.keys.page(principal, tenant_id, page)
    items = [_key(row) for row in found.rows]
    content = ApiKeyPage(items=items, next_cursor=found.next_cursor, total_count=found.total_count).model_dump_json()
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
