"""The documentation that the API itself serves. It needs no key."""

from fastapi import APIRouter, Request, Response

from app.api.http.static_files import serve_file
from app.api.openapi import docs_page
from app.api.openapi.document import rendered

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def get_openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return Response(rendered(request.app), media_type="application/json")


@router.get("/docs")
async def get_docs(request: Request) -> Response:
    """Return the interactive reference."""
    return serve_file(request, docs_page.reference_files(), docs_page.INDEX, docs_page.POLICY)


@router.get("/docs/errors")
async def get_error_codes() -> Response:
    """Return the page to which `type` of every error leads."""
    return _html(docs_page.errors_page())


@router.get("/docs/assets/{path:path}")
async def get_reference_file(request: Request, path: str) -> Response:
    """Return a script or style sheet of the reference."""
    return serve_file(request, docs_page.reference_files(), path, docs_page.POLICY)


def _html(page: str) -> Response:
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": docs_page.POLICY})
