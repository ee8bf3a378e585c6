"""The images that lease requests can name."""

from fastapi import Request, Response
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.images import NamedImagePage
from app.services.preconditions import list_tag

router = make_router("images")


@router.get("/v1/images", response_model=NamedImagePage)
async def list_images(request: Request, principal: Viewer, services: UseServices) -> Response:  # noqa: ARG001  any role
    """List the images that a lease can request by name, and the accounts that offer each image."""
    items = [
        {
            "name": image.name,
            "accounts": [{"provider": provider, "account": account} for provider, account in image.places],
        }
        for image in await services.offerings.images()
    ]
    content = to_json({"items": items, "next_cursor": None})
    return tagged(request, content, list_tag((), also=content.decode()))
