"""Errors as bytes: application/problem+json (RFC 9457), one shape for every refusal."""

import json
from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from app.services.errors import ServiceError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:gpulease:error:"


class ProblemField(BaseModel):
    """One wrong field of the request."""

    pointer: str = Field(description="JSON pointer into the body, or `#/query/…`, `#/path/…`, `#/header/…`.")
    detail: str


class Problem(BaseModel):
    """Every error. `code` is contract; the list of codes may grow. Some codes add members (see docs/errors.md)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:gpulease:error:not_found"])
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path that was asked for.")
    code: str
    retryable: bool = Field(description="Whether the same request may succeed later.")
    errors: list[ProblemField]
    request_id: str


def problem(error: ServiceError, *, instance: str, request_id: str) -> Response:
    """The answer to a refused request."""
    content: dict[str, Any] = {
        **error.extra,
        "type": TYPE_PREFIX + error.code,
        "title": error.title(),
        "status": error.status,
        "detail": error.detail,
        "instance": instance,
        "code": error.code,
        "retryable": error.retryable,
        "errors": [{"pointer": field.pointer, "detail": field.detail} for field in error.errors],
        "request_id": request_id,
    }
    # ASCII escapes: a pointer may hold a lone surrogate that the caller sent
    return Response(json.dumps(content).encode("ascii"), error.status, error.headers, MEDIA_TYPE)


def phrase(status: int) -> str:
    """The standard words for a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
