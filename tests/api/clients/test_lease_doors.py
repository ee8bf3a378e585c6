"""Every member of a create through the packages: what they send is what they were given."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.api.clients.conftest import run
from tests.api.clients.test_python_layer import Script, problem
from tests.api.clients.typescript import BODIES
from tools.clients import node


def sent(gpulease_client: ModuleType, request: Any, fields: Mapping[str, Any]) -> Any:
    script = Script(problem(422, "invalid_request"))
    client = gpulease_client.Client("http://api.test", "key", transport=script.transport)
    with pytest.raises(gpulease_client.problems.InvalidRequest):
        client.leases.create(request, **fields)
    [asked] = script.requests
    assert isinstance(asked, httpx.Request)
    return json.loads(asked.content)


@pytest.mark.parametrize("body", BODIES, ids=["gpu", "instance-types"])
def test_python_sends_every_member(gpulease_client: ModuleType, body: dict[str, Any]) -> None:
    model = gpulease_client.models.NewLease.from_dict(body)
    assert sent(gpulease_client, model, {}) == body
    assert sent(gpulease_client, None, body) == body


async def test_typescript_sends_every_member_and_its_types_know_each(typescript_project: Path) -> None:
    output = await run([node(), "doors.js"], typescript_project)
    assert [json.loads(line) for line in output.splitlines()] == BODIES
