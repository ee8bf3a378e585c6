"""The OpenAPI document: made from the code, and completed with what FastAPI does not know."""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from app.api.http.problems import Problem
from app.api.http.readable_json import readable_json
from app.api.http.routing import SecuredRoute, TokenRoute
from app.api.openapi.examples import add_examples
from app.api.openapi.open_enums import open_answers
from app.api.openapi.responses import complete_responses, components
from app.api.openapi.shortening import shorten
from app.api.openapi.texts import add_descriptions, parameters, tags
from app.api.schemas.event_stream import EventStreamMessage

_DESCRIPTION = """GPUs for a while: request them, use them, release them.

Errors are `application/problem+json`; programs decide by `code`. Enums in responses may grow. `cursor` leads from page to
page. Times are RFC 3339 in UTC. Money is USD as decimal strings. Creating calls take `Idempotency-Key`. GET responses have
an `ETag`."""

_SERVERS = [
    {"url": "/", "description": "The installation that serves this document."},
    {"url": "http://127.0.0.1:8000", "description": "A local stack (`make up`)."},
]
_SCHEMAS = "#/components/schemas/"


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document as JSON-able values."""
    made = get_openapi(
        title="gpulease",
        version="1",
        summary="GPU-as-a-Service",
        description=_DESCRIPTION,
        routes=app.routes,
        servers=[{**server} for server in _SERVERS],
        tags=tags(),
        contact={"name": "The operators of this installation"},
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    _add_schemas(made)
    _restrict_names(made["components"]["schemas"])
    made["components"] |= components()
    made["components"]["securitySchemes"] = {
        "apiKey": {"type": "http", "scheme": "bearer", "description": "`gpl_…`, made by `create_key`."},
        "oneTimeToken": {"type": "http", "scheme": "bearer", "description": "Given to a VM at its launch."},
        "agentToken": {"type": "http", "scheme": "bearer", "description": "Given to a VM's agent at its launch."},
    }
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            _complete(made, route)
    open_answers(made)
    _drop_titles(made)
    add_descriptions(made)
    _say_once(made)
    add_examples(made)
    _drop_unused_responses(made)
    shorten(made)
    made["components"]["schemas"] = dict(sorted(made["components"]["schemas"].items()))
    return made


def _add_schemas(made: dict[str, Any]) -> None:
    """Adds what responses consist of and FastAPI does not see."""
    schemas = made["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for model in (Problem, EventStreamMessage):
        schema = model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    event = {"contentMediaType": "application/json", "contentSchema": {"$ref": f"{_SCHEMAS}Event"}}
    schemas[EventStreamMessage.__name__]["properties"]["data"] |= event


def _restrict_names(node: Any) -> None:
    """Says of a map which names it may have.

    Pydantic writes `patternProperties`, which allows any other name, and which generators do not read.
    """
    if isinstance(node, list):
        for part in node:
            _restrict_names(part)
    if isinstance(node, dict):
        patterns = node.pop("patternProperties", None)
        if patterns is not None:
            (pattern, values), *_ = patterns.items()
            node |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
        for part in node.values():
            _restrict_names(part)


def _drop_titles(made: dict[str, Any]) -> None:
    """Titles made from names only say the name again, in every comment of a generated client."""
    pending = [*made["components"]["schemas"].values(), *(parameter["schema"] for parameter in parameters(made))]
    while pending:
        schema = pending.pop()
        schema.pop("title", None)
        parts = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
        parts += schema.get("properties", {}).values()
        pending += [part for part in parts if isinstance(part, dict)]


def _say_once(made: dict[str, Any]) -> None:
    """A parameter has its description once: FastAPI repeats it in the schema."""
    for parameter in parameters(made):
        parameter["schema"].pop("description", None)


def _drop_unused_responses(made: dict[str, Any]) -> None:
    """Drops shared responses and headers that no operation refers to."""
    shared = made["components"]
    used = _references(made["paths"])
    shared["responses"] = {
        name: response for name, response in shared["responses"].items() if f"responses/{name}" in used
    }
    used |= _references(shared["responses"])
    shared["headers"] = {name: header for name, header in shared["headers"].items() if f"headers/{name}" in used}


def _references(node: Any) -> set[str]:
    """The targets of all references below `node`, such as `responses/Problem404`."""
    if isinstance(node, list):
        return set[str]().union(*map(_references, node))
    if not isinstance(node, dict):
        return set()
    own = {str(node["$ref"]).removeprefix("#/components/")} if "$ref" in node else set[str]()
    return own.union(*map(_references, node.values()))


def _complete(made: dict[str, Any], route: APIRoute) -> None:
    for method in route.methods or ():
        operation = made["paths"][route.path_format][method.lower()]
        operation["summary"] = operation.get("description", "").partition("\n")[0].rstrip(".")
        complete_responses(made, route, method)
        operation["security"] = []
        if isinstance(route, TokenRoute):
            operation["security"] = [{route.security_scheme: []}]
        if isinstance(route, SecuredRoute):
            operation["security"] = [{"apiKey": []}]
            operation["x-role"] = str(route.required_role)
            more = operation.get("description", "").partition("\n")[2].strip()
            operation["description"] = f"{more}\n\nRole: `{route.required_role}`.".strip()


def text(app: FastAPI) -> str:
    """The document as it is committed."""
    return readable_json(json.loads(rendered(app))) + "\n"


def rendered(app: FastAPI) -> bytes:
    """The document as it is served: made at the first request, since it takes longer than the rest of a start."""
    if not hasattr(app.state, "openapi"):
        app.state.openapi = json.dumps(document(app), separators=(",", ":")).encode()
    made: bytes = app.state.openapi
    return made
