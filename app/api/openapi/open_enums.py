"""Enums in answers may grow: the description says "one of these, or another text that a later version knows".

A generated client that takes an enum for complete fails on the first new value. Enums in requests stay closed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from app.api.openapi.operations import operations

_PLACE = "#/components/schemas/"
_ANY_TEXT = {"type": "string"}


def open_answers(document: dict[str, Any]) -> None:
    """Changes the schemas that answers are made of, in place."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    enums = {f"{_PLACE}{name}" for name, schema in schemas.items() if "enum" in schema}
    for name in answered(document):
        if f"{_PLACE}{name}" not in enums:
            schemas[name] = _opened(schemas[name], enums)


def answered(document: dict[str, Any]) -> set[str]:
    """Names of all schemas that an answer can hold, at whatever depth."""
    names = set(_references([operation["responses"] for operation in operations(document)]))
    new = names | set(_references(document["components"].get("responses", {})))
    while new:
        names |= new
        new = set(_references([document["components"]["schemas"][name] for name in new])) - names
    return names


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PLACE):
            yield reference.removeprefix(_PLACE)
        for part in node.values():
            yield from _references(part)
    elif isinstance(node, list):
        for part in node:
            yield from _references(part)


def _opened(node: Any, enums: set[str]) -> Any:
    if isinstance(node, list):
        return [_opened(part, enums) for part in node]
    if not isinstance(node, dict):
        return node
    made = {key: _opened(part, enums) for key, part in node.items()}
    if made.get("$ref") in enums:
        reference = made.pop("$ref")
        return {"anyOf": [{"$ref": reference}, {**_ANY_TEXT}], **made}
    if "anyOf" in made:
        made["anyOf"] = list(_flat(made["anyOf"]))
    return made


def _flat(choices: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for choice in choices:
        if choice.keys() == {"anyOf"}:
            yield from choice["anyOf"]
        else:
            yield choice
