"""The responses of the OpenAPI document: refusals, headers, and what a success means."""

from typing import Any

from fastapi.routing import APIRoute

from app.api.http.etags import if_match
from app.api.http.problems import MEDIA_TYPE, TYPE_PREFIX
from app.api.http.routing import SecuredRoute, TokenRoute
from app.services.errors import ServiceError, every_error

_EVERYWHERE = (500, 503)
_SECURED = (401, 403, 422, 429)
_ONE_TIME = (401, 422, 429)
_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_DEFAULT = "Successful Response"
"""FastAPI's description of a response that has none."""

_HEADERS: dict[str, tuple[str, str]] = {
    "X-Request-Id": (
        "The id of this request in logs, events and the audit trail. The caller's `X-Request-Id` is logged beside it.",
        "req_01jz0000000000000000000000",
    ),
    "RateLimit": (
        "The requests that remain in this window (`r`), and the seconds until the next window (`t`).",
        '"requests";r=599;t=42',
    ),
    "RateLimit-Policy": ("The limit: `q` requests in a window of `w` seconds.", '"requests";q=600;w=60'),
    "Retry-After": ("Seconds to wait before the next request.", "17"),
    "WWW-Authenticate": ("The accepted authentication scheme.", "Bearer"),
    "ETag": ("The version, for `If-None-Match` and `If-Match`.", '"lease_01jz0000000000000000000000.3"'),
    "Location": ("The path of the created resource.", "/v1/leases/lease_01jz0000000000000000000000"),
    "Idempotency-Replayed": (
        "`true`: this response repeats the response to an earlier request with the same `Idempotency-Key`.",
        "true",
    ),
}
_NOT_MODIFIED = "NotModified"
_LIMITED = ("RateLimit", "RateLimit-Policy")
_SUCCESS = {"200": "", "201": "Created. ", "202": "Accepted. ", "204": "Done."}


def components() -> dict[str, Any]:
    """The shared responses and headers, by the names that operations refer to."""
    headers = {name: _header(text, example) for name, (text, example) in _HEADERS.items()}
    required = {f"{name}Always": {**headers[name], "required": True} for name in ("X-Request-Id", "ETag", "Location")}
    statuses = sorted({error.status for error in every_error()})
    return {
        "headers": headers | required,
        "responses": {
            _NOT_MODIFIED: _not_modified(),
            **{_name(status): _problem_response(status) for status in statuses},
        },
    }


def complete_responses(made: dict[str, Any], route: APIRoute, method: str) -> None:
    """Completes the responses of one operation, in place: refusals, descriptions and headers."""
    operation = made["paths"][route.path_format][method.lower()]
    responses = operation["responses"]
    responses.pop("422", None)
    for status, response in responses.items():
        if response.get("description") == _DEFAULT:
            response["description"] = _describe(made, status, response)
    has_etag = isinstance(route, SecuredRoute) and method == "GET" and not _is_stream(operation)
    for status, response in responses.items():
        names = _header_names(made, route, method, status, has_etag=has_etag)
        response["headers"] = {name: _refer(name, always=always) for name, always in names.items()}
    if has_etag:
        responses["304"] = {"$ref": f"#/components/responses/{_NOT_MODIFIED}"}
    for status in (*_refusals(route, method), *_bad_header(operation), *_purged(operation), *_unformed(operation)):
        responses.setdefault(str(status), {"$ref": f"#/components/responses/{_name(status)}"})


def _header(text: str, example: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": "string"}, "example": example}


def _refer(name: str, *, always: bool) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}{'Always' if always else ''}"}


def _header_names(
    made: dict[str, Any], route: APIRoute, method: str, status: str, *, has_etag: bool
) -> dict[str, bool]:
    """The headers of a response by name, and whether each response has them."""
    names = {"X-Request-Id": True}
    if isinstance(route, SecuredRoute):
        names |= dict.fromkeys(_LIMITED, False)
    operation = made["paths"][route.path_format][method.lower()]
    if has_etag:
        names["ETag"] = True
    elif _takes(operation, "If-Match"):
        names["ETag"] = False
    if status == "201" and _is_readable(made, route.path_format):
        names["Location"] = True
    if _takes(operation, "Idempotency-Key"):
        names["Idempotency-Replayed"] = False
    return names


