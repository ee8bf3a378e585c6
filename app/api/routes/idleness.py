"""Idleness of leases, and the floors that operators set for tenants."""

from fastapi import Request, Response

from app.api.http.etags import UseIfMatch, tagged_by_content
from app.api.http.idempotency import IdempotencyHeader, idempotency_key, respond
from app.api.http.responses import answer
from app.api.http.routing import Member, Operator, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.idleness import IdleEvidence, IdleFloor, IdleFloorSetting, Keep, floor_from_body
from app.api.schemas.lease_serializer import lease_json
from app.api.schemas.leases import Lease

router = make_router("idleness")


@router.post("/v1/leases/{lease_id}/keep", response_model=Lease)
async def keep_lease(
    request: Request,
    lease_id: str,
    body: Keep,
    principal: Member,
    services: UseServices,
    if_match: UseIfMatch,
    key: IdempotencyHeader = None,
) -> Response:
    """Hold idleness off: the lease does not count as idle for so long from now.

    At most the `max_keep_seconds` of the tenant's floor. The lease's expiry stays.
    """
    repeat = idempotency_key(request, principal, key, body)
    call = services.lease_idleness.keep(principal, lease_id, body.seconds, if_match=if_match, key=repeat)
    return await respond(call, lambda row: lease_json(row, principal.role), status=200)


@router.get("/v1/leases/{lease_id}/idle-evidence", response_model=IdleEvidence)
async def get_lease_idle_evidence(
    request: Request, lease_id: str, principal: Viewer, services: UseServices
) -> Response:
    """Read the samples for which the lease last counted as idle."""
    evidence = await services.lease_idleness.evidence(principal, lease_id)
    return tagged_by_content(request, IdleEvidence.model_validate(evidence).model_dump_json().encode())


@router.get("/v1/tenants/{tenant_id}/idle-floor", response_model=IdleFloor)
async def get_idle_floor(request: Request, tenant_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read the idle floor of a tenant. Every key may read that of its own tenant."""
    floor = await services.idle_floors.get(principal, tenant_id)
    return tagged_by_content(request, IdleFloor.model_validate(floor.as_json()).model_dump_json().encode())


@router.put("/v1/tenants/{tenant_id}/idle-floor", response_model=IdleFloor)
async def set_idle_floor(
    tenant_id: str, body: IdleFloorSetting, principal: Operator, services: UseServices
) -> Response:
    """Set the idle floor of a tenant. It applies to running leases at once, and members cannot weaken it."""
    floor = floor_from_body(body)
    await services.idle_floors.set(principal, tenant_id, floor)
    return answer(IdleFloor.model_validate(floor.as_json()))


@router.delete("/v1/tenants/{tenant_id}/idle-floor", status_code=204)
async def delete_idle_floor(tenant_id: str, principal: Operator, services: UseServices) -> Response:
    """Remove the idle floor of a tenant. Leases keep their own rules."""
    await services.idle_floors.set(principal, tenant_id, None)
    return Response(status_code=204)
