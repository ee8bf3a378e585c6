"""The real agent in simulated VMs: its proof before `active`, its samples, and GPUs that fail the proof."""

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Json, Tenant
from tests.e2e.stack import PATIENCE

EIGHT: Json = {"instance_types": ["g5.48xlarge"], "regions": ["us-east-1"], "market": "on_demand", "ttl_seconds": 3600}


def test_a_vm_proves_its_gpus_and_reports_their_use(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.agents(2):
        lease_id = tenant.create({**ONE_A10G, "proof": "required"})
        lease = tenant.wait(lease_id, "active")
        proof = lease["proof"]
        assert (proof["status"], proof["via"], proof["findings"]) == ("passed", "network", [])
        assert [gpu["model"] for gpu in proof["gpus"]] == ["NVIDIA A10G"]
        assert wait_until(lambda: tenant.lease(lease_id)["utilization"], timeout=PATIENCE, poll=0.2)
        use = tenant.lease(lease_id)["utilization"]
        assert 5 < use["gpu_percent"] <= 100
        assert wait_until(lambda: tenant.lease(lease_id)["health"], timeout=PATIENCE, poll=0.2)
        assert tenant.lease(lease_id)["health"]["status"] == "healthy"


def test_seven_of_eight_gpus_are_never_active_and_the_lease_goes_on(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.agents(2), cloud.gpus(instance_type="g5.48xlarge", visible=7):
        lease_id = tenant.create(EIGHT)
        assert wait_until(lambda: bool(cloud.vms_of(lease_id)), timeout=PATIENCE, poll=0.05)
        cloud.set_gpus()
        lease = tenant.wait(lease_id, "active")
    first, *_, last = tenant.attempts(lease_id)
    assert first["offering"]["zone"] != last["offering"]["zone"]
    assert lease["placement"]["zone"] == last["offering"]["zone"]
    assert len(lease["proof"]["gpus"]) == 8
    path = f"/v1/leases/{lease_id}/events"

    def shown() -> bool:
        return any(event["type"] == "lease.active" for event in tenant.items(path))

    assert wait_until(shown, timeout=PATIENCE, poll=0.2)  # an event is shown once it has its number
    events = tenant.items(path)
    (failed,) = [event for event in events if event["type"] == "attempt.gpu_check_failed"]
    assert [finding["code"] for finding in failed["data"]["findings"]] == ["gpu_missing"]
    (active,) = [event for event in events if event["type"] == "lease.active"]
    assert events.index(failed) < events.index(active)
    broken, *_ = sorted(cloud.vms_of(lease_id), key=lambda vm: str(vm["launched_at"]))
    assert broken["alive"] is False


def test_without_a_network_the_proof_comes_over_the_console(tenant: Tenant, cloud: Cloud) -> None:
    with cloud.agents(1), cloud.gpus(agent="no_network"):
        lease_id = tenant.create({**ONE_A10G, "proof": "required"})
        proof = tenant.wait(lease_id, "active")["proof"]
    assert (proof["status"], proof["via"]) == ("passed", "console")
