"""Which answer each exception gets."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Route

from app.api.http.auth import REQUEST_ID
from app.api.http.field_messages import field_message
from app.api.http.problems import phrase, problem
from app.services.context import DatabaseUnavailable
from app.services.errors import (
    BadHeader,
    BadHttpRequest,
    BodyTooLarge,
    DatabaseDown,
    FieldError,
    InvalidRequest,
    MalformedBody,
    MethodNotAllowed,
    ResourceNotFound,
    ServiceError,
    UnsupportedMediaType,
)

_LONGEST_DETAIL = 300
_MOST_FIELDS = 50


def add_handlers(app: FastAPI) -> None:
    """Unhandled exceptions are the outermost middleware's business."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(DatabaseUnavailable, _database_unavailable)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def respond(request: Request, error: ServiceError) -> Response:
    """The answer to a refused request."""
    return problem(error, instance=request.scope["path"], request_id=request.scope[REQUEST_ID])


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return respond(request, error)


async def _database_unavailable(request: Request, _error: Exception) -> Response:
    return respond(request, DatabaseDown())


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    broken = next((fault for fault in faults if fault["type"] == "json_invalid"), None)
    if broken is not None:
        return respond(request, MalformedBody(_json_error(broken, error.body)))
    if isinstance(error.body, bytes):
        return respond(request, UnsupportedMediaType())
    headers = [fault for fault in faults if fault["loc"][0] == "header"]
    if headers:
        return respond(request, BadHeader(errors=field_errors(headers)))
    return respond(request, InvalidRequest(errors=field_errors(faults)))


async def _http(request: Request, error: Exception) -> Response:
    """What Starlette and FastAPI refuse by themselves."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 400:
        return respond(request, MalformedBody())
    if error.status_code == 413:
        return respond(request, BodyTooLarge(error.detail))
    if error.status_code == 405:
        return respond(request, MethodNotAllowed(headers={"Allow": _methods(request)}))
    if error.status_code == 404:
        return respond(request, ResourceNotFound())
    return respond(request, BadHttpRequest(phrase(error.status_code), headers=headers))


def _methods(request: Request) -> str:
    """Those of all routes on this path; Starlette names the first route's alone. A fixed path wins over a pattern."""
    path = request.scope["path"]
    routes = [route for route in request.app.routes if isinstance(route, Route) and route.path_regex.match(path)]
    fixed = [route for route in routes if route.path == path and isinstance(route, APIRoute)]
    methods = {method for route in fixed or routes for method in route.methods or ()}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _json_error(broken: Any, text: Any) -> str:
    """Line and column of the error, both counted from 1. `text`: the whole body."""
    position = broken["loc"][-1]
    reason = str(broken.get("ctx", {}).get("error", "")).lower()
    if not isinstance(position, int) or not isinstance(text, str):
        return MalformedBody.title()
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    return f"Line {line}, column {column} is not valid JSON: {reason}."


def field_errors(faults: Iterable[Any]) -> list[FieldError]:
    """Pydantic's findings, without what the caller sent (it may be a secret)."""
    fields = [FieldError(_pointer(fault["loc"]), field_message(fault)) for fault in faults]
    return list(dict.fromkeys(fields))[:_MOST_FIELDS]


def _pointer(location: tuple[int | str, ...]) -> str:
    """`#/body/gpu/count` for a field of the body, `#/body` for the body itself, `#/query/limit` and so on."""
    parts = location[:-1] if location[-1] == "[key]" else location
    return "#/" + "/".join(_escape(str(part)) for part in parts)


def _escape(part: str) -> str:
    return part[:_LONGEST_DETAIL].replace("~", "~0").replace("/", "~1")
