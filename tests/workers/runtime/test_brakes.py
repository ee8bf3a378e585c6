"""Brakes: a mistaken view of the world ends nothing and closes nothing."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from app.db.operations.ops import end_orphan
from app.domain.ids import LeaseId
from app.domain.lifecycle import BeginRelease, Terminate
from app.domain.tokens import launch_token
from app.local.waiting import wait_until
from app.settings import StartupError
from tests.harness.databases import Databases
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.lifecycle.step_table import STEPS, StepSpec
from workers.lifecycle.steps.end import begin_release
from workers.lifecycle.steps.terminate import terminate
from workers.observation.inventory import take_inventory
from workers.providers.errors import CredentialsRejected, ProviderError

OLDER_LEASE = LeaseId("lease_01m7wh00000000000000000000")
NEWER_LEASE = LeaseId("lease_7zzzzzzzzzzzzzzzzzzzzzzzzz")


def inventory(fleet: Fleet) -> None:
    take_inventory(fleet.runtime, ACCOUNT, REGION)


def active(fleet: Fleet, count: int) -> list[LeaseId]:
    leases = [fleet.create() for _ in range(count)]
    fleet.drive_all_to(leases, "active", seconds=30)
    return leases


def test_credentials_of_another_account_close_nothing_and_disable_the_account(
    fleet: Fleet, make_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    (lease_id,) = active(fleet, 1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEMPTY00000000001")
    stranger = make_fleet(observe=False)
    with pytest.raises(CredentialsRejected, match="not to the account first seen"):
        inventory(stranger)
    assert fleet.account().state == "disabled"
    assert "000000000002" in fleet.account().last_error["message"]
    assert fleet.lease(lease_id).state == "active"
    assert fleet.runtime.catalogue.offerings()
    fleet.runtime.catalogue.forget()
    assert all(o.account_problem for o in fleet.runtime.catalogue.offerings())
    inventory(fleet)
    assert fleet.account().state == "ok", "the right credentials make it usable again"


def test_many_leases_vanishing_at_once_are_believed_only_after_three_cycles(fleet: Fleet) -> None:
    leases = active(fleet, 6)
    fleet.sim.settings(terminated_visible_seconds=0)
    for vm in fleet.vms():
        fleet.sim.stop(vm["id"])
    fleet.wait_for(lambda: fleet.sim.resources() == [])
    for _ in range(2):
        inventory(fleet)
        fleet.step()
    assert {fleet.lease(one).state for one in leases} == {"active"}
    assert fleet.region().last_error["class"] == "MassLoss"
    inventory(fleet)
    fleet.drive_all_to(leases, "released")


def test_a_few_leases_vanishing_are_closed_at_once(fleet: Fleet) -> None:
    (lease_id,) = active(fleet, 1)
    fleet.sim.settings(terminated_visible_seconds=0)
    fleet.sim.stop(fleet.vms()[0]["id"])
    assert fleet.drive_to(lease_id, "released").reason["code"] == "instance_lost"


def test_many_rowless_vms_are_not_ended_before_three_cycles(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(rowless_grace_seconds=0.0)
    for _ in range(6):
        fleet.plant(tags={"gpulease-installation": fleet.runtime.installation.id})
    inventory(fleet)
    inventory(fleet)
    assert len(fleet.vms()) == 6
    inventory(fleet)
    fleet.drive(lambda: fleet.vms() == [])


def tags_of(fleet: Fleet, lease_id: LeaseId, deadline: str = "1") -> dict[str, str]:
    installation = fleet.runtime.installation.id
    named = {"gpulease-installation": installation, "gpulease-lease": lease_id, "gpulease-attempt": "1"}
    return {**named, "gpulease-deadline": deadline}


def plant_genuine(fleet: Fleet, lease_id: LeaseId, **changes: str) -> str:
    """A VM that the launch of a lease has made of which the database does not know."""
    installation = fleet.runtime.installation
    token = launch_token(installation.token_key, installation.id, lease_id, 1)
    (vm_id,) = fleet.plant(tags=tags_of(fleet, lease_id, **changes), token=token)
    return vm_id


def test_a_genuine_vm_without_a_row_sets_the_hold_and_nothing_moves(quick_fleet: Fleet) -> None:
    fleet = quick_fleet
    lease_id = fleet.create(ttl=5.0)
    fleet.drive_to(lease_id, "active")
    planted = plant_genuine(fleet, NEWER_LEASE)
    inventory(fleet)
    assert "has lost the rows of 1 VMs" in fleet.hold()["reason"]
    assert NEWER_LEASE in fleet.hold()["reason"]
    waiting = fleet.create()
    fleet.let_pass(5.0)
    for _ in range(3):
        inventory(fleet)
        fleet.step()
    assert fleet.lease(lease_id).state == "active", "no expiry under the hold"
    assert fleet.lease(waiting).state == "queued", "no launch under the hold"
    assert fleet.is_alive(planted), "no kill under the hold, also past the deadline"
    fleet.resume()
    fleet.drive(lambda: fleet.lease(lease_id).state == "released" and fleet.lease(waiting).state == "active")
    fleet.drive(lambda: not fleet.is_alive(planted))
    assert fleet.orphans()[0].cause == "lost_row"


@pytest.mark.parametrize("lost", [OLDER_LEASE, NEWER_LEASE])
def test_the_order_of_lease_ids_decides_nothing(fleet: Fleet, lost: LeaseId) -> None:
    """Lease ids hold the clock of the host that made them."""
    active(fleet, 1)
    planted = plant_genuine(fleet, lost, deadline="4000000000")
    (copy,) = fleet.plant(tags=tags_of(fleet, NEWER_LEASE, "4000000000"))
    inventory(fleet)
    assert lost in fleet.hold()["reason"]
    fleet.resume()
    fleet.drive(lambda: not fleet.is_alive(copy))
    for _ in range(3):
        inventory(fleet)
    assert fleet.is_alive(planted)
    assert fleet.hold() is None, "an operator has seen it"
    assert {one.instance_id: one.cause for one in fleet.orphans()} == {planted: "lost_row", copy: "copied_tags"}


def test_a_copied_tag_sets_no_hold(fleet: Fleet) -> None:
    active(fleet, 1)
    for lease_id in (OLDER_LEASE, NEWER_LEASE):
        fleet.plant(tags=tags_of(fleet, lease_id))
    inventory(fleet)
    assert fleet.hold() is None
    assert {one.cause for one in fleet.orphans()} == {"copied_tags"}


def test_each_vm_of_a_lost_row_sets_the_hold_once(fleet: Fleet) -> None:
    plant_genuine(fleet, OLDER_LEASE, deadline="4000000000")
    inventory(fleet)
    fleet.resume()
    inventory(fleet)
    assert fleet.hold() is None
    plant_genuine(fleet, NEWER_LEASE, deadline="4000000000")
    inventory(fleet)
    assert "1 VMs" in fleet.hold()["reason"]


def test_a_vm_of_a_lost_row_is_ended_by_an_operator_or_at_its_present_deadline(fleet: Fleet) -> None:
    by_operator = plant_genuine(fleet, OLDER_LEASE, deadline="4000000000")
    by_deadline = plant_genuine(fleet, NEWER_LEASE, deadline="4000000000")
    inventory(fleet)
    fleet.resume()
    ids = {one.instance_id: one.id for one in fleet.orphans()}
    fleet.runtime.database.run(end_orphan(ids[by_operator]))
    fleet.drive(lambda: not fleet.is_alive(by_operator))
    assert fleet.is_alive(by_deadline)
    past = datetime(2020, 1, 1, tzinfo=UTC)
    fleet.runtime.accounts.provider(ACCOUNT).set_deadline(REGION, [by_deadline], past)
    fleet.drive(lambda: not fleet.is_alive(by_deadline))


def test_a_hold_that_is_set_between_a_decision_and_its_write_stops_the_expiry(
    quick_fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = quick_fleet
    lease_id = fleet.create(ttl=3.0)
    fleet.drive_to(lease_id, "active")
    monkeypatch.setitem(STEPS, BeginRelease, StepSpec(held_before(fleet, begin_release)))
    fleet.drive(lambda: fleet.hold() is not None, seconds=10)
    assert fleet.lease(lease_id).state == "active"
    fleet.resume()
    monkeypatch.undo()
    assert fleet.drive_to(lease_id, "released").reason["code"] == "expired"


def test_a_hold_that_is_set_before_the_call_stops_the_end_of_a_vm(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lease_id,) = active(fleet, 1)
    fleet.end(lease_id)
    monkeypatch.setitem(STEPS, Terminate, StepSpec(held_before(fleet, terminate)))
    fleet.drive(lambda: fleet.hold() is not None)
    assert len(fleet.vms()) == 1
    fleet.resume()
    monkeypatch.undo()
    fleet.drive_to(lease_id, "released")


def accounts_file(fleet: Fleet) -> str:
    config = fleet.runtime.settings.config
    assert config is not None
    return config.read_text()


def held_before(fleet: Fleet, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step, on an installation that was put on hold after the step was decided."""

    def held(*arguments: Any) -> Any:
        fleet.put_on_hold()
        return step(*arguments)

    return held


