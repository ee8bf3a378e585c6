"""Volumes: disks that outlive leases."""

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
from app.api.schemas.volumes import NewVolume, Volume, VolumePage
from app.domain.volumes import VolumeState
from app.services import volumes as service
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import list_tag

router = make_router("volumes")


@router.post("/v1/volumes", status_code=201, response_model=Volume)
async def create_volume(
    request: Request, body: NewVolume, principal: Member, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Create a volume. The response is in state `creating`; poll `GET /v1/volumes/{id}` until it is `available`."""
    repeat = idempotency_key(request, principal, key, body)
    made = await services.volumes.create(principal, service.CreateVolume(**body.model_dump()), repeat)
    stored = _volume(made.values)
    return created(stored, location=f"/v1/volumes/{stored.id}", replayed=made.replayed)


@router.get("/v1/volumes", response_model=VolumePage)
async def list_volumes(
    request: Request,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    *,
    state: Annotated[list[VolumeState] | None, Query(description="Repeatable. Default: any state.")] = None,
    name: Annotated[QueryText | None, Query(description="Only volumes with this name.")] = None,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> Response:
    """List the tenant's volumes, newest first. Ended volumes are listed for 400 days."""
    if principal.tenant_id is not None and tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    matches = await services.volumes.page(
        principal, page, tenant_id=tenant_id, states=frozenset(state or ()), name=name
    )
    items = [_volume(row) for row in matches.rows]
    page_of = VolumePage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count)
    return _tagged(request, page_of, {"items": {"__all__": {"cost"}}})


@router.get("/v1/volumes/{volume_id}", response_model=Volume)
async def get_volume(request: Request, volume_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read a volume."""
    return _tagged(request, _volume(await services.volumes.get(principal, volume_id)), {"cost"})


@router.delete("/v1/volumes/{volume_id}", status_code=202, response_model=Volume)
async def delete_volume(volume_id: str, principal: Member, services: UseServices) -> Response:
    """Delete a volume and all data on it. A volume in use is refused. Repeating the call has no effect."""
    return answer(_volume(await services.volumes.remove(principal, volume_id)), 202)


def _tagged(request: Request, view: View, growing: Any) -> Response:
    """`growing`: members that change with time alone, and that the tag leaves out."""
    return tagged(request, view, list_tag((), also=view.model_dump_json(exclude=growing)))


def _volume(row: Any) -> Volume:
    return Volume.model_validate(row)
