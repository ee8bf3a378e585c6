"""The documentation that the API itself serves."""

from fastapi import APIRouter, Request, Response

from app.api.http.openapi_document import rendered

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def get_openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return Response(rendered(request.app), media_type="application/json")
