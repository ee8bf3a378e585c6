"""The dashboard's files. They are static, the same for every user, and use this API like any other client."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from fastapi import APIRouter, Request, Response

from app.api.http.etags import not_modified
from app.services.errors import ResourceNotFound

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"The Content-Security-Policy of every file: no inline code, no external resources, no text that becomes markup."

_TYPES = MappingProxyType(
    {
        "css": "text/css; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)
_PAGE = "index.html"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file and its response headers."""

    content: bytes
    media_type: str
    etag: str


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
    found = static_files().get(path)
    if found is None:
        raise ResourceNotFound
    headers = {"ETag": found.etag, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    same = not_modified(request, found.etag)
    if same is not None:
        same.headers.update(headers)
        return same
    return Response(found.content, media_type=found.media_type, headers=headers)


@cache
def static_files() -> MappingProxyType[str, StaticFile]:
    """Files by path below `dashboard/`, read at the first request. No other file is served."""
    return MappingProxyType(dict(_below(files("dashboard"), "")))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif (media_type := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
            found.append((prefix + entry.name, StaticFile(content, media_type, etag)))
    return found
