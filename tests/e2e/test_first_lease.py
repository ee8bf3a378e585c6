"""A lease from the wish to the end, over HTTP; with the command line see test_quick_start.py."""

import json

from app.api.schemas.leases import Connection, Lease
from app.api.schemas.placements import Placement
from app.domain.tags import OwnerTags
from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE


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
    names = [name.removeprefix("lease.") for name in types if name.startswith("lease.")]
    # the VM reports its host keys and its GPUs at moments of its own
    return [name for name in names if name not in {"host_keys", "proof"}]
