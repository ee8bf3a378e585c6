"""The volumes of a new lease: where they are, and the claim on them in the transaction that admits the lease."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.engine import ApiDatabase
from app.db.fleet import volumes as statements
from app.domain.ids import LeaseId, TenantId
from app.domain.volumes import VolumePlace, VolumeState
from app.services.errors import Conflict, FieldError, InvalidRequest, VolumeInUse
from app.services.leases.requests import CreateLease

_UNKNOWN = "no volume of the tenant has this name; GET /v1/volumes lists them"


async def with_volume_place(
    database: ApiDatabase, new: CreateLease, *, tenant_id: TenantId, within: str | None
) -> CreateLease:
    """The call with the place of its volumes. Without one where `find_volumes` refuses them.

    The transaction that admits the lease refuses them then: a repeated request gets its first response.
    """
    if not new.request.volumes:
        return new
    async with database.transaction(within, read_only=True) as connection:
        try:
            rows = await find_volumes(connection, new, tenant_id=tenant_id)
        except InvalidRequest:
            return new
    return replace(new, volume_place=_place(*rows))


async def find_volumes(
    connection: AsyncConnection, new: CreateLease, *, tenant_id: TenantId, lock: bool = False
) -> Sequence[RowMapping]:
    """The rows of the volumes, in the order of the request. `lock`: locks them. Raises InvalidRequest."""
    names = [mount.name for mount in new.request.volumes]
    rows = (await connection.execute(statements.named(tenant_id, names, lock=lock))).mappings().all()
    known = {row["name"]: row for row in rows}
    unknown = [n for n, name in enumerate(names) if name not in known]
    if unknown:
        raise InvalidRequest(errors=[FieldError(f"#/body/volumes/{n}/name", _UNKNOWN) for n in unknown])
    first = _place(known[names[0]])
    elsewhere = [
        FieldError(
            f"#/body/volumes/{n}/name",
            f"is in {_place(known[name])}, and {names[0]} is in {first}: a VM mounts volumes of one zone alone",
        )
        for n, name in enumerate(names)
        if not first.holds(*(known[name][column] for column in ("account", "region", "zone")))
    ]
    if elsewhere:
        raise InvalidRequest(errors=elsewhere)
    return [known[name] for name in names]


def check_free(rows: Sequence[RowMapping]) -> None:
    """Raises VolumeInUse unless a lease can claim each of the volumes."""
    for n, row in enumerate(rows):
        if row["lease_id"] is not None:
            raise volume_in_use(row, pointer=f"#/body/volumes/{n}/name")
        if row["state"] != VolumeState.AVAILABLE:
            detail = f"is not available: the volume {row['id']} is in state {row['state']}"
            facts = {"volume_id": row["id"], "state": row["state"]}
            raise VolumeInUse(errors=[FieldError(f"#/body/volumes/{n}/name", detail)], extra=facts)


async def claim_volumes(
    connection: AsyncConnection, new: CreateLease, lease_id: LeaseId, *, tenant_id: TenantId
) -> None:
    """The lease holds its volumes until it has ended. Its row is inserted.

    Raises InvalidRequest, VolumeInUse, and Conflict when a volume was replaced by one elsewhere meanwhile.
    """
    if not new.request.volumes:
        return
    rows = await find_volumes(connection, new, tenant_id=tenant_id, lock=True)
    check_free(rows)
    if _place(*rows) != new.volume_place:
        raise Conflict("The volumes changed during the request. Nothing is stored: send it again.", retryable=True)
    await connection.execute(statements.claim([row["id"] for row in rows], lease_id, within=tenant_id))


def volume_in_use(row: Any, *, pointer: str | None = None) -> VolumeInUse:
    """The refusal of a volume that a lease holds. `pointer`: the field that names it."""
    detail = f"is in use: the lease {row['lease_id']} holds the volume {row['id']}"
    errors = [] if pointer is None else [FieldError(pointer, detail)]
    facts = {"volume_id": row["id"], "lease_id": row["lease_id"]}
    return VolumeInUse(None if errors else f"The volume {detail}.", errors=errors, extra=facts)


def _place(first: Any, *others: Any) -> VolumePlace:
    """Of volumes in one zone."""
    kinds = sorted({row["kind"] for row in (first, *others)} - {None})
    return VolumePlace(account=first["account"], region=first["region"], zone=first["zone"], kinds=tuple(kinds))
