"""Descriptions of fields, parameters and tags that the models do not contain, from descriptions.toml."""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from app.api.openapi.operations import operations


@cache
def texts() -> dict[str, Any]:
    """The file: tables `fields`, `schemas`, `parameters` and `tags`."""
    return tomllib.loads((files("app.api.openapi") / "descriptions.toml").read_text(encoding="utf-8"))


def tags() -> list[dict[str, str]]:
    """The document's tags, in the order of the reference."""
    return [{"name": name, "description": text} for name, text in texts()["tags"].items()]


def add_descriptions(made: dict[str, Any]) -> None:
    """Describes, in place, each field and parameter that has no description of its own."""
    for schema, name, field in fields(made):
        text = _of_field(schema, name)
        if text is not None:
            field.setdefault("description", text)
    for parameter in parameters(made):
        text = texts()["parameters"].get(parameter["name"])
        if text is not None:
            parameter.setdefault("description", text)


def fields(made: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Schema, name and definition of each field of the document."""
    for schema, definition in made["components"]["schemas"].items():
        for name, field in definition.get("properties", {}).items():
            yield schema, name, field


def parameters(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each parameter of each operation."""
    for operation in operations(made):
        yield from operation.get("parameters", ())


def _of_field(schema: str, name: str) -> str | None:
    text: str | None = texts()["schemas"].get(schema, {}).get(name) or texts()["fields"].get(name)
    return text
