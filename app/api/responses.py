"""Answers as bytes: the model is dumped once, and FastAPI neither validates nor encodes it again."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from app.services.preconditions import parse_tags

JSON = "application/json"


def answer(model: BaseModel | bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`model` (or JSON that is ready to go) with no ETag: for changes."""
    content = model if isinstance(model, bytes) else model.model_dump_json().encode()
    return Response(content, status, dict(headers or {}), JSON)


def not_modified(request: Request, etag: str) -> Response | None:
    """304 when the caller has this version already; ask before rendering."""
    known = parse_tags(request.headers.get("if-none-match"))
    return known_already(etag) if known is not None and (etag in known or "*" in known) else None


def known_already(etag: str) -> Response:
    """304."""
    return Response(status_code=304, headers=_etag_headers(etag))


def tagged(
    request: Request, model: BaseModel | bytes, etag: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`model` with its ETag, or 304."""
    same = not_modified(request, etag) if request.method in {"GET", "HEAD"} else None
    return same or answer(model, status, {**_etag_headers(etag), **(headers or {})})


def _etag_headers(etag: str) -> dict[str, Any]:
    return {"ETag": etag, "Cache-Control": "private, no-cache"}
