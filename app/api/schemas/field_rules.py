"""Rules between fields of a request body, as JSON Schema.

They use `if`, `then` and `else`, not `oneOf`: generators make one class for each branch of a `oneOf`.
"""

from collections.abc import Callable
from typing import Any

_WITH_OTHERS = {"additionalProperties": True}
"""Redocly takes a schema that does not say so for one without further fields."""


def exactly_one(first: str, *others: str) -> dict[str, Any]:
    """Exactly one of the fields has a value. For `json_schema_extra`."""
    rest = _has_value(others[0]) if len(others) == 1 else {**exactly_one(*others), **_WITH_OTHERS}
    return {"if": _has_value(first), "then": _absent(*others), "else": rest}


def exactly_one_of(first: str, second: str, flag: str) -> dict[str, Any]:
    """One of two fields has a value, or `flag` is true. For `json_schema_extra`."""
    other = {"if": _has_value(second), "then": _false(flag), "else": _true(flag)}
    alone = {"properties": {second: {"type": "null"}, flag: {"const": False}}, **_WITH_OTHERS}
    return {"if": _has_value(first), "then": alone, "else": other}


def at_most_one(first: str, second: str) -> dict[str, Any]:
    """At most one of two fields has a value. For `json_schema_extra`."""
    return {"if": _has_value(first), "then": _absent(second)}


def unless(name: str, rule: dict[str, Any], *, required: str) -> dict[str, Any]:
    """Without a value of `name`, `rule` applies and `required` has a value. For `json_schema_extra`."""
    return {
        "if": _has_value(name),
        "then": _WITH_OTHERS,
        "else": {"allOf": [_has_value(required), {**rule, **_WITH_OTHERS}]},
    }


def _has_value(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}, **_WITH_OTHERS}


def _absent(*names: str) -> dict[str, Any]:
    return {"properties": {name: {"type": "null"} for name in names}, **_WITH_OTHERS}


def _true(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"const": True}}, **_WITH_OTHERS}


def _false(name: str) -> dict[str, Any]:
    return {"properties": {name: {"const": False}}, **_WITH_OTHERS}


def never_null(*names: str) -> Callable[[dict[str, Any]], None]:
    """These optional fields may be absent, but not null. For `json_schema_extra`."""

    def change(schema: dict[str, Any]) -> None:
        for name in names:
            field = schema["properties"][name]
            (value,) = [choice for choice in field.pop("anyOf") if choice != {"type": "null"}]
            field.pop("default")
            schema["properties"][name] = {**value, **field}

    return change
