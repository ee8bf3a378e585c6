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
from tests.api.test_lease_doors import GPU, MEMBERS, TYPES
from tools.clients import node
from tools.installed_clients import compile_typescript

OTHERS = {
    "name": "a",
    "quote_id": "quote_01k00000000000000000000000",
    "tenant_id": "tenant_01k00000000000000000000000",
    "volumes": [{"name": "data", "path": "/data"}],
}
BODIES = [{**MEMBERS, **OTHERS, **wish} for wish in (GPU, TYPES)]
PROGRAM = """
import {{ Gpulease, type components }} from "gpulease-client";
const bodies: components["schemas"]["NewLease"][] = {bodies};
for (const body of bodies) {{
  const fetch = async (request: Request) => {{
    console.log(await request.text());
    return new Response("{{}}", {{ status: 201, headers: {{ "Content-Type": "application/json" }} }});
  }};
  await new Gpulease({{ url: "http://api.test", key: "k", fetch }}).leases.create(body);
}}
"""


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
    (typescript_project / "doors.ts").write_text(PROGRAM.format(bodies=json.dumps(BODIES)))
    compile_typescript(typescript_project, "doors.ts")
    output = await run([node(), "doors.js"], typescript_project)
    assert [json.loads(line) for line in output.splitlines()] == BODIES
