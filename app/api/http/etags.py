"""Conditional requests: If-Match for changes, and 304 for reads of a version that the caller has."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel

from app.api.http.responses import answer
from app.services.preconditions import IfMatch, list_tag, parse_required_tags, parse_tags


async def if_match(
    tags: Annotated[
        str | None,
        Header(alias="If-Match", description="Change only this version: the ETag of a GET, with its quotes, or `*`."),
    ] = None,
) -> IfMatch:
    """The dependency itself."""
    return IfMatch(parse_required_tags(tags))


UseIfMatch = Annotated[IfMatch, Depends(if_match)]
"""The caller's If-Match header, for changing calls."""


def not_modified(request: Request, etag: str) -> Response | None:
    """304 when the caller has this version already; ask before rendering."""
    known = parse_tags(request.headers.get("if-none-match"))
    return known_already(etag) if known is not None and (etag in known or "*" in known) else None


def known_already(etag: str) -> Response:
    """304 Not Modified."""
    return Response(status_code=304, headers=_etag_headers(etag))


def tagged(
    request: Request, model: BaseModel | bytes, etag: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`model` with its ETag, or 304."""
    same = not_modified(request, etag) if request.method in {"GET", "HEAD"} else None
    return same or answer(model, status, {**_etag_headers(etag), **(headers or {})})


def tagged_by_content(request: Request, content: bytes) -> Response:
    """`content` with an ETag made from it, or 304. For what has no version of its own."""
    return tagged(request, content, list_tag((), also=content.decode()))


def _etag_headers(etag: str) -> dict[str, Any]:
    return {"ETag": etag, "Cache-Control": "private, no-cache"}
