"""Google's own description of Compute Engine v1, and a judge that holds calls and answers against it."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

ROOT = "/compute/v1/"


@cache
def document() -> Mapping[str, Any]:
    spec = find_spec("googleapiclient")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "discovery_cache" / "documents" / "compute.v1.json"
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def methods() -> Mapping[str, Mapping[str, Any]]:
    """By the API's own name: `instances.insert`."""
    resources = document()["resources"].items()
    return {f"{name}.{one}": method for name, held in resources for one, method in held["methods"].items()}


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], str]]:
    """(HTTP method, path, name), those with the fewest placeholders first."""
    ordered = sorted(methods().items(), key=lambda item: item[1]["path"].count("{"))
    return [
        (method["httpMethod"], re.compile(re.sub(r"\{\+?(\w+)\}", r"(?P<\1>[^/]+)", method["path"])), name)
        for name, method in ordered
    ]


def method_of(verb: str, path: str) -> tuple[str, dict[str, str]]:
    """The method that a call means, and the parameters in its path."""
    for http, pattern, name in _patterns():
        match = pattern.fullmatch(path.removeprefix(ROOT))
        if http == verb and match:
            return name, match.groupdict()
    raise AssertionError(f"{verb} {path} is no method of Compute Engine")


def judge(verb: str, url: str, body: Any, answer: Any, status: int) -> str:
    """Raises AssertionError for anything that Google's API does not know; answers the method's name."""
    parts = urlsplit(url)
    name, in_path = method_of(verb, parts.path)
    method = methods()[name]
    for key, value in {**in_path, **dict(parse_qsl(parts.query))}.items():
        known = {**document()["parameters"], **method["parameters"]}
        assert key in known, f"{name} knows no parameter {key}"
        pattern = known[key].get("pattern")
        assert pattern is None or re.fullmatch(pattern, value), f"{name}: {key}={value} does not fit {pattern}"
    if "request" in method:
        _check(body, method["request"], f"{name} request")
    if status == 200:
        _check(answer, method["response"], f"{name} answer")
    else:
        assert set(answer) == {"error"}
        assert answer["error"]["code"] == status
    return name


def faults(value: Any, schema: str) -> Iterator[str]:
    """What of a body does not fit one of Google's schemas."""
    yield from _faults(value, {"$ref": schema}, schema)


def _check(value: Any, schema: Mapping[str, Any], path: str) -> None:
    for found in _faults(value, schema, path):
        raise AssertionError(found)


def _faults(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = document()["schemas"][schema["$ref"]]
    kind = schema.get("type")
    if kind == "object":
        yield from _faults_of_object(value, schema, path)
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{path} should be a list"
            return
        for n, item in enumerate(value):
            yield from _faults(item, schema["items"], f"{path}[{n}]")
    else:
        yield from _faults_of_value(value, schema, path)


def _faults_of_object(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} should be an object"
        return
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        if key not in properties and others is None:
            yield f"{path}.{key} is unknown"
        else:
            yield from _faults(item, properties.get(key, others), f"{path}.{key}")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "any": (object,),
}


def _faults_of_value(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(value, _TYPES[schema["type"]]):
        yield f"{path} should be {schema['type']}, not {value!r}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} is not one of Google's words"
    elif schema.get("format") in {"uint64", "int64"} and not str(value).isdecimal():
        yield f"{path}: {value} is no number"


def listen(client: Any, seen: set[str]) -> None:
    """Every call of an SDK client is judged from now on; `seen` collects the methods."""

    def hook(response: Any, *_: Any, **__: Any) -> None:
        sent = response.request
        body = json.loads(sent.body) if sent.body else None
        seen.add(judge(sent.method, sent.url, body, response.json(), response.status_code))

    client.transport._session.hooks["response"].append(hook)


def checked(provider: Any) -> Any:
    """The adapter, every call of whose SDK clients is judged."""
    clients = provider._clients
    connected = clients._connected

    def listened(kind: Any, credentials: Any) -> Any:
        client = connected(kind, credentials)
        listen(client, set())
        return client

    clients._connected = listened
    return provider
