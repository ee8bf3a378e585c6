"""Every operation, parameter and field of openapi.json says what it is."""

from typing import Any

from app.api.openapi.texts import fields, parameters, texts
from app.api.schemas.hardware import GROWS

FILE = "app/api/openapi/descriptions.toml"
OF_EVERY_SCHEMA = {("items", "The items of this page."), ("data", "The details of the event.")}
"""The name of the schema says what these are."""


def kind_of(spec: dict[str, Any], field: dict[str, Any]) -> str:
    """The type of a field without its null: that of JSON, or the name of the schema of an object or enum."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        schema = spec["components"]["schemas"][name]
        return name if "properties" in schema or "enum" in schema else kind_of(spec, schema)
    parts = field.get("anyOf") or field.get("oneOf") or field.get("allOf")
    if parts:
        kinds = {kind_of(spec, part) for part in parts} - {"null"}
        return "|".join(sorted(kinds - {"string"} or kinds))
    if field.get("type") == "array":
        return f"list of {kind_of(spec, field['items'])}"
    kinds = {field["type"]} if isinstance(field.get("type"), str) else set(field.get("type", ())) - {"null"}
    return "|".join(sorted(kinds))


def test_every_field_and_parameter_has_a_description(spec: dict[str, Any]) -> None:
    bare = [f"{schema}.{name}" for schema, name, field in fields(spec) if not field.get("description")]
    assert not bare, f"describe these in their model, or in [schemas.<name>] or [fields] of {FILE}"
    bare = sorted({one["name"] for one in parameters(spec) if not one.get("description")})
    assert not bare, f"describe these parameters in their routes, or in [parameters] of {FILE}"


def test_equal_descriptions_describe_fields_of_one_kind(spec: dict[str, Any]) -> None:
    """A text that fits fields of different types says nothing of any of them: it belongs into [schemas.<name>]."""
    kinds: dict[str, set[str]] = {}
    for schema, name, field in fields(spec):
        if (name, field["description"]) not in OF_EVERY_SCHEMA:
            kinds.setdefault(field["description"], set()).add(kind_of(spec, field))
            assert field["description"] != GROWS, f"say also what {schema}.{name} is"
    assert {text: found for text, found in kinds.items() if len(found) > 1} == {}


def test_every_operation_has_a_summary_and_a_description(spec: dict[str, Any]) -> None:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            assert operation["summary"], f"{where}: the first line of the endpoint's docstring is the summary"
            assert operation["description"], f"{where}: give the endpoint a docstring"


def test_every_schema_and_response_has_a_description(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"].items()
    assert not [name for name, schema in schemas if not schema.get("description")], "give the model a docstring"
    for methods in spec["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                text = response.get("description", "shared")
                assert text not in {"", "The response.", "Successful Response"}, operation["operationId"]


def test_every_tag_is_declared_and_used(spec: dict[str, Any]) -> None:
    used = {tag for methods in spec["paths"].values() for operation in methods.values() for tag in operation["tags"]}
    declared = [tag["name"] for tag in spec["tags"]]
    assert sorted(used) == sorted(declared), f"[tags] of {FILE} must describe each tag"


def test_no_text_is_left_of_a_field_that_is_gone(spec: dict[str, Any]) -> None:
    present = {(schema, name) for schema, name, _ in fields(spec)}
    special = {(schema, name) for schema, names in texts()["schemas"].items() for name in names}
    assert not special - present, f"remove these from {FILE}"
    general = {name for schema, name in present if (schema, name) not in special}
    assert not set(texts()["fields"]) - general, f"remove these from [fields] of {FILE}"
    assert not set(texts()["parameters"]) - {one["name"] for one in parameters(spec)}, f"remove these from {FILE}"


def test_the_document_names_a_server(spec: dict[str, Any]) -> None:
    assert [server["url"] for server in spec["servers"]] == ["/", "http://127.0.0.1:8000"]
