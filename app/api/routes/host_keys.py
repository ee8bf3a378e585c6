"""The endpoint where a leased VM reports its SSH host keys. It accepts a single-use token instead of an API key."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, Field

from app.api.http.auth import REQUEST_ID, bearer
from app.api.http.routing import OneTimeRoute, UseServices
from app.api.schemas.base import Body
from app.services.host_keys import LONGEST_KEY, host_public_key, one_of_each_type

router = APIRouter(route_class=OneTimeRoute, tags=["host-keys"], generate_unique_id_function=lambda route: route.name)

_MOST_KEYS = 5


class HostKeys(Body):
    """The public SSH host keys of one VM."""

    keys: Annotated[
        list[Annotated[str, Field(max_length=LONGEST_KEY), AfterValidator(host_public_key)]],
        Field(min_length=1, max_length=_MOST_KEYS, description="`<type> <base64>` each, without a comment."),
        AfterValidator(one_of_each_type),
    ]


@router.post("/v1/host-keys", status_code=204, response_class=Response)
async def report_host_keys(request: Request, body: HostKeys, services: UseServices) -> Response:
    """Report the SSH host keys of the calling VM, once. Each VM receives its token at launch.

    People do not use this call.
    """
    await services.host_keys.accept(bearer(request), body.keys, request.scope[REQUEST_ID])
    return Response(status_code=204)
