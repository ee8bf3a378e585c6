"""No text of a caller chooses another operation: each command and each tool with hostile values, judged by its requests."""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import typer
from mcp import Client

from app.cli import client
from app.cli.client import Api
from app.cli.command import DeferredCommand
from app.cli.config import Endpoint
from app.cli.errors import InvalidValueError
from app.cli.main import app
from app.cli.mcp.server import local_server
from app.cli.paths import check_path, is_id, path_of
from app.domain.ids import is_typeid
from tests.cli import contract
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, TENANT_ID, a_lease

SUFFIX = "01m84jncx1es4vd0pkyemx4c86"
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
_IDS = {"lease": "lease", "leases": "lease", "budget": "budget", "tenant": "tenant", "webhook": "webhook"}
_IDS |= {"delivery": "delivery", "orphan": "orphan", "for_key": "key", "quote": "quote"}
_TEXTS = {"amount": "5", "month": "2026-11", "receiver": "https://example.org/x", "limits": "gpu=1", "account": "sim"}
_TEXTS |= {"model": "llama-3-8b", "named": "train", "source": "train:/x", "destination": "/x", "label": "a=b"}
_TEXTS |= {
    "max_price": "1",
    "max_cost": "1",
    "expires": "2d",
    "created_after": "2026-11-01T00:00:00Z",
    "by": "provider",
}
_TEXTS |= {
    "warn_before": "1h",
    "cidr": "192.0.2.0/24",
    "thresholds": "50",
    "until": "2099-01-01T00:00:00Z",
    "since": "2026-11-01",
}
_TEXTS |= {"created_before": "2026-11-01T00:00:00Z", "remove_label": "a", "parameters": "8B"}
_OTHERS = {"size": "2", "by": "1h", "duration": "1h", "wish": "stop", "file": "/dev/null"}
_MORE = {
    "lease create": ["--gpu", "T4", "--ttl", "1h", "--yes", "--no-ssh-key"],
    "lease plan": ["--gpu", "T4", "--ttl", "1h"],
    "quote": ["--gpu", "T4", "--ttl", "1h", "--no-ssh-key"],
    "group create": ["--gpu", "T4", "--ttl", "1h", "--size", "2", "--no-ssh-key"],
    "lease update": ["--name", "x"],
    "lease keep": ["--for", "1h"],
    "lease release": ["--yes"],
    "tenant update": ["--name", "x"],
    "tenant idle-floor set": ["--idle-after", "1h"],
    "budget create": ["--period", "month"],
    "budget update": ["--amount", "7"],
    "webhooks update": ["--description", "x"],
    "size": ["--ttl", "1h"],
    "ssh": ["--print"],
    "group ssh": ["--print"],
}
_NO_REQUESTS = {"up", "deadman", "mcp", "cp", "events tail", "top", "ops top", "lease watch"}
"Programs of their own, and commands that do not end. `cp` runs scp."


class Recorder(httpx.BaseTransport):
    """Answers every read with a lease or a list, refuses every change, and keeps the requests as they would be sent."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().partition("?")[0]
        assert request.url.host == "api.test"
        self.requests.append((request.method, template(request.method, path)))
        if request.method != "GET":
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
    paths: dict[str, Any] = contract._document()["paths"]
    found = sorted(
        (path for path, methods in paths.items() if method.lower() in methods), key=lambda path: path.count("{")
    )
    return [(path, re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path))) for path in found]


def _template(method: str, path: str) -> str | None:
    return next((name for name, pattern in _paths(method) if pattern.fullmatch(path)), None)


def leaves(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, DeferredCommand]]:
    for name, inner in group.commands.items():
        if isinstance(inner, DeferredCommand):
            yield " ".join((*words, name)), inner
        elif hasattr(inner, "commands"):
            yield from leaves(inner, (*words, name))


COMMANDS = {
    name: found
    for name, found in leaves(typer.main.get_command(app))
    if name not in _NO_REQUESTS and not name.startswith("profile ")
}


def texts(found: DeferredCommand) -> list[Any]:
    """The parameters of a command that are any text."""
    shared = {"url", "key", "profile", "form", "as_json"}
    kinds = {str, list[str], str | None, list[str] | None}
    return [p for p in found.complete.params if p.name not in shared and p.type_descriptor.annotation in kinds]


def benign(name: str, parameter: Any) -> str:
    if parameter.name == "reference":
        return f"{'key' if name.startswith('key') else 'sshkey'}_{SUFFIX}"
    if parameter.name == "name" and name.startswith("group"):
        return f"group_{SUFFIX}"
    noun = _IDS.get(parameter.name)
    return f"{noun}_{SUFFIX}" if noun else _TEXTS.get(parameter.name, "x")


def arguments(name: str, changed: Any, value: str) -> list[str]:
    """The command with all that it needs, and with this value for one parameter."""
    words = [*name.split(), *_MORE.get(name, ())]
    rest = []
    for parameter in COMMANDS[name].complete.params:
        mine = parameter is changed
        if parameter.param_type_name == "argument":
            if parameter.required or mine or parameter.name in {"leases", "model"} or name.endswith("extend"):
                text = value if mine else _OTHERS.get(parameter.name) or benign(name, parameter)
                rest.append(text)
        elif mine:
            words.append(f"{parameter.opts[0]}={value}")
    return [*words, "--", *rest]


def run(cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> set[Request]:
    """The requests of a command. It ends with an exit code, never with an exception."""
    recorder = Recorder()

    class Recorded(Api):
        def __init__(self, _: Endpoint, **given: Any) -> None:
            super().__init__(Endpoint("https://api.test", "gpl_x"), **given, transport=recorder)

    monkeypatch.setattr(client, "Api", Recorded)
    result = cli(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit | KeyError), (words, result.exception)
    return set(recorder.requests)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_value_of_a_command_chooses_another_operation(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(cli, monkeypatch, arguments(name, None, ""))
    assert plain or name == "ssh-keys add", "the test needs the arguments with which the command calls the API"
    for parameter in texts(COMMANDS[name]):
        usual = plain | run(cli, monkeypatch, arguments(name, parameter, benign(name, parameter)))
        for value in VALUES.values():
            text = value.replace("{id}", benign(name, parameter))
            asked = run(cli, monkeypatch, arguments(name, parameter, text))
            others = {(method, path) for method, path in asked - usual if method != "GET" or path.endswith("}")}
            assert not others, (parameter.name, text)


async def test_no_value_of_a_tool_chooses_another_operation() -> None:
    recorder = Recorder()
    usual: dict[str, set[Request]] = {}
    with Api(Endpoint("https://api.test", "gpl_x"), note=lambda _: None, transport=recorder) as api:
        async with Client(local_server(api), mode="legacy") as agent:
            tools = {tool.name: tool.input_schema for tool in (await agent.list_tools()).tools}
            for name, schema in tools.items():
                for field in (None, *schema["properties"]):
                    for value in (None, *VALUES.values()):
                        given = _given(schema, field, value)
                        recorder.requests.clear()
                        answer = await agent.call_tool(name, given)
                        text = "".join(getattr(part, "text", "") for part in answer.content)
                        assert "Traceback" not in text
                        asked = set(recorder.requests)
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
    assert recorder.requests == []


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
