"""Bodies and views about API keys."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Body, DecimalText, Moment, Name, Page, Timestamp, View
from app.services.principal import Role

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
