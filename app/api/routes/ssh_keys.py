"""Stored SSH keys. Members manage the keys of their API key; admins manage all keys of the tenant."""

from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.api.http.etags import tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Member, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import View
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.ssh_keys import NewSshKey, SshKey, SshKeyPage, SshKeyPatch
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import list_tag
from app.services.tenants import ssh_keys as service

router = make_router("ssh-keys")


@router.post("/v1/ssh-keys", status_code=201, response_model=SshKey)
async def create_ssh_key(
    request: Request, body: NewSshKey, principal: Member, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Store an SSH public key. Leases name it in `ssh_keys`. A tenant has at most 500 SSH keys."""
    repeat = idempotency_key(request, principal, key, body)
    made = await services.ssh_keys.create(principal, service.NewSshKey(**body.model_dump()), repeat)
    stored = SshKey.model_validate(made.values)
    return created(stored, location=f"/v1/ssh-keys/{stored.id}", replayed=made.replayed)


@router.get("/v1/ssh-keys", response_model=SshKeyPage)
async def list_ssh_keys(
    request: Request,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    *,
    mine: Annotated[bool, Query(description="Only keys that the calling API key owns.")] = False,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> Response:
    """List the tenant's SSH keys, newest first."""
    if principal.tenant_id is not None and tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    matches = await services.ssh_keys.page(principal, tenant_id, page, mine=mine)
    items = [_key(row) for row in matches.rows]
    return _tagged(request, SshKeyPage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count))


@router.get("/v1/ssh-keys/{ssh_key_id}", response_model=SshKey)
async def get_ssh_key(request: Request, ssh_key_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read an SSH key."""
    return _tagged(request, _key(await services.ssh_keys.get(principal, ssh_key_id)))


@router.patch("/v1/ssh-keys/{ssh_key_id}", response_model=SshKey)
async def update_ssh_key(ssh_key_id: str, body: SshKeyPatch, principal: Member, services: UseServices) -> Response:
    """Rename an SSH key, or make it a default key of its owner."""
    values = body.model_dump(exclude_none=True)
    return answer(_key(await services.ssh_keys.change(principal, ssh_key_id, values)))


@router.delete("/v1/ssh-keys/{ssh_key_id}", status_code=204)
async def delete_ssh_key(ssh_key_id: str, principal: Member, services: UseServices) -> Response:
    """Delete an SSH key. VMs that have the key keep it."""
    await services.ssh_keys.remove(principal, ssh_key_id)
    return Response(status_code=204)


def _tagged(request: Request, view: View) -> Response:
    content = view.model_dump_json()
    return tagged(request, content.encode(), list_tag((), also=content))


def _key(row: dict[str, Any]) -> SshKey:
    return SshKey.model_validate(row)