def test_an_account_with_another_name_shows_no_lost_rows(
    fleet: Fleet, make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    (lease_id,) = active(fleet, 1)
    renamed = tmp_path / "renamed.toml"
    renamed.write_text(accounts_file(fleet).replace(f'"{ACCOUNT}"', '"renamed"'))
    worker = make_fleet(config=renamed, observe=False)
    assert {name for name, _ in worker.runtime.accounts.places()} == {ACCOUNT, "renamed"}
    for name in (ACCOUNT, "renamed"):
        take_inventory(worker.runtime, name, REGION)
    assert worker.hold() is None
    assert worker.orphans() == []
    assert worker.lease(lease_id).state == "active"


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("system_identifier = '1'", "another PostgreSQL cluster"),
        ("timeline = 99", "another PostgreSQL cluster"),
        ("database_identity = '1/1'", "a dump of another database"),
    ],
)
def test_another_cluster_timeline_or_database_sets_the_hold(fleet: Fleet, column: str, reason: str) -> None:
    fleet.runtime.database.run(text(f"UPDATE installation SET {column}"))
    inventory(fleet)
    assert reason in fleet.hold()["reason"]
    fleet.resume()
    inventory(fleet)
    assert fleet.hold() is None, "resuming makes the present cluster the right one"


def test_a_step_on_another_timeline_sets_the_hold_before_it_asks_the_cloud_anything(fleet: Fleet) -> None:
    active_lease, ending, waiting = fleet.active(), fleet.active(), fleet.create()
    fleet.end(ending)
    fleet.change_timeline()
    fleet.make_due(active_lease)
    calls = fleet.sim.calls()
    assert fleet.step() == 3
    assert "another PostgreSQL cluster or timeline" in fleet.hold()["reason"]
    for lease_id in (active_lease, ending, waiting):
        fleet.make_due(lease_id)
    fleet.step()
    assert fleet.sim.calls() == calls
    fleet.resume()
    fleet.drive_to(ending, "released")
    fleet.drive_to(waiting, "active")


