"""The end may be asked for in every state. (The `tenant` fixture sees to it that nothing is left.)"""

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Json, Operator, Tenant
from tests.e2e.stack import PATIENCE


def ended(tenant: Tenant, lease_id: str) -> Json:
    tenant.release(lease_id)
    lease = tenant.wait(lease_id, "released", "failed")
    assert (lease["state"], lease["reason"]["code"]) == ("released", "released_by_user")
    assert tenant.release(lease_id)["state"] == "released"
    return lease


def test_while_it_waits_for_capacity(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.capacity(0, instance_type="g4dn.xlarge"):
        lease_id = tenant.create(
            {"name": "waits", "instance_types": ["g4dn.xlarge"], "ttl_seconds": 60, "wait_seconds": 60}
        )
        assert wait_until(lambda: tenant.lease(lease_id)["reason"] is not None, timeout=PATIENCE, poll=0.1)
        assert tenant.lease(lease_id)["state"] == "queued"
        ended(tenant, lease_id)
    assert cloud.vms_of(lease_id) == []


def test_while_launches_are_stopped(tenant: Tenant, operator: Operator, cloud: Cloud) -> None:
    operator.stop_launches(stopped=True)
    try:
        lease_id = tenant.create({**ONE_A10G, "name": "stopped"})
        assert ended(tenant, lease_id)["attempts_count"] == 0
    finally:
        operator.stop_launches(stopped=False)
    assert cloud.vms_of(lease_id) == []


def test_while_the_create_call_is_under_way(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.fault("RunInstances", "delay", delay_seconds=1.5):
        before = cloud.calls("RunInstances")
        lease_id = tenant.create({**ONE_A10G, "name": "under way"})
        assert wait_until(lambda: cloud.calls("RunInstances") > before, timeout=PATIENCE)
        assert tenant.lease(lease_id)["state"] == "provisioning"
        ended(tenant, lease_id)
    assert [vm["alive"] for vm in cloud.vms_of(lease_id)] == [False]


def test_while_the_outcome_of_the_create_call_is_unknown(tenant: Tenant, cloud: Cloud) -> None:
    """It did not work, but only time can tell: nothing was charged, and the quota is given back after the proof."""
    with cloud.fault("RunInstances", "error", code="InternalError", times=None):
        lease_id = tenant.create({**ONE_A10G, "name": "unknown"})
        assert wait_until(lambda: _unknown(tenant, lease_id), timeout=PATIENCE, poll=0.1)
        tenant.release(lease_id)
        assert tenant.used()["gpus"] == 1
        lease = tenant.wait(lease_id, "released", "failed")
    assert lease["state"] == "released"
    assert float(lease["cost"]["accrued"]) == 0
    assert cloud.vms_of(lease_id) == []


def _unknown(tenant: Tenant, lease_id: str) -> bool:
    return any(attempt["error"] is not None for attempt in tenant.attempts(lease_id))


def test_while_it_boots(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.fault("boot", "delay", delay_seconds=30):
        lease_id = tenant.create({**ONE_A10G, "name": "boots"})
        tenant.wait(lease_id, "booting")
        lease = ended(tenant, lease_id)
    assert lease["ready_at"] is None
    assert [vm["alive"] for vm in cloud.vms_of(lease_id)] == [False]
