"""Brakes: a mistaken view of the world ends nothing and closes nothing."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text

from app.domain.ids import LeaseId
from app.settings import StartupError
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.inventory import take_inventory
from workers.providers.base import CredentialsRejected, ProviderError

NO_LEASE = "lease_01m7wh00000000000000000000"
NEWER_LEASE = "lease_7zzzzzzzzzzzzzzzzzzzzzzzzz"


def inventory(fleet: Fleet) -> None:
    take_inventory(fleet.runtime, ACCOUNT, REGION)


def active(fleet: Fleet, count: int) -> list[LeaseId]:
    leases = [fleet.create() for _ in range(count)]
    fleet.drive(lambda: all(fleet.lease(one).state == "active" for one in leases), seconds=30)
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
    fleet.drive(lambda: all(fleet.lease(one).state == "released" for one in leases))


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


def test_a_tag_newer_than_the_database_sets_the_hold_and_nothing_moves(fleet: Fleet) -> None:
    lease_id = fleet.create(ttl=5.0)
    fleet.drive_to(lease_id, "active")
    (planted,) = fleet.plant(
        tags={
            "gpulease-installation": fleet.runtime.installation.id,
            "gpulease-lease": NEWER_LEASE,
            "gpulease-attempt": "1",
            "gpulease-deadline": "1",
        }
    )
    inventory(fleet)
    assert "newer than this database" in fleet.hold()["reason"]
    waiting = fleet.create()
    fleet.runtime.stopping.wait(5.0)
    for _ in range(3):
        inventory(fleet)
        fleet.step()
    assert fleet.lease(lease_id).state == "active", "no expiry under the hold"
    assert fleet.lease(waiting).state == "queued", "no launch under the hold"
    assert fleet.is_alive(planted), "no kill under the hold"
    fleet.resume()
    fleet.drive(lambda: fleet.lease(lease_id).state == "released" and fleet.lease(waiting).state == "active")
    fleet.drive(lambda: not fleet.is_alive(planted))


def test_an_older_lease_id_that_the_database_does_not_know_sets_no_hold(fleet: Fleet) -> None:
    active(fleet, 1)
    tags = {"gpulease-installation": fleet.runtime.installation.id, "gpulease-lease": NO_LEASE, "gpulease-attempt": "1"}
    fleet.plant(tags=tags)
    inventory(fleet)
    assert fleet.hold() is None


@pytest.mark.parametrize("column", ["system_identifier = '1'", "timeline = 99"])
def test_another_cluster_or_timeline_sets_the_hold(fleet: Fleet, make_fleet: Callable[..., Fleet], column: str) -> None:
    fleet.runtime.database.run(text(f"UPDATE installation SET {column}"))
    inventory(fleet)
    assert "another PostgreSQL cluster" in fleet.hold()["reason"]
    fleet.resume()
    inventory(fleet)
    assert fleet.hold() is None, "resuming makes the present cluster the right one"


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
    fleet: Fleet, make_fleet: Callable[..., Fleet]
) -> None:
    (lease_id,) = active(fleet, 1)
    rest = make_fleet(config=None, observe=False)
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
    elsewhere.write_text((tmp_path / "gpulease.toml").read_text().replace(REGION, "eu-west-1"))
    rest = make_fleet(config=elsewhere, observe=False)
    assert set(rest.runtime.accounts.places()) == {(ACCOUNT, "eu-west-1"), (ACCOUNT, REGION)}
    inventory(rest)
    assert not rest.runtime.catalogue.offerings(), "nothing new is launched there"
    rest.end(lease_id)
    assert rest.drive_to(lease_id, "released").state == "released"
    assert rest.vms() == []
    assert rest.runtime.accounts.places() == [(ACCOUNT, "eu-west-1")]
