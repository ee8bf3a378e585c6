"""A lease from the wish to the end, over HTTP and with the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

from app.api.lease_views import Connection, Lease, Placement
from app.domain.tags import OwnerTags
from app.local.waiting import wait_until
from tests.databases import ROOT
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE, Stack


def test_a_lease_becomes_active_on_one_tagged_vm_and_leaves_nothing(tenant: Tenant, cloud: Cloud) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "first"})
    lease = tenant.wait(lease_id, "active")
    (vm,) = cloud.vms_of(lease_id)
    assert Lease.model_validate_json(json.dumps(lease), strict=True).model_dump(mode="json").keys() == lease.keys()
    assert set(lease["placement"]) == set(Placement.model_fields)
    assert set(lease["connection"]) == set(Connection.model_fields)
    assert vm["id"] == lease["placement"]["instance_id"]
    assert lease["connection"]["ssh_command"]
    parts = [vm, *cloud.resources_of(lease_id)]
    assert {part.get("kind", "vm") for part in parts} == {"vm", "volume", "network_interface"}
    owners = [OwnerTags.parse(part["tags"]) for part in parts]
    assert all(owner and (owner.lease_id, owner.tenant_id, owner.n) == (lease_id, tenant.id, 1) for owner in owners)

    assert tenant.release(lease_id)["state"] == "releasing"
    ended = tenant.wait(lease_id, "released", "failed")
    assert (ended["state"], ended["reason"]["code"]) == ("released", "released_by_user")
    assert not cloud.vm(vm["id"])["alive"]
    assert cloud.resources_of(lease_id) == []
    expected = ["queued", "provisioning", "booting", "active", "releasing", "released"]
    assert wait_until(lambda: states_told(tenant, lease_id) == expected, timeout=PATIENCE), states_told(
        tenant, lease_id
    )


def states_told(tenant: Tenant, lease_id: str) -> list[str]:
    """The events' states in order; events appear a moment after what they tell, when they are numbered."""
    types = [str(event["type"]) for event in tenant.items(f"/v1/leases/{lease_id}/events")]
    return [name.removeprefix("lease.") for name in types if name.startswith("lease.")]


def test_the_command_line_does_the_same(tenant: Tenant, stack: Stack, cloud: Cloud) -> None:
    def gpulease(*arguments: str) -> str:
        program = Path(sys.executable).with_name("gpulease")
        access = {"GPULEASE_URL": stack.credentials.api_url, "GPULEASE_KEY": tenant.key}
        done = subprocess.run(
            [program, *arguments],
            cwd=ROOT,
            env={**os.environ, **access},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "active" in gpulease("lease", "create", "--name", "mine", "--gpu", "A10G:1", "--ttl", "1h", "--watch")
    (lease,) = tenant.leases("active")
    assert [vm["alive"] for vm in cloud.vms_of(lease["id"])] == [True]
    gpulease("lease", "release", "mine")
    assert "released" in gpulease("lease", "watch", "mine")
    assert [vm["alive"] for vm in cloud.vms_of(lease["id"])] == [False]