def test_a_job_on_another_timeline_sets_the_hold_before_it_runs(fleet: Fleet) -> None:
    holds = []
    kind = JobSpec(name="test", run=lambda *_: holds.append(fleet.hold()), interval=lambda _: 1.0)
    ensure_jobs(fleet.runtime, {"test": kind})
    fleet.change_timeline()
    assert PeriodicRunner(fleet.runtime, {"test": kind}).run_one()
    assert "another PostgreSQL cluster or timeline" in holds[0]["reason"]


def test_a_worker_that_may_not_read_the_timeline_does_not_start(
    databases: Databases, make_fleet: Callable[..., Fleet]
) -> None:
    with psycopg.connect(databases.owner_url, autocommit=True) as superuser:
        superuser.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC")
        try:
            with pytest.raises(StartupError, match=r"lacks a right .*pg_walfile_name.*Database logins"):
                make_fleet(observe=False)
        finally:
            superuser.execute("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO PUBLIC")


def test_an_idle_process_notices_another_timeline(fleet: Fleet) -> None:
    runtime = fleet.runtime
    thread = threading.Thread(target=runtime.liveness.loop(runtime.stopping, runtime.nudge).run)
    thread.start()
    try:
        fleet.change_timeline()
        assert wait_until(lambda: fleet.hold() is not None, timeout=10)
    finally:
        runtime.stopping.set()
        thread.join()


def test_nothing_is_launched_before_the_first_complete_listing_of_a_new_worker(
    fleet: Fleet, make_fleet: Callable[..., Fleet]
) -> None:
    new = make_fleet(observe=False)
    fleet.sim.fault("DescribeInstances", "error", code="InternalError", times=None)
    lease_id = new.create()
    for _ in range(3):
        with suppress(ProviderError):
            inventory(new)
        new.step()
        new.make_due(lease_id)
    assert new.runs() == 0
    fleet.sim.clear_faults()
    assert new.drive_to(lease_id, "active").state == "active"


def test_a_worker_of_another_installation_does_not_start(fleet: Fleet, make_fleet: Callable[..., Fleet]) -> None:
    with pytest.raises(StartupError, match=fleet.runtime.installation.id):
        make_fleet(installation_id="gpl-another")


def test_an_account_that_left_the_configuration_is_drained_and_never_ended(
    fleet: Fleet, make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    (lease_id,) = active(fleet, 1)
    empty = tmp_path / "empty.toml"
    empty.touch()
    rest = make_fleet(config=empty, observe=False)
    assert rest.account().state == "draining"
    assert (ACCOUNT, REGION) in rest.runtime.accounts.places()
    rest.drive(lambda: rest.step() == 0)
    assert rest.lease(lease_id).state == "active"
    waiting = rest.create(wait_seconds=60)
    rest.step()
    assert rest.lease(waiting).state == "queued"
    rest.end(lease_id)
    assert rest.drive_to(lease_id, "released").state == "released"
    assert rest.vms() == []
    rest.end(waiting)
    rest.drive_to(waiting, "released")


def test_a_region_that_left_the_configuration_is_served_until_its_last_vm_is_gone_and_used_for_nothing_new(
    fleet: Fleet, make_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    (lease_id,) = active(fleet, 1)
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(accounts_file(fleet).replace(REGION, "eu-west-1"))
    rest = make_fleet(config=elsewhere, observe=False)
    assert set(rest.runtime.accounts.places()) == {(ACCOUNT, "eu-west-1"), (ACCOUNT, REGION)}
    inventory(rest)
    assert not rest.runtime.catalogue.offerings(), "nothing new is launched there"
    rest.end(lease_id)
    assert rest.drive_to(lease_id, "released").state == "released"
    assert rest.vms() == []
    assert rest.runtime.accounts.places() == [(ACCOUNT, "eu-west-1")]
