"""Errors as bytes: application/problem+json (RFC 9457), one shape for every refusal."""

import json
from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from app.services.errors import ServiceError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "/docs/errors#"
"""A path of the API: the description of each error."""


class ProblemField(BaseModel):
    """One wrong field of the request."""

    pointer: str = Field(
        description="A JSON pointer as a URI fragment: `#/body/…`, `#/query/…`, `#/path/…` or `#/header/…`.",
        examples=["#/body/gpu/count"],
    )
    detail: str


class Problem(BaseModel):
    """Every error. `code` is contract; the list of codes may grow. Some codes add members (see docs/errors.md)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="A path of the API that describes the error.", examples=["/docs/errors#not_found"])
    title: str
    status: int
    detail: str = Field(description="What happened, for people. With field errors: the first one.")
    instance: str = Field(description="The path of the request.")
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
