"""No text of a caller chooses another operation: each command and each tool with hostile values, judged by its requests."""

import posixpath
import re
from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from mcp import Client

from app.cli import client
from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import InvalidValueError
from app.cli.paths import check_path, is_id, path_of
from app.domain.ids import is_typeid
from cloudsim.testing import NO_TLS
from tests.cli.commands import COMMANDS, SUFFIX, arguments, benign, texts
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, TENANT_ID, a_lease
from tests.cli.mcp_server import local_server
from tests.described import document

BUDGET = f"budget_{SUFFIX}"
Request = tuple[str, str]
"Method and path template."

VALUES = {
    "another folder": "{id}/../../budgets/" + BUDGET,
    "another folder, of a short id": "lease_x/../../budgets/" + BUDGET,
    "a part": "{id}/attempts",
    "parent": "..",
    "here": ".",
    "nothing": "",
    "backslash": "..\\budgets\\" + BUDGET,
    "query": "{id}?ids=1",
    "fragment": "{id}#x",
    "escaped slash": "{id}%2f..%2f..%2fbudgets%2f" + BUDGET,
    "escaped dots": "%2e%2e",
    "escaped NUL": "{id}%00",
    "line break": "{id}\n",
    "header": "{id}\r\nX-Evil: 1",
    "slash": "{id}/",
    "host": "//example.org/{id}",
    "address": "https://example.org/v1/leases",
}


class Recorder(httpx.BaseTransport):
    """Answers every read with a lease or a list, refuses every change, and keeps the requests as they would be sent.

    It judges no request as it comes: commands and tools turn an exception into an answer of their own.
    """

    def __init__(self) -> None:
        self._sent: list[tuple[str, str]] = []

    @property
    def requests(self) -> set[Request]:
        """Those since the last `forget`."""
        return {(method, template(method, path)) for method, path in self._sent}

    def forget(self) -> None:
        self._sent.clear()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        assert request.url.host == "api.test"
        self._sent.append((request.method, path))
        if request.method != "GET" or path == "/v1/events/stream":
            return httpx.Response(403, json={"code": "forbidden", "title": "no"})
        one = a_lease(1, **ACTIVE) | {"tenant_id": TENANT_ID, "key_id": f"key_{SUFFIX}", "members": []}
        return httpx.Response(200, json={**one, "items": [], "next_cursor": None})


def template(method: str, path: str) -> str:
    """The operation's path template. Every reading of the path by a server or a proxy must lead to the same one."""
    readings = {path, unquote(path), unquote(unquote(path)), posixpath.normpath(unquote(unquote(path)))}
    found = {_template(method, reading) for reading in readings}
    assert len(found) == 1, (method, path, found)
    (one,) = found
    assert one is not None, f"{method} {path} is no operation"
    return one


@cache
def _paths(method: str) -> list[tuple[str, re.Pattern[str]]]:
    paths: dict[str, Any] = document()["paths"]
    found = sorted(
        (path for path, methods in paths.items() if method.lower() in methods), key=lambda path: path.count("{")
    )
    return [(path, re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path))) for path in found]


def _template(method: str, path: str) -> str | None:
    return next((name for name, pattern in _paths(method) if pattern.fullmatch(path)), None)


