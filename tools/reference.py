"""The reference of the documentation site: HTML without scripts, made from the OpenAPI document.

Ids are inside folded elements: a browser that follows a link to an id unfolds its element.
"""

from collections.abc import Iterator
from html import escape
from typing import Any


def sections(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Title and HTML of each part: one for each tag, the schemas last."""
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in _operations(spec)):
        found = (one for one in _operations(spec) if one[2]["tags"][0] == tag)
        yield tag, "".join(_operation(method, path, operation) for method, path, operation in found)
    yield "Schemas", "".join(_schema(name, schema) for name, schema in spec["components"]["schemas"].items())


def _operations(spec: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    name = escape(operation["operationId"])
    rows = "".join(
        _row(one["name"], one["in"], one["schema"], one.get("description")) for one in _parameters(operation)
    )
    answers = "".join(
        f"<tr><td><code>{status}</code></td><td>{_answer(one)}</td></tr>"
        for status, one in sorted(operation["responses"].items())
    )
    return (
        f'<details><summary><b class="method">{method}</b> <code>{escape(path)}</code> '
        f"{escape(operation['summary'])}</summary>"
        f'<div id="{name}"><p>{_prose(operation.get("description", ""))}</p>'
        f"{_table('Parameters', rows)}{_request(operation)}{_table('Responses', answers)}</div></details>"
    )


def _parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = operation.get("parameters", [])
    return found


def _request(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return "".join(f"<p>Body: {_type(one['schema'])}</p>" for one in content.values())


def _answer(answer: dict[str, Any]) -> str:
    if "$ref" in answer:
        return _type({"$ref": "#/components/schemas/Problem"})
    schemas = [one["schema"] for one in answer.get("content", {}).values() if "schema" in one]
    return " ".join(_type(schema) for schema in schemas) or _prose(answer["description"])


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = "".join(
        _row(field, "" if field in required else "optional", one, one.get("description"))
        for field, one in schema.get("properties", {}).items()
    )
    about = _prose(schema.get("description", ""))
    values = "" if rows else f"<p>{_type(schema)}</p>"
    return (
        f"<details><summary><code>{escape(name)}</code></summary>"
        f'<div id="{escape(name)}"><p>{about}</p>{values}{_table("Fields", rows)}</div></details>'
    )


def _row(name: str, note: str, schema: dict[str, Any], about: str | None) -> str:
    cells = (f"<code>{escape(name)}</code>", escape(note), _type(schema), _prose(about or ""))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(" ".join(str(schema[key]) for key in ("type", "format") if key in schema)) or "any"


def _table(title: str, rows: str) -> str:
    return f"<h4>{title}</h4><table>{rows}</table>" if rows else ""


def _prose(text: str) -> str:
    """Text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
