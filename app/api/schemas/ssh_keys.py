"""Bodies and responses of stored SSH keys."""

from typing import Annotated

from pydantic import AfterValidator, Field

from app.api.schemas.base import ActingTenant, Body, Moment, Name, Page, View
from app.domain.ssh_keys import LARGEST_SSH_KEYS
from app.services.tenants.ssh_key_format import ssh_public_key

_EXAMPLE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop"

PublicKey = Annotated[
    str,
    Field(
        max_length=LARGEST_SSH_KEYS,
        examples=[_EXAMPLE],
        description="One OpenSSH public key, without options. RSA keys must have at least 2048 bits.",
    ),
    AfterValidator(ssh_public_key),
]
IsDefault = Annotated[
    bool,
    Field(description="Leases that this API key creates get the SSH key if the request names no key."),
]


class NewSshKey(Body):
    """A public key to store. The API key that stores it owns it."""

    name: Annotated[Name, Field(description="Unique within the tenant.")]
    public_key: PublicKey
    default: IsDefault = False
    tenant_id: ActingTenant = None


class SshKeyPatch(Body):
    """Absent and null fields stay unchanged."""

    name: Annotated[Name | None, Field(description="Unique within the tenant.")] = None
    default: Annotated[bool | None, Field(description="Whether leases of the owner get the key by default.")] = None


class SshKey(View):
    """A stored SSH public key."""

    id: str
    tenant_id: str
    name: str
    public_key: str
    fingerprint: Annotated[str, Field(description="SHA-256, as OpenSSH writes it.", examples=["SHA256:zX9…"])]
    default: Annotated[bool, Field(description="Leases of the owner get the key if the request names no key.")]
    key_id: Annotated[str, Field(description="The API key that owns the SSH key.")]
    created_at: Moment


class SshKeyPage(Page):
    """A page of SSH keys, newest first."""

    items: list[SshKey]
