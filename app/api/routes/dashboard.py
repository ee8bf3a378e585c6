"""The dashboard's files. They are static, the same for every user, and use this API like any other client."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from app.api.http.static_files import StaticFile, read_files, serve_file

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"The Content-Security-Policy of every file: no inline code, no external resources, no text that becomes markup."

_PAGE = "index.html"


@router.get("/")
async def get_root() -> Response:
    """Redirects to the dashboard, below any prefix that a proxy has added."""
    return Response(status_code=307, headers={"Location": "dashboard/"})


@router.get("/dashboard")
async def get_dashboard_folder() -> Response:
    """Redirects to the page, below any prefix that a proxy has added."""
    return Response(status_code=307, headers={"Location": "dashboard/"})


@router.get("/dashboard/")
async def get_dashboard(request: Request) -> Response:
    """The HTML page."""
    return _answer(request, _PAGE)


@router.get("/dashboard/{path:path}")
async def get_dashboard_file(request: Request, path: str) -> Response:
    """A script, style sheet or picture of the page."""
    return _answer(request, path)


def _answer(request: Request, path: str) -> Response:
    return serve_file(request, static_files(), path, POLICY)


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Files by path below `dashboard/`, read at the first request. No other file is served."""
    return read_files(files("dashboard"))
