"""Compares calls of the fake API with openapi.json, so that the fake answers as the real API does.

A fake document may leave fields out. Every field that it has must exist in the contract, with a value of its type.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.described import document

_ROOT = Path(__file__).parents[2]
_LEFT_OUT = frozenset({"required", "pattern", "if", "then", "else"})
_PATH_PARAMETER = re.compile(r"\{[^}]+\}")


@cache
def _operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    """Method, pattern of the path and description, the paths without parameters first."""
    paths = sorted(document()["paths"].items(), key=lambda item: item[0].count("{"))
    return [
        (method.upper(), re.compile(_PATH_PARAMETER.sub("[^/]+", path)), operation)
        for path, operations in paths
        for method, operation in operations.items()
    ]


def operation(method: str, path: str) -> dict[str, Any] | None:
    """The operation's description. None if the API has no such operation."""
    for known, pattern, described in _operations():
        if known == method and pattern.fullmatch(path):
            return described
    return None


def success_status(method: str, path: str) -> int:
    """The status of the operation's success; 200 for an unknown operation."""
    described = operation(method, path) or {}
    return min((int(status) for status in described.get("responses", ()) if status.startswith("2")), default=200)


def request_faults(method: str, path: str, query: Mapping[str, object], body: object) -> Iterator[str]:
    """What the real API would reject: the operation, a query parameter, a field of the body."""
    described = operation(method, path)
    if described is None:
        yield f"{method} {path} does not exist"
        return
    known = {parameter["name"] for parameter in described.get("parameters", ()) if parameter["in"] == "query"}
    yield from (f"{method} {path} has no parameter {name}" for name in query if name not in known)
    if body is not None:
        yield from _faults(described.get("requestBody", {}), body, f"body of {method} {path}")


def response_faults(method: str, path: str, status: int, body: object) -> Iterator[str]:
    """Where a response differs from what the real API sends."""
    described = operation(method, path) or {}
    response = described.get("responses", {}).get(str(status))
    if response is None:
        if status < 400:  # errors of all operations have one form
            yield f"{method} {path} does not return {status}"
        return
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    yield from _faults(response, body, f"{status} of {method} {path}")


def _faults(content: Mapping[str, Any], body: object, where: str) -> Iterator[str]:
    schemas = [media["schema"] for media in content.get("content", {}).values()]
    if not schemas:
        yield f"the {where} has no JSON"
        return
    validator = Draft202012Validator({**_partial(schemas[0]), "components": _components()})
    for error in validator.iter_errors(body):
        deepest = max([error, *(error.context or ())], key=lambda found: len(found.absolute_path))
        yield f"{where}, {deepest.json_path}: {deepest.message[:200]}"


@cache
def _components() -> Any:
    return _partial({"schemas": document()["components"]["schemas"]})


def _partial(schema: Any) -> Any:
    """The schema without required fields and formats, and without fields that it does not describe."""
    if isinstance(schema, list):
        return [_partial(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _partial(part) for name, part in schema.items() if name not in _LEFT_OUT}
    if "oneOf" in kept:  # variants that differ in required fields are no longer exclusive
        kept["anyOf"] = kept.pop("oneOf") + kept.pop("anyOf", [])
    if isinstance(kept.get("properties"), dict) and kept.get("type") == "object":
        kept.setdefault("additionalProperties", False)
    return kept
