"""What only time can show: made before the first of these tests, looked at after the last one."""

from datetime import datetime, timedelta

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.conftest import Planted
from tests.e2e.people import Operator
from tests.e2e.stack import PATIENCE

GRACE = timedelta(seconds=20)


def test_a_vm_of_ours_without_any_row_was_shown_and_ended_after_the_grace(
    planted: Planted, operator: Operator, cloud: Cloud
) -> None:
    def gone() -> bool:
        return (operator.orphan(planted.rowless_vm) or {}).get("state") == "gone"

    assert wait_until(gone, timeout=PATIENCE, poll=0.2), operator.orphan(planted.rowless_vm)
    orphan = operator.orphan(planted.rowless_vm)
    assert orphan is not None
    assert (orphan["cause"], orphan["lease_id"]) == ("copied_tags", None)
    seen, ended = (datetime.fromisoformat(orphan[name]) for name in ("first_seen_at", "end_requested_at"))
    assert ended - seen >= GRACE
    assert orphan["sightings"] >= 2
    assert cloud.vm(planted.rowless_vm)["alive"] is False


def test_strangers_were_never_touched(planted: Planted, operator: Operator, cloud: Cloud) -> None:
    for vm_id in (planted.other_installations_vm, planted.strangers_vm):
        assert cloud.vm(vm_id)["alive"] is True
        assert operator.orphan(vm_id) is None


def test_the_short_lease_ended_at_its_time(planted: Planted, cloud: Cloud) -> None:
    lease = planted.tenant.wait(planted.short_lease, "released", "failed")
    assert (lease["state"], lease["reason"]["code"]) == ("released", "expired")
    expires, released = (datetime.fromisoformat(lease[name]) for name in ("expires_at", "release_requested_at"))
    assert timedelta(0) <= released - expires
    (vm,) = cloud.vms_of(planted.short_lease)
    assert datetime.fromisoformat(vm["ended_at"]) - expires < timedelta(seconds=30)
    assert planted.tenant.used() == {}
