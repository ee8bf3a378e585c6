"""Each operation of openapi.json has an example that a running API accepts as it stands.

`make examples` records the responses anew: read the difference before you commit it.
"""

import os
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from app.api.http.readable_json import readable_json
from app.api.openapi.examples import FILE, examples, item_of, main_response
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.openapi_recording import Recording
from tests.api.openapi_stage import LAST, Stage
from tests.api.test_openapi import closed

KEEP = os.environ.get("GPULEASE_EXAMPLES") == "keep"
STREAM = "text/event-stream"


def operations(spec: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def test_every_operation_has_an_example(spec: dict[str, Any]) -> None:
    for _, _, operation in operations(spec):
        name = operation["operationId"]
        where = f"operations.{name} in app/api/openapi/examples.json"
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert "example" in content, f"{name} has no example of a request: add `request` to {where}"
        for content in main_response(operation).get("content", {}).values():
            assert response_examples(spec, content), f"{name} has no example of a response: run make examples"
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                advice = f"add a value of {parameter['name']} to `parameters` in app/api/openapi/examples.json"
                assert "example" in parameter, f"{name}: {advice}"


def test_no_example_is_left_of_an_operation_that_is_gone(spec: dict[str, Any]) -> None:
    names = {operation["operationId"] for _, _, operation in operations(spec)}
    assert set(examples()["operations"]) <= names, "remove these from app/api/openapi/examples.json"
    contents = [main_response(operation).get("content", {}) for _, _, operation in operations(spec)]
    schemas = {schema_name(content["application/json"]) for content in contents if "application/json" in content}
    assert set(examples()["responses"]) == schemas, "remove the others from app/api/openapi/examples.json"


def test_examples_of_responses_are_as_declared(spec: dict[str, Any]) -> None:
    for _, _, operation in operations(spec):
        content = main_response(operation).get("content", {}).get("application/json")
        if content is not None:
            check(spec, content["schema"], response_examples(spec, content)[0], operation["operationId"])
    for header in spec["components"]["headers"].values():
        jsonschema.validate(header["example"], header["schema"])


def schema_name(content: dict[str, Any]) -> str:
    return str(content["schema"]["$ref"]).rpartition("/")[2]


def response_examples(spec: dict[str, Any], content: dict[str, Any]) -> list[Any]:
    """The example of a text, that of the schema of JSON, or for a list whose items have one the recorded list."""
    if "example" in content:
        return [content["example"]]
    name = schema_name(content)
    schema = spec["components"]["schemas"][name]
    item = item_of(schema)
    if item is not None and "examples" in spec["components"]["schemas"][item]:
        return [examples()["responses"][name]]
    return list(schema.get("examples", ()))


def check(spec: dict[str, Any], schema: dict[str, Any], value: Any, name: str) -> None:
    """Fails when `value` is not as declared, or has fields that are not declared."""
    shut = closed(spec, schema_name({"schema": schema}))
    try:
        jsonschema.validate(value, shut, format_checker=jsonschema.FormatChecker())
    except jsonschema.ValidationError as error:
        pytest.fail(f"the response of {name} is not as declared ({error.message}): run make examples")


async def test_every_example_is_accepted_as_it_stands(
    spec: dict[str, Any], operator: Caller, alice: Caller, fleet: Fleet
) -> None:
    stage = Stage(operator, alice, fleet)
    await stage.furnish(examples()["parameters"])
    recording = Recording(examples()["parameters"], stage.ids)
    for method, path, operation in sorted(operations(spec), key=lambda one: one[2]["operationId"] in LAST):
        if STREAM in main_response(operation).get("content", {}):
            continue
        name = operation["operationId"]
        response = await stage.send(method, path, operation, examples()["operations"].get(name, {}))
        assert f"{response.status_code}" in operation["responses"], f"{name}: {response.text}"
        assert response.is_success, f"the example of {name} is refused: {response.text}"
        check_headers(spec, name, operation["responses"][str(response.status_code)], set(response.headers))
        if "application/json" in main_response(operation).get("content", {}):
            content = main_response(operation)["content"]["application/json"]
            check(spec, content["schema"], response.json(), name)
            recording.add(schema_name(content), response.json())
    if KEEP:
        FILE.write_text(readable_json(recording.merged(examples())) + "\n", encoding="utf-8")


def check_headers(spec: dict[str, Any], name: str, declared: dict[str, Any], present: set[str]) -> None:
    """Fails when a header that each response should have is missing, or one is there that is not declared."""
    shared = spec["components"]["headers"]
    own = {header: shared[one["$ref"].rpartition("/")[2]] for header, one in declared["headers"].items()}
    missing = {header for header, one in own.items() if one.get("required") and header.lower() not in present}
    assert not missing, f"{name} responds without {missing}"
    known = {header.removesuffix("Always").lower() for header in shared}
    undeclared = known & present - {header.lower() for header in own}
    assert not undeclared, f"{name} responds with {undeclared}, which openapi.json does not declare"
