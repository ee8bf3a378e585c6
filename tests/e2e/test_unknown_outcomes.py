"""The create call was made, but nobody heard the answer."""

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE, Stack


def test_a_lost_answer_leads_to_one_vm(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.fault("RunInstances", "lose_reply"):
        lease_id = tenant.create({**ONE_A10G, "name": "lost"})
        tenant.wait(lease_id, "active")
    assert len(cloud.vms_of(lease_id)) == 1
    assert [attempt["outcome"] for attempt in tenant.attempts(lease_id)] == ["launched"]


def test_workers_killed_between_call_and_record_lead_to_one_vm(tenant: Tenant, stack: Stack, cloud: Cloud) -> None:
    """The cloud works on after the caller has died: when the VM is there, no process knows of it."""
    with cloud.fault("RunInstances", "delay", delay_seconds=6):  # a slow machine kills in time too
        before = cloud.calls("RunInstances")
        lease_id = tenant.create({**ONE_A10G, "name": "unheard"})
        assert wait_until(lambda: cloud.calls("RunInstances") > before, timeout=PATIENCE)
        assert stack.kill("worker") == 1
        assert [attempt["instance_id"] for attempt in tenant.attempts(lease_id)] == [None]
        assert wait_until(lambda: bool(cloud.vms_of(lease_id)), timeout=PATIENCE)
    (vm,) = cloud.vms_of(lease_id)
    lease = tenant.wait(lease_id, "active")
    assert lease["placement"]["instance_id"] == vm["id"]
    assert [found["id"] for found in cloud.vms_of(lease_id)] == [vm["id"]]
