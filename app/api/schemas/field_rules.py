"""Rules between fields of a request body, as JSON Schema.

They use `if`, `then` and `else`, not `oneOf`: generators make one class for each branch of a `oneOf`.
"""

from collections.abc import Callable
from typing import Any

_WITH_OTHERS = {"additionalProperties": True}
"""Redocly takes a schema that does not say so for one without further fields."""


def exactly_one(first: str, second: str) -> dict[str, Any]:
    """Exactly one of two fields has a value. For `json_schema_extra`."""
    return {"if": _given(first), "then": _absent(second), "else": _given(second)}


def _given(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}, **_WITH_OTHERS}


def _absent(name: str) -> dict[str, Any]:
    return {"properties": {name: {"type": "null"}}, **_WITH_OTHERS}


def never_null(*names: str) -> Callable[[dict[str, Any]], None]:
    """These optional fields may be absent, but not null. For `json_schema_extra`."""

    def change(schema: dict[str, Any]) -> None:
        for name in names:
            field = schema["properties"][name]
            (value,) = [choice for choice in field.pop("anyOf") if choice != {"type": "null"}]
            field.pop("default")
            schema["properties"][name] = {**value, **field}

    return change
