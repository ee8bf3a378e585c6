"""The regions that lease requests can name."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import View
from app.services.preconditions import list_tag

router = make_router("offerings")


class Region(View):
    """A region of a provider in which leases can run."""

    provider: str
    region: str
    accounts: Annotated[list[str], Field(description="The operators' accounts that use the region.")]
    gpu_models: Annotated[
        list[str], Field(description="Models with an offering there. Empty until gpulease has read the catalogue.")
    ]


class RegionPage(View):
    """All regions, sorted by provider and name."""

    items: list[Region]
    next_cursor: str | None


@router.get("/v1/regions", response_model=RegionPage)
async def list_regions(request: Request, principal: Viewer, services: UseServices) -> Response:
    """List the regions that a lease can request, with their accounts and GPU models."""
    items = [
        {"provider": one.provider, "region": one.region, "accounts": one.accounts, "gpu_models": one.gpu_models}
        for one in await services.regions.list(principal.tenant_id)
    ]
    content = to_json({"items": items, "next_cursor": None})
    return tagged(request, content, list_tag((), also=content.decode()))
