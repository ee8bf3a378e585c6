"""Every member of a create through every door: direct, from a quote, as a member of a group, and by its growth."""

from typing import Any

import pytest
from pydantic_core import PydanticUndefined

from app.api.schemas.lease_bodies import NewLease
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.test_groups import run

SCRIPT = "#!/bin/sh\ntrue\n"
GPU = {"gpu": {"model": "A10G", "min_count": 1, "memory_gib": 20}}
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
NOT_OF_THE_LEASE = {"name", "quote_id", "tenant_id"}
"""Members that differ from door to door."""
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


def test_each_member_of_a_create_has_a_value_here_that_is_no_default() -> None:
    body = {**MEMBERS, **GPU, **TYPES}
    assert body.keys() | NOT_OF_THE_LEASE == NewLease.model_fields.keys()
    for name, field in NewLease.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        assert name in NOT_OF_THE_LEASE or default is PydanticUndefined or body[name] != default, name


async def created(caller: Caller, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await caller.post(path, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("wish", [GPU, TYPES], ids=["gpu", "instance-types"])
async def test_a_lease_is_the_same_through_every_door(wish: dict[str, Any], alice: Caller, fleet: Fleet) -> None:
    other = SSH_KEY.replace("me@example", "laptop")
    await created(alice, "/v1/ssh-keys", {"name": "laptop", "public_key": other})
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


async def test_a_cap_of_ones_own_replaces_that_of_the_quote(alice: Caller) -> None:
    asked = {**TYPES, "ttl_seconds": 3600, "max_cost": "0.50", "expiry_warnings_seconds": [60]}
    quote = await created(alice, "/v1/quotes", asked)
    own = {"quote_id": quote["id"], "max_cost": "0.60", "expiry_warnings_seconds": []}
    lease = await created(alice, "/v1/leases", own)
    assert (lease["max_cost"], lease["expiry_warnings_seconds"]) == ("0.60", [])
    same = await created(alice, "/v1/leases", {"quote_id": quote["id"], "max_cost": None})
    assert (same["max_cost"], same["expiry_warnings_seconds"]) == ("0.50", [60])
