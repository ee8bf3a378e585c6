"""A VM's GPUs decide: before `active` by their proof, afterwards by the lease's wish."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import select, text, update

from app.db.leases import proofs as statements
from app.db.schema.tables import attempt, bad_gpu, lease
from app.domain.gpus.health import next_health
from app.domain.gpus.reports import CONSOLE_MARK, GpuReport, GpuState, Xid, console_mac
from app.domain.ids import LeaseId
from app.domain.leases import AttemptState
from app.domain.tokens import agent_token
from app.settings import AccountSettings, Settings
from tests.workers.fleet import Fleet
from tests.workers.proofs import BROKEN, EXPECTED, GOOD, TO_RESET, drive_to_wait, prove, report
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    return make_fleet(agent="on", proof_seconds=120.0)


def break_gpu(fleet: Fleet, lease_id: LeaseId) -> None:
    """As the API stores what a sample of an active lease shows."""
    row = fleet.lease(lease_id)
    seen = GpuReport(gpus=(GpuState(uuid="GPU-good"),), xids=(Xid(code=79),))
    record = next_health(seen, EXPECTED, None, n=row.attempts_count, now=fleet.now())
    assert record is not None
    assert fleet.runtime.database.first(statements.set_health(lease_id, record, row.gpu_health)) is not None


def test_a_vm_whose_proof_has_arrived_is_ready_whatever_the_cloud_says(fleet: Fleet) -> None:
    fleet.sim.fault("DescribeInstanceStatus", "lose_reply", times=None)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "booting")
    prove(fleet, lease_id, GOOD)
    fleet.step()
    assert fleet.lease(lease_id).state == "active", "no other pass of the watch was needed"
    assert [one.ready for one in fleet.attempts(lease_id)] == [True]


def test_after_a_vm_with_a_broken_gpu_the_next_candidate_is_tried(fleet: Fleet) -> None:
    lease_id = fleet.create()
    drive_to_wait(fleet, lease_id)
    assert fleet.lease(lease_id).proof["status"] == "pending"
    prove(fleet, lease_id, BROKEN)
    drive_to_wait(fleet, lease_id, 2)
    prove(fleet, lease_id, GOOD)
    active = fleet.drive_to(lease_id, "active")
    first, second = fleet.attempts(lease_id)
    assert (first.state, first.error["class"], first.error["code"]) == (
        AttemptState.DEAD,
        "GpuCheckFailed",
        "remap_failed",
    )
    assert second.zone != first.zone
    assert (active.proof["status"], active.proof["n"]) == ("passed", 2)
    assert fleet.cooling() == [], "it is the word of one tenant"
    assert [row.uuid for row in fleet.runtime.database.all(select(bad_gpu.c.uuid))] == ["GPU-broken"]
    events = fleet.events(lease_id)
    assert events.count("lease.active") == 1
    order = ["lease.proof", "attempt.gpu_check_failed", "attempt.dead", "lease.queued", "lease.provisioning"]
    assert [one for one in events if one in order][-6:-1] == order
    assert len(fleet.vms()) == 1


def test_a_lease_that_requires_a_proof_fails_without_one_and_blames_no_offering(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(agent="on", proof_seconds=0.3)
    ended = fleet.drive_to(fleet.create(proof="required"), "failed")
    assert ended.reason["code"] == "gpu_check_failed"
    assert [one["code"] for one in ended.proof["findings"]] == ["no_proof"]
    events = fleet.events(ended.id)
    assert "attempt.gpu_check_failed" in events
    assert "lease.proof" not in events, "no proof arrived, and the lease does not continue without one"
    assert fleet.cooling() == []
    assert fleet.vms() == []


def test_a_silent_vm_is_used_where_a_proof_is_not_required(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(agent="on", proof_seconds=0.3)
    lease_id = fleet.create()
    assert fleet.drive_to(lease_id, "active").proof["status"] == "none"
    (only,) = fleet.attempts(lease_id)
    assert only.console_proof_tries <= 3
    assert fleet.events(lease_id).count("lease.proof") == 1


def test_a_vm_without_a_network_proves_its_gpus_on_its_console(make_fleet: Callable[..., Fleet]) -> None:
    lines: list[str] = []

    def connect(account: AccountSettings, settings: Settings) -> AwsProvider:
        assert isinstance(account, AwsAccount)
        provider = AwsProvider(account, settings)
        provider.console_output = lambda *_: "\n".join(lines)  # pyrefly: ignore[bad-assignment, method-assign]
        return provider

    fleet = make_fleet(agent="on", proof_seconds=3.0, connect_account=connect)
    lease_id = fleet.create(proof="required")
    drive_to_wait(fleet, lease_id)
    installation = fleet.runtime.installation
    token = agent_token(installation.token_key, installation.id, lease_id, 1)
    for key in ("f" * 64, token):
        proof = report(fleet, GOOD)
        lines.append(CONSOLE_MARK + json.dumps({"mac": console_mac(key, proof), "proof": proof}))
    lines.reverse()
    active = fleet.drive_to(lease_id, "active", "failed", "queued")
    assert (active.state, active.proof["status"], active.proof["via"]) == ("active", "passed", "console")


def test_a_gpu_that_needs_a_reset_is_rebooted_once(fleet: Fleet) -> None:
    lease_id = fleet.create()
    drive_to_wait(fleet, lease_id)
    prove(fleet, lease_id, TO_RESET)
    fleet.drive(lambda: fleet.attempts(lease_id)[0].gpu_rebooted_at is not None)
    assert fleet.lease(lease_id).proof["status"] == "pending"
    prove(fleet, lease_id, TO_RESET, boot_id="boot-2")
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1)
    assert fleet.events(lease_id).count("lease.rebooted") == 1
    assert [row.uuid for row in fleet.runtime.database.all(select(bad_gpu.c.uuid))] == ["GPU-good"]


def test_a_vm_that_does_not_come_back_from_its_reboot_is_replaced_though_no_cloud_has_called_it_ready(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(agent="on", boot_timeout=1.5)
    fleet.sim.fault("DescribeInstanceStatus", "lose_reply", times=None)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "booting")
    prove(fleet, lease_id, TO_RESET)
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1 or fleet.lease(lease_id).desired == "end")
    first = fleet.attempts(lease_id)[0]
    assert first.gpu_rebooted_at is not None
    assert (first.state, first.error["class"]) == (AttemptState.DEAD, "GpuCheckFailed")


@pytest.mark.parametrize("wish", ["notify", "replace", "end"])
def test_a_gpu_that_fails_later_is_treated_as_the_lease_wishes(fleet: Fleet, wish: str) -> None:
    lease_id = fleet.create(on_gpu_failure=wish, proof="off")
    fleet.drive_to(lease_id, "active")
    break_gpu(fleet, lease_id)
    if wish == "notify":
        fleet.step()
        assert fleet.lease(lease_id).state == "active"
    elif wish == "end":
        assert fleet.drive_to(lease_id, "released").reason["code"] == "gpu_failed"
    else:
        fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1)
        assert fleet.drive_to(lease_id, "active").gpu_health is None
        first, second = fleet.attempts(lease_id)
        assert second.zone != first.zone, "the cloud may give it the same machine again"
        assert len(fleet.vms()) == 1
    # root in the VM can forge what an active lease reports: nobody else feels it
    assert fleet.cooling() == []
    assert fleet.runtime.database.all(select(bad_gpu.c.uuid)) == []


def test_a_replacement_goes_elsewhere_also_when_the_end_of_the_failed_vm_shows_late(fleet: Fleet) -> None:
    """A cloud that forgets ended VMs tells no time of the end: the VM was last seen long before."""
    lease_id = fleet.create(on_gpu_failure="replace", proof="off")
    fleet.drive_to(lease_id, "active")
    break_gpu(fleet, lease_id)
    fleet.drive(lambda: fleet.attempts(lease_id)[0].vm_state == "gone")
    long_ago = {"vm_state_at": attempt.c.vm_state_at - text("interval '1 hour'")}
    fleet.runtime.database.run(update(attempt).where(attempt.c.lease_id == lease_id).values(long_ago))
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1)
    first, second = fleet.attempts(lease_id)
    assert second.zone != first.zone


def test_the_token_of_an_agent_is_stored_as_its_hash_only(fleet: Fleet) -> None:
    lease_id = fleet.create(proof="off")
    idle = fleet.create(proof="off", idle={"after_seconds": 900, "action": "notify"})
    fleet.drive_to(lease_id, "active")
    fleet.drive_to(idle, "active")
    hashes = select(lease.c.id, attempt.c.agent_hash).join(attempt, attempt.c.lease_id == lease.c.id)
    stored = {row.id: row.agent_hash for row in fleet.runtime.database.all(hashes)}
    assert stored[lease_id] is None
    assert len(stored[idle]) == 32
