"""Every member of a create through every door: the API, groups, the dashboard, the command line, and tools of agents.

`tests/api/clients/test_lease_doors.py` is about the packages.
"""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from app.api.schemas.gpu_requests import GpuRequest
from app.api.schemas.lease_bodies import NewLease
from app.cli.leases.request import LeaseOptions, request_body
from app.cli.mcp.arguments import LeaseArguments
from app.db.groups import coordination
from app.domain.ids import GroupId
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.test_groups import run
from tools.clients import ROOT, node
from workers.groups.replacements import add_members
from workers.runtime.database import WorkerDatabase

SCRIPT = "#!/bin/sh\ntrue\n"
GPU = {"gpu": {"model": "A10G", "min_count": 1, "memory_gib": 20, "interconnect": "PCIe", "vendor": "NVIDIA"}}
TYPES = {"instance_types": ["g5.xlarge"]}
MEMBERS: dict[str, Any] = {
    "min_vcpus": 2,
    "min_memory_gib": 8,
    "min_local_disk_gib": 10,
    "market": "spot_first",
    "providers": ["aws"],
    "regions": ["us-east-1"],
    "max_price_per_hour": "9.5",
    "max_cost": "3.25",
    "ttl_seconds": 7200,
    "wait_seconds": 40,
    "ssh_public_keys": [SSH_KEY],
    "ssh_keys": ["laptop"],
    "startup_script": SCRIPT,
    "image": "pytorch",
    "disk_gib": 200,
    "public_ip": False,
    "allowed_cidrs": ["203.0.113.0/24"],
    "on_interruption": "replace",
    "proof": "required",
    "on_gpu_failure": "replace",
    "idle": {"after_seconds": 1800, "action": "end"},
    "benchmark": "quick",
    "labels": {"team": "vision"},
    "expiry_warnings_seconds": [300, 60],
}
NOT_OF_THE_LEASE = {"name", "quote_id", "tenant_id", "volumes"}
"""Members that differ from door to door. One lease at a time holds a volume."""
COLUMNS = """SELECT request - 'name' AS request, labels, on_interruption, max_cost, expiry_warnings, key_id, minimum_claim,
    minimum_rate, estimated_price_per_hour, expires_at - created_at AS term, wait_until - created_at AS wait,
    (SELECT startup_script FROM lease_secret WHERE lease_id = lease.id) AS script
    FROM lease WHERE id = %s"""


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    made.run("UPDATE offering SET local_disk_gib = 250")
    made.run("UPDATE account SET config = %s", '{"images": {"pytorch": "ami-1"}}')
    return made


NOT_OF_THE_TOOL = {
    *("min_vcpus", "min_memory_gib", "min_local_disk_gib", "public_ip", "allowed_cidrs", "ssh_keys", "on_interruption"),
    *("proof", "on_gpu_failure", "idle", "benchmark", "expiry_warnings_seconds"),
}
"""Members that the tool `create_lease` does not offer: a model makes fewer mistakes with few arguments."""
SIMILAR = """
const { bodyOf, valuesOf } = await import(process.argv[1]);
let text = "";
for await (const part of process.stdin) text += part;
process.stdout.write(JSON.stringify(bodyOf(valuesOf(JSON.parse(text)))));
"""


def test_each_member_of_a_create_has_a_value_here_that_is_no_default() -> None:
    body = {**MEMBERS, **GPU, **TYPES}
    assert body.keys() | NOT_OF_THE_LEASE == NewLease.model_fields.keys()
    for name, field in NewLease.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        assert name in NOT_OF_THE_LEASE or default is PydanticUndefined or body[name] != default, name
    assert GPU["gpu"].keys() | {"count"} == GpuRequest.model_fields.keys(), "count excludes min_count"


