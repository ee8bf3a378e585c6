"""The regions that lease requests can name."""

from fastapi import Request, Response
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.regions import RegionPage
from app.services.preconditions import list_tag

router = make_router("offerings")


@router.get("/v1/regions", response_model=RegionPage)
async def list_regions(request: Request, principal: Viewer, services: UseServices) -> Response:
    """List the regions that a lease can request, with their accounts and GPU models."""
    items = [
        {
            "provider": offered.provider,
            "region": offered.region,
            "accounts": offered.accounts,
            "gpu_models": offered.gpu_models,
        }
        for offered in await services.regions.list(principal.tenant_id)
    ]
    content = to_json({"items": items, "next_cursor": None})
    return tagged(request, content, list_tag((), also=content.decode()))
