"""The same life of a lease at the clouds that are not AWS."""

import pytest

from app.domain.tags import OwnerTags
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Tenant
from tests.e2e.truth import own_id

ON_DEMAND: Json = {"market": "on_demand", "ttl_seconds": 3600, "allowed_cidrs": ["203.0.113.0/24"]}
WISHES: dict[str, Json] = {
    "gcp": {**ON_DEMAND, "providers": ["gcp"], "instance_types": ["g2-standard-4"]},
    "azure": {**ON_DEMAND, "providers": ["azure"], "instance_types": ["Standard_NC4as_T4_v3"]},
}


@pytest.mark.parametrize("provider", WISHES)
def test_a_lease_has_the_same_life(tenant: Tenant, cloud: Cloud, provider: str) -> None:
    lease_id = tenant.create(WISHES[provider])
    lease = tenant.wait(lease_id, "active")
    (vm,) = cloud.vms_of(lease_id)
    assert (vm["provider"], vm["id"]) == (provider, own_id(lease))
    assert lease["connection"]["ssh_command"]
    parts = [vm, *cloud.resources_of(lease_id)]
    assert len(parts) > 1
    owners = [OwnerTags.parse(part["tags"]) for part in parts]
    assert all(owner and (owner.lease_id, owner.tenant_id, owner.n) == (lease_id, tenant.id, 1) for owner in owners)

    tenant.release(lease_id)
    assert tenant.wait(lease_id, "released", "failed")["state"] == "released"
    assert not cloud.vm(vm["id"])["alive"]
    assert cloud.resources_of(lease_id) == []
