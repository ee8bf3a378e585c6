"""An example of each request, and of each schema of a response, from examples.json.

`parameters` contains a value for each path parameter. `operations` contains `request` (a body), `query` and a `response`
that is no JSON, by operation id. `responses` contains JSON by the name of its schema. A test sends each request to a
running API; `make examples` records the responses.
"""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from app.api.openapi.operations import operations

FILE = Path(str(files("app.api.openapi") / "examples.json"))


@cache
def examples() -> dict[str, Any]:
    """The file."""
    by_operation: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return by_operation


def add_examples(made: dict[str, Any]) -> None:
    """Adds the examples to operations and schemas, in place."""
    responses, schemas = examples()["responses"], made["components"]["schemas"]
    for name, example in responses.items():
        if item_of(schemas[name]) not in responses:
            schemas[name]["examples"] = [example]
    for operation in operations(made):
        _add(operation, examples()["operations"].get(operation["operationId"], {}))


def item_of(schema: dict[str, Any]) -> str | None:
    """The schema of a list's items. A list needs no example where its items have one."""
    items = schema.get("properties", {}).get("items", {}).get("items", {})
    return str(items["$ref"]).rpartition("/")[2] if "$ref" in items else None


def _add(operation: dict[str, Any], example: dict[str, Any]) -> None:
    values = {**examples()["parameters"], **example.get("query", {})}
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in values and (parameter["in"] == "path" or parameter["name"] in example.get("query", {})):
            parameter["example"] = values[parameter["name"]]
    if "request" in example:
        for content in operation["requestBody"]["content"].values():
            content["example"] = example["request"]
    if "response" in example:
        for content in main_response(operation).get("content", {}).values():
            if isinstance(example["response"], str) or content["schema"].get("type") != "string":
                content["example"] = example["response"]


def main_response(operation: dict[str, Any]) -> dict[str, Any]:
    """The response of a call that succeeds."""
    return next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