def _takes(operation: dict[str, Any], name: str) -> bool:
    return any(parameter["name"] == name for parameter in operation.get("parameters", ()))


def _is_readable(made: dict[str, Any], path: str) -> bool:
    """Whether what a POST to `path` creates has a path of its own that can be read."""
    return any("get" in methods for other, methods in made["paths"].items() if other.rpartition("/{")[0] == path)


def _is_stream(operation: dict[str, Any]) -> bool:
    """Whether the response is written while it is sent, so that it has no ETag."""
    content = operation["responses"].get("200", {}).get("content", {})
    return bool(content.keys() & {"text/event-stream", "text/csv"}) and "application/json" not in content


def _describe(made: dict[str, Any], status: str, response: dict[str, Any]) -> str:
    """What the status means, and the first sentence about the body."""
    for content in response.get("content", {}).values():
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        about = made["components"]["schemas"].get(name, {}).get("description", "")
        return f"{_SUCCESS.get(status, '')}{_first_sentence(about)}".strip() or "The response."
    return _SUCCESS.get(status, "The response.").strip()


def _first_sentence(text: str) -> str:
    return " ".join(text.partition(". ")[0].partition("\n\n")[0].split()).rstrip(".") + "." if text else ""


def _refusals(route: APIRoute, method: str) -> list[int]:
    """Statuses with which this operation may refuse."""
    statuses = set(_EVERYWHERE)
    if isinstance(route, SecuredRoute):
        statuses.update(_SECURED)
    elif isinstance(route, TokenRoute):
        statuses.update(_ONE_TIME)
    else:
        statuses.add(413)
    if route.dependant.path_params or (isinstance(route, TokenRoute) and method == "GET"):
        statuses.add(404)
    if route.body_field is not None:
        statuses.update((400, 413, 415))
    if method in {"POST", "PATCH"} and not isinstance(route, TokenRoute):
        statuses.add(409)
    if any(dependency.call is if_match for dependency in route.dependant.dependencies):
        statuses.add(412)
    return sorted(statuses)


def _bad_header(operation: dict[str, Any]) -> list[int]:
    """A header that the operation reads may be malformed."""
    return [400] if any(parameter["in"] == "header" for parameter in operation.get("parameters", ())) else []


def _unformed(operation: dict[str, Any]) -> list[int]:
    """Hosts of a group have other forms than JSON, which need a group that is formed."""
    return [409] if _takes(operation, "format") else []


def _purged(operation: dict[str, Any]) -> list[int]:
    """What begins after an event may find that the following ones are no longer kept."""
    return [410] if _takes(operation, "after") else []


def _name(status: int) -> str:
    return f"Problem{status}"


def _not_modified() -> dict[str, Any]:
    names = {"X-Request-Id": True, **dict.fromkeys(_LIMITED, False), "ETag": True}
    return {
        "description": "`If-None-Match` names the present ETag.",
        "headers": {name: _refer(name, always=always) for name, always in names.items()},
    }


def _problem_response(status: int) -> dict[str, Any]:
    errors = [error for error in every_error() if error.status == status]
    headers = {"X-Request-Id": _refer("X-Request-Id", always=True)}
    extra = {401: ("WWW-Authenticate",), 429: ("Retry-After", *_LIMITED), 503: ("Retry-After",)}
    headers |= {name: _refer(name, always=False) for name in extra.get(status, ())}
    return {
        "description": " ".join(f"`{error.code}`: {error.title()}." for error in errors),
        "headers": headers,
        "content": {MEDIA_TYPE: {"schema": {**_REFERENCE}, "examples": {e.code: _example(e) for e in errors}}},
    }


def _example(error: type[ServiceError]) -> dict[str, Any]:
    return {
        "summary": error.title(),
        "value": {
            "type": TYPE_PREFIX + error.code,
            "title": error.title(),
            "status": error.status,
            "detail": error.title(),
            "instance": "/v1/me",
            "code": error.code,
            "retryable": error.retryable,
            "errors": [],
            "request_id": "req_01jz0000000000000000000000",
        },
    }
