"""Makes the document shorter without changing what it says."""

from collections import Counter
from typing import Any

from app.api.openapi.operations import operations
from app.api.openapi.texts import parameters

_PARAMETERS = "#/components/parameters/"
_NULL = {"type": "null"}
_ABOUT = ("description", "default", "examples", "example")
"""Members that say something of the whole, and not of what is no null."""


def shorten(document: dict[str, Any]) -> None:
    """Changes the document in place."""
    _join_null(document)
    for parameter in parameters(document):
        if parameter.get("required") is False:
            del parameter["required"]
    document["components"]["parameters"] = dict(sorted(_share_parameters(document).items()))


def unfolded(document: dict[str, Any]) -> dict[str, Any]:
    """The document as it was before `shorten`, for programs that look at each parameter and each type."""
    made: dict[str, Any] = _split_null(document)
    shared = made["components"].pop("parameters")
    for operation in operations(made):
        for place, each in enumerate(operation.get("parameters", ())):
            if "$ref" in each:
                operation["parameters"][place] = shared[each["$ref"].removeprefix(_PARAMETERS)]
    return made


def _split_null(node: Any) -> Any:
    if isinstance(node, list):
        return [_split_null(part) for part in node]
    if not isinstance(node, dict):
        return node
    made = {name: _split_null(part) for name, part in node.items()}
    match made.get("type"):
        case [kind, "null"]:
            about = {name: made.pop(name) for name in _ABOUT if name in made}
            return {"anyOf": [{**made, "type": kind}, {**_NULL}], **about}
    return made


def _join_null(node: Any) -> None:
    """`anyOf` of a plain type and null is one schema with two types (JSON Schema 2020-12, 6.1.1)."""
    if isinstance(node, list):
        for part in node:
            _join_null(part)
    if isinstance(node, dict):
        for part in node.values():
            _join_null(part)
        match node.get("anyOf"):
            case [{"type": str(kind)} as plain, null] if null == _NULL and not plain.keys() & {"enum", "const", *node}:
                rest = {key: value for key, value in node.items() if key != "anyOf"}
                node.clear()
                node.update({**plain, "type": [kind, "null"], **rest})


def _share_parameters(document: dict[str, Any]) -> dict[str, Any]:
    """Puts a reference in the place of each parameter that several operations have. Returns these parameters by name."""
    every = {str(each): each for each in parameters(document)}
    uses = Counter(map(str, parameters(document)))
    names: dict[str, str] = {}
    # whatever the order of the operations
    for key in sorted((key for key in every if uses[key] > 1), key=lambda key: (-uses[key], key)):
        name = every[key]["name"]
        count = 1 + sum(every[other]["name"] == name for other in names)
        names[key] = name if count == 1 else f"{name}_{count}"
    for operation in operations(document):
        for place, parameter in enumerate(operation.get("parameters", ())):
            if str(parameter) in names:
                operation["parameters"][place] = {"$ref": f"{_PARAMETERS}{names[str(parameter)]}"}
    return {name: every[key] for key, name in names.items()}
