"""The OpenAPI document, made from the code and completed with what FastAPI cannot know: roles, refusals, security."""

import json
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from app.api.http import docs_page, errors_page
from app.api.http.etags import if_match
from app.api.http.open_enums import open_answers
from app.api.http.problems import MEDIA_TYPE, TYPE_PREFIX, Problem
from app.api.http.routing import OneTimeRoute, SecuredRoute
from app.services.errors import ServiceError, every_error

router = APIRouter(include_in_schema=False)

_DESCRIPTION = """GPUs for a while: ask for them, use them, give them back.

Errors are `application/problem+json`; `code` is contract. Enums in answers may grow. Lists are paged by `cursor`. Times are
RFC 3339 in UTC, money is USD as decimal strings. Creating calls take `Idempotency-Key`; GET answers carry an `ETag`."""

_EVERYWHERE = (500, 503)
_SECURED = (401, 403, 429)
_ONE_TIME = (401, 422, 429)
_REFERENCE = {"$ref": "#/components/schemas/Problem"}


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document as JSON-able values."""
    made = get_openapi(
        title="gpulease", version="1", summary="GPU-as-a-Service", description=_DESCRIPTION, routes=app.routes
    )
    schemas = made["components"]["schemas"]
    for gone in ("HTTPValidationError", "ValidationError"):
        schemas.pop(gone, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"), Problem=problem)
    made["components"]["responses"] = {_name(status): _response(status) for status in _statuses()}
    made["components"]["securitySchemes"] = {
        "apiKey": {"type": "http", "scheme": "bearer", "description": "`gpl_…`, made by `create_key`."},
        "oneTimeToken": {"type": "http", "scheme": "bearer", "description": "Given to a VM at its launch."},
    }
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            _complete(made["paths"][route.path_format], route)
    open_answers(made)
    _drop_titles(made)
    made["components"]["schemas"] = dict(sorted(schemas.items()))
    return made


def _drop_titles(made: dict[str, Any]) -> None:
    """Titles made from names only say the name again, in every comment of a generated client."""
    operations = [one for methods in made["paths"].values() for one in methods.values()]
    pending = [*made["components"]["schemas"].values()]
    pending += [parameter["schema"] for one in operations for parameter in one.get("parameters", ())]
    while pending:
        schema = pending.pop()
        schema.pop("title", None)
        parts = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
        parts += [*schema.get("properties", {}).values(), *schema.get("patternProperties", {}).values()]
        pending += [part for part in parts if isinstance(part, dict)]


def _complete(path: dict[str, Any], route: APIRoute) -> None:
    for method in route.methods or ():
        operation = path[method.lower()]
        operation["summary"] = operation["description"].partition("\n")[0].rstrip(".")
        operation["responses"].pop("422", None)
        for status in (*_refusals(route, method), *_purged(operation)):
            operation["responses"].setdefault(str(status), {"$ref": f"#/components/responses/{_name(status)}"})
        if isinstance(route, OneTimeRoute):
            operation["security"] = [{"oneTimeToken": []}]
        if isinstance(route, SecuredRoute):
            operation["security"] = [{"apiKey": []}]
            if method == "GET":
                operation["responses"]["304"] = {"description": "`If-None-Match` names the present ETag."}
            operation["x-role"] = str(route.required_role)
            operation["description"] = f"{operation.get('description', '')}\n\nRole: `{route.required_role}`.".strip()


def _refusals(route: APIRoute, method: str) -> list[int]:
    """Statuses with which this operation may refuse."""
    found = set(_EVERYWHERE)
    if isinstance(route, SecuredRoute):
        found.update((*_SECURED, 422))
    if isinstance(route, OneTimeRoute):
        found.update(_ONE_TIME)
    if route.dependant.path_params:
        found.add(404)
    if route.body_field is not None:
        found.update((400, 413, 415))
    if _takes_headers(route.dependant):
        found.add(400)
    if method in {"POST", "PATCH"} and not isinstance(route, OneTimeRoute):
        found.add(409)
    if any(dependency.call is if_match for dependency in route.dependant.dependencies):
        found.add(412)
    return sorted(found)


def _takes_headers(dependant: Dependant) -> bool:
    return bool(dependant.header_params) or any(map(_takes_headers, dependant.dependencies))


def _purged(operation: dict[str, Any]) -> list[int]:
    """What begins after an event may find that the following ones are no longer kept."""
    return [410] if "after" in {one["name"] for one in operation.get("parameters", ())} else []


def _statuses() -> list[int]:
    return sorted({error.status for error in every_error()})


def _name(status: int) -> str:
    return f"Problem{status}"


def _response(status: int) -> dict[str, Any]:
    errors = [error for error in every_error() if error.status == status]
    return {
        "description": " ".join(f"`{error.code}`: {error.title()}." for error in errors),
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


def text(app: FastAPI) -> str:
    """The document as it is committed."""
    return json.dumps(document(app), indent=2, ensure_ascii=False) + "\n"


def rendered(app: FastAPI) -> bytes:
    """The document as it is served: made at the first request, since it takes longer than the rest of a start."""
    if not hasattr(app.state, "openapi"):
        app.state.openapi = json.dumps(document(app), separators=(",", ":")).encode()
    made: bytes = app.state.openapi
    return made


@router.get("/openapi.json")
async def get_openapi_document(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(rendered(request.app), media_type="application/json")


@router.get("/docs/errors")
async def get_error_reference() -> Response:
    """What each error code means."""
    return Response(
        errors_page.errors_page(), media_type="text/html", headers={"Content-Security-Policy": errors_page.POLICY}
    )


@router.get("/docs")
async def get_docs(request: Request) -> Response:
    """The same for people."""
    page = docs_page.page(json.loads(rendered(request.app)))
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": docs_page.POLICY})
