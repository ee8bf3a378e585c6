"""The endpoint where a leased VM reports its SSH host keys. It accepts a single-use token instead of an API key."""

from fastapi import APIRouter, Request, Response

from app.api.http.auth import REQUEST_ID, bearer
from app.api.http.routing import OneTimeRoute, UseServices
from app.api.schemas.host_keys import HostKeys

router = APIRouter(route_class=OneTimeRoute, tags=["host-keys"], generate_unique_id_function=lambda route: route.name)


@router.post("/v1/host-keys", status_code=204, response_class=Response)
async def report_host_keys(request: Request, body: HostKeys, services: UseServices) -> Response:
    """Report the SSH host keys of the calling VM, once. Each VM receives its token at launch.

    People do not use this call.
    """
    await services.host_keys.accept(bearer(request), body.keys, request.scope[REQUEST_ID])
    return Response(status_code=204)
