"""VMs that end, or live on, without being asked to by us."""

from datetime import datetime

from app.domain.tags import TENANT
from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Json, Operator, Tenant
from tests.e2e.stack import PATIENCE

SPOT: Json = {**ONE_A10G, "market": "spot"}
NOTICE_SECONDS = 10.0


def moment(lease: Json, name: str) -> datetime:
    return datetime.fromisoformat(lease[name])


def test_a_vm_stopped_by_somebody_else_closes_its_lease_and_its_bill(tenant: Tenant, cloud: Cloud) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "unlucky"})
    active = tenant.wait(lease_id, "active")
    assert tenant.used()["gpus"] == 1
    cloud.stop(active["placement"]["instance_id"])
    lost = tenant.wait(lease_id, "released", "failed")
    assert (lost["state"], lost["reason"]["code"]) == ("released", "instance_lost")
    assert (lost["billable"], lost["cost"]["price_per_hour"]) == (False, None)
    vm = cloud.vm(active["placement"]["instance_id"])
    assert moment(lost, "billing_ended_at") <= datetime.fromisoformat(vm["ended_at"])
    assert moment(lost, "billing_started_at") <= moment(lost, "billing_ended_at")
    assert tenant.used() == {}


def test_an_announced_interruption_is_shown_and_ends_the_lease(tenant: Tenant, cloud: Cloud) -> None:
    lease_id = tenant.create({**SPOT, "name": "on spot"})
    active = tenant.wait(lease_id, "active")
    cloud.interrupt(active["placement"]["instance_id"], notice_seconds=NOTICE_SECONDS)
    assert wait_until(lambda: tenant.lease(lease_id)["interruption"] is not None, timeout=NOTICE_SECONDS, poll=0.1)
    noticed = tenant.lease(lease_id)
    assert (noticed["state"], noticed["interruption"]["action"]) == ("active", "terminate")
    assert moment(noticed["interruption"], "notice_at") <= moment(noticed["interruption"], "deadline_at")
    ended = tenant.wait(lease_id, "released", "failed")
    assert (ended["state"], ended["reason"]["code"]) == ("released", "interrupted")


def test_an_interrupted_lease_that_wants_it_is_replaced(tenant: Tenant, cloud: Cloud) -> None:
    lease_id = tenant.create({**SPOT, "name": "again", "on_interruption": "replace", "wait_seconds": 60})
    first = tenant.wait(lease_id, "active")["placement"]["instance_id"]
    cloud.interrupt(first, notice_seconds=0)

    def replaced() -> bool:
        lease = tenant.lease(lease_id)
        return bool(lease["state"] == "active" and lease["placement"]["instance_id"] != first)

    assert wait_until(replaced, timeout=PATIENCE, poll=0.1), tenant.lease(lease_id)
    assert [vm["alive"] for vm in cloud.vms_of(lease_id)] == [False, True]
    assert [attempt["outcome"] for attempt in tenant.attempts(lease_id)] == ["ended", "launched"]
    assert tenant.used()["gpus"] == 1


def test_a_vm_of_an_ended_lease_is_ended_at_once(tenant: Tenant, operator: Operator, cloud: Cloud) -> None:
    lease_id = tenant.create({**ONE_A10G, "name": "over"})
    vm = cloud.vm(tenant.wait(lease_id, "active")["placement"]["instance_id"])
    tenant.release(lease_id)
    tenant.wait(lease_id, "released")
    assert vm["tags"][TENANT] == tenant.id
    risen = cloud.plant(vm["tags"], zone=vm["zone"], token=vm["token"])
    assert wait_until(lambda: not cloud.vm(risen)["alive"], timeout=PATIENCE, poll=0.1), operator.orphan(risen)
    assert wait_until(lambda: (operator.orphan(risen) or {}).get("state") == "gone", timeout=PATIENCE, poll=0.1)
    orphan = operator.orphan(risen)
    assert orphan is not None
    assert (orphan["cause"], orphan["lease_id"]) == ("ended_lease", lease_id)