def run(cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> set[Request]:
    """The requests of a command. It ends with an exit code, never with an exception."""
    recorder = Recorder()

    class Recorded(Api):
        def __init__(self, _: Endpoint, **given: Any) -> None:
            super().__init__(Endpoint("https://api.test", "gpl_x"), **given, transport=recorder)

    monkeypatch.setattr(client, "Api", Recorded)
    monkeypatch.setattr(
        client, "tls_context", lambda _: NO_TLS
    )  # nothing connects, and reading certificates takes 20 ms
    result = cli(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit | KeyError), (words, result.exception)
    return recorder.requests


@pytest.mark.parametrize("name", COMMANDS)
def test_no_value_of_a_command_chooses_another_operation(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(cli, monkeypatch, arguments(name, None, ""))
    assert plain or name == "ssh-keys add", "the test needs the arguments with which the command calls the API"
    for number, parameter in enumerate(texts(COMMANDS[name])):
        usual = benign(name, parameter)
        value = list(VALUES.values())[(len(name) + number) % len(VALUES)].replace("{id}", usual)
        asked = run(cli, monkeypatch, arguments(name, parameter, value)) - plain
        if asked:
            asked -= run(cli, monkeypatch, arguments(name, parameter, usual))
        others = {(method, path) for method, path in asked if method != "GET" or path.endswith("}")}
        assert not others, (parameter.name, value)


async def test_no_value_of_a_tool_chooses_another_operation() -> None:
    recorder = Recorder()
    usual: dict[str, set[Request]] = {}
    with Api(Endpoint("https://api.test", "gpl_x"), note=lambda _: None, transport=recorder) as api:
        async with Client(local_server(api), mode="legacy") as agent:
            tools = {tool.name: tool.input_schema for tool in (await agent.list_tools()).tools}
            for name, schema in tools.items():
                for number, field in enumerate((None, *schema["properties"])):
                    some = [list(VALUES.values())[(len(name) + number) % len(VALUES)]]
                    for value in (None, *(VALUES.values() if field == "lease" else some)):
                        given = _given(schema, field, value)
                        recorder.forget()
                        answer = await agent.call_tool(name, given)
                        text = "".join(getattr(part, "text", "") for part in answer.content)
                        assert "Traceback" not in text
                        asked = recorder.requests
                        if value is None:
                            usual.setdefault(name, set()).update(asked)
                        others = {
                            (method, path)
                            for method, path in asked - usual[name]
                            if method != "GET" or path.endswith("}")
                        }
                        assert not others, (name, given)
    assert usual["release_lease"] >= {("DELETE", "/v1/leases/{lease_id}")}
    assert usual["extend_lease"] >= {("POST", "/v1/leases/{lease_id}/extend")}


def _given(schema: dict[str, Any], changed: str | None, value: str | None) -> dict[str, Any]:
    """The required arguments of a tool, and one field with a value in the form that its schema allows."""
    plain: dict[str, Any] = {
        "ttl_seconds": 3600,
        "ends_in_seconds": 3600,
        "lease": f"lease_{SUFFIX}",
        "gpu_model": "T4",
    }
    given = {name: plain[name] for name in schema["properties"] if name in plain}
    if changed is not None and value is not None:
        text = value.replace("{id}", f"lease_{SUFFIX}")
        kinds = str(schema["properties"][changed])
        given[changed] = [text] if "'array'" in kinds else {text: text} if "'object'" in kinds else text
    return given


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_is_one_part_of_the_path_or_refused(value: str) -> None:
    text = value.replace("{id}", f"lease_{SUFFIX}")
    try:
        path = path_of("/v1/leases", text, "extend")
    except InvalidValueError:
        return
    assert check_path(path) == path
    assert [unquote(part) for part in path.split("/")] == ["", "v1", "leases", text, "extend"]
    assert template("POST", path) == "/v1/leases/{lease_id}/extend"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/leases/../budgets",
        "/v1/leases/%2e%2e",
        "/v1//leases",
        "/v1/leases/",
        "/v1/a b",
        "/v1/a%2Fb",
        "/v1/a%2fb",
        "/v1/é",
        "/v1/leases?x=1",
        "/v1/leases#x",
        "/v2/leases",
        "v1/leases",
        "https://example.org/v1/leases",
        "/v1/%61",
        "/v1/a%0Ab",
    ],
)
def test_a_path_that_differs_from_its_normal_form_is_not_sent(path: str) -> None:
    recorder = Recorder()
    with Api(Endpoint("https://api.test", "gpl_x"), note=lambda _: None, transport=recorder) as api:
        for call in (api.get, api.delete, api.post, lambda text: list(api.lines(text, None, {}))):
            with pytest.raises(InvalidValueError):
                call(path)
    assert recorder.requests == set()


@pytest.mark.parametrize(
    "text",
    [
        f"lease_{SUFFIX}",
        f"lease_{SUFFIX}x",
        f"lease_{SUFFIX[:-1]}",
        f"lease_{SUFFIX[:-1]}u",
        f"lease_8{SUFFIX[1:]}",
        "lease_",
        f"lease_{SUFFIX}\n",
        f"lease_{SUFFIX.upper()}",
        f"key_{SUFFIX}",
        f"lease_x_{SUFFIX}",
        "lease_x/../y",
        "lease_…yemx4c86",
    ],
)
def test_an_id_is_what_the_server_calls_one(text: str) -> None:
    assert is_id(text, "lease") is is_typeid("lease", text)
