"""The SSH keys of a new lease: those in the request, and stored keys that it names or that are the caller's default."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.engine import fetch
from app.db.tenancy import ssh_keys as statements
from app.domain.boot_sizes import check_boot_size
from app.domain.ids import KeyId, TenantId
from app.domain.ssh_keys import check_total, distinct
from app.services.errors import FieldError, InvalidRequest
from app.services.leases.requests import CreateLease

_UNKNOWN = "no SSH key has this name or id; GET /v1/ssh-keys lists them"

Row = Mapping[str, Any]


async def with_ssh_keys(
    connection: AsyncConnection, new: CreateLease, *, tenant_id: TenantId, key_id: KeyId, in_group: bool = False
) -> CreateLease:
    """The call with the public keys in its request, and the names of the stored ones.

    Raises InvalidRequest, also when a cloud cannot launch a VM with all these keys and the script.
    """
    resolved = await _resolved(connection, new, tenant_id, key_id)
    try:
        check_boot_size(
            resolved.startup_script,
            resolved.request.ssh_public_keys,
            in_group=in_group,
            has_volumes=bool(resolved.request.volumes),
        )
    except ValueError as error:
        raise InvalidRequest(errors=[FieldError("#/body/startup_script", str(error))]) from None
    return resolved


async def _resolved(connection: AsyncConnection, new: CreateLease, tenant_id: TenantId, key_id: KeyId) -> CreateLease:
    if new.ssh_keys == ():
        return new
    references = list(new.ssh_keys or ())
    parameters = {"references": references, "defaults": new.ssh_keys is None}
    rows = await fetch(connection, statements.FOR_LEASE, {**parameters, "tenant_id": tenant_id, "key_id": key_id})
    if not rows and not references:
        return new
    chosen = rows if new.ssh_keys is None else _in_order(references, rows)
    keys = distinct([*new.request.ssh_public_keys, *(row["public_key"] for row in chosen)])
    try:
        check_total(keys)
    except ValueError as error:
        raise InvalidRequest(errors=[FieldError("#/body/ssh_keys", f"with all keys of the lease, {error}")]) from None
    names = tuple(dict.fromkeys(row["name"] for row in chosen))
    return replace(new, request=replace(new.request, ssh_public_keys=keys, ssh_keys=names))


def _in_order(references: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """The keys in the order of the request. An id comes before a name that reads like it."""
    known = {**{row["name"]: row for row in rows}, **{row["id"]: row for row in rows}}
    unknown = [n for n, reference in enumerate(references) if reference not in known]
    if unknown:
        raise InvalidRequest(errors=[FieldError(f"#/body/ssh_keys/{n}", _UNKNOWN) for n in unknown])
    return [known[reference] for reference in references]