async def created(caller: Caller, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await caller.post(path, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def worker_database(database_url: str) -> Iterator[WorkerDatabase]:
    database = WorkerDatabase(database_url, pool_size=1)
    yield database
    database.close()


@pytest.fixture
async def stored_key(alice: Caller) -> None:
    other = SSH_KEY.replace("me@example", "laptop")
    await created(alice, "/v1/ssh-keys", {"name": "laptop", "public_key": other})


WISHES = pytest.mark.parametrize("wish", [GPU, TYPES], ids=["gpu", "instance-types"])
pytestmark = pytest.mark.usefixtures("stored_key")


@WISHES
async def test_a_lease_is_the_same_through_every_door_of_the_api(
    wish: dict[str, Any], alice: Caller, fleet: Fleet, worker_database: WorkerDatabase
) -> None:
    body = {**MEMBERS, **wish}
    direct = await created(alice, "/v1/leases", {**body, "name": "direct"})
    quote = await created(alice, "/v1/quotes", {**body, "name": "by-quote"})
    quoted = await created(alice, "/v1/leases", {"quote_id": quote["id"], "startup_script": SCRIPT})
    group = await created(alice, "/v1/groups", {"name": "train", "size": 1, "lease": body})
    run(fleet, group, 0)
    grown = await alice.patch(f"/v1/groups/{group['id']}", json={"size": 2})
    assert grown.status_code == 200, grown.text
    first, second = (member["lease_id"] for member in grown.json()["members"])

    [wanted] = fleet.run(COLUMNS, direct["id"])
    assert wanted["max_cost"] is not None
    assert fleet.run(COLUMNS, quoted["id"]) == [wanted]
    assert quoted["name"] == "by-quote"
    [member], [newest] = fleet.run(COLUMNS, first), fleet.run(COLUMNS, second)
    assert member == wanted
    # a new member ends with the others
    assert newest == {**wanted, "term": newest["term"]}
    assert newest["term"] <= wanted["term"]

    fleet.finish(second)
    with worker_database.begin() as connection:
        row = connection.execute(*coordination.read(GroupId(group["id"]), locked=True)).one()
        add_members(connection, coordination.group_from_row(row), [1])
    [replacement] = fleet.run("SELECT id FROM lease WHERE rank = 1 AND ended_at IS NULL")
    [replaced] = fleet.run(COLUMNS, replacement["id"])
    assert replaced == {**wanted, "term": replaced["term"]}


async def test_every_member_has_an_option_of_the_command_line(alice: Caller, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(SSH_KEY, "utf-8")
    (tmp_path / "start.sh").write_text(SCRIPT, "utf-8")
    options: dict[str, Any] = {
        "min_vcpus": 2,
        "min_memory": 8,
        "min_local_disk": 10,
        "market": "spot_first",
        "provider": ["aws"],
        "region": ["us-east-1"],
        "max_price": "9.5",
        "max_cost": "3.25",
        "ttl": 7200,
        "wait": 40,
        "warn_before": "5m,1m",
        "ssh_key": [str(tmp_path / "key.pub"), "laptop"],
        "startup_script": tmp_path / "start.sh",
        "image": "pytorch",
        "disk": 200,
        "public_ip": False,
        "cidr": ["203.0.113.0/24"],
        "on_interruption": "replace",
        "proof": "required",
        "on_gpu_failure": "replace",
        "idle_after": 1800,
        "idle_action": "end",
        "benchmark": "quick",
        "label": ["team=vision"],
    }
    hardware: dict[str, Any] = {
        "gpu": "A10G",
        "min_gpus": 1,
        "gpu_memory": 20,
        "interconnect": "PCIe",
        "vendor": "NVIDIA",
    }
    types: dict[str, Any] = {"type": ["g5.xlarge"]}
    for wish, given in ((GPU, hardware), (TYPES, types)):
        direct = await created(alice, "/v1/leases", {**MEMBERS, **wish})
        typed = await created(alice, "/v1/leases", request_body(LeaseOptions(**options, **given)))
        assert fleet.run(COLUMNS, typed["id"]) == fleet.run(COLUMNS, direct["id"])


async def test_the_tool_of_agents_offers_the_members_that_are_not_named_here(alice: Caller, fleet: Fleet) -> None:
    members = {name: value for name, value in MEMBERS.items() if name not in NOT_OF_THE_TOOL}
    given: dict[str, Any] = {**members, "gpu_model": "A10G", "gpu_memory_gib": 20, "gpu_count": 4}
    direct = await created(alice, "/v1/leases", {**members, "gpu": {"model": "A10G", "count": 4, "memory_gib": 20}})
    tool = await created(alice, "/v1/leases", LeaseArguments(**given).body())
    assert fleet.run(COLUMNS, tool["id"]) == fleet.run(COLUMNS, direct["id"])


async def similar_to(lease: str) -> dict[str, Any]:
    """The body of the form that the dashboard fills from a lease."""
    module = str(ROOT / "dashboard" / "parts" / "lease_request.js")
    argv = [node(), "--input-type=module", "-e", SIMILAR, module]
    child = await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE)
    output, _ = await child.communicate(lease.encode())
    body: dict[str, Any] = json.loads(output)
    return {name: value for name, value in body.items() if name != "tenant_id"}


@WISHES
async def test_a_similar_lease_of_the_dashboard_is_the_same(wish: dict[str, Any], alice: Caller, fleet: Fleet) -> None:
    direct = await created(alice, "/v1/leases", {**MEMBERS, **wish})
    shown = await alice.get(f"/v1/leases/{direct['id']}")
    similar = await created(alice, "/v1/leases", await similar_to(shown.text))
    [wanted] = fleet.run(COLUMNS, direct["id"])
    wanted["request"]["ssh_keys"] = []  # the form writes out the keys themselves
    assert fleet.run(COLUMNS, similar["id"]) == [wanted]


async def test_volumes_come_through_every_door(alice: Caller, fleet: Fleet) -> None:
    """One door after the other: the lease before has ended, and its claim with it."""
    mounts = [{"name": "my data", "path": "/data"}, {"name": "models", "path": "/srv/models"}]
    for mount in mounts:
        fleet.volume(alice.tenant_id, mount["name"])
    body = {**TYPES, "ttl_seconds": 3600, "market": "on_demand", "volumes": mounts}
    options = LeaseOptions(type=["g5.xlarge"], ttl=3600, volume=["my data:/data", "models:/srv/models"])
    bodies = [body, request_body(options)]
    while bodies:
        made = await created(alice, "/v1/leases", bodies.pop(0))
        assert made["request"]["volumes"] == mounts
        fleet.run("UPDATE volume SET lease_id = NULL")
        if not bodies and "name" not in body:
            body["name"] = "similar"
            bodies.append(await similar_to((await alice.get(f"/v1/leases/{made['id']}")).text))


async def test_a_cap_of_ones_own_replaces_that_of_the_quote(alice: Caller) -> None:
    asked = {**TYPES, "ttl_seconds": 3600, "max_cost": "0.50", "expiry_warnings_seconds": [60]}
    quote = await created(alice, "/v1/quotes", asked)
    own = {"quote_id": quote["id"], "max_cost": "0.60", "expiry_warnings_seconds": []}
    lease = await created(alice, "/v1/leases", own)
    assert (lease["max_cost"], lease["expiry_warnings_seconds"]) == ("0.60", [])
    same = await created(alice, "/v1/leases", {"quote_id": quote["id"], "max_cost": None})
    assert (same["max_cost"], same["expiry_warnings_seconds"]) == ("0.50", [60])
