"""Credentials that change under a running worker: nothing is made or ended with credentials that were not verified."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.domain.ids import LeaseId
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.wallet import OURS, RENEWED, THEIRS, Wallet
from workers.observation.inventory import take_inventory
from workers.observation.watch import watch
from workers.providers.errors import ProviderError

OTHER_ACCOUNT = "000000000002"


@pytest.fixture
def wallet(sim: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wallet:
    """Takes the place of the credentials in the environment that `sim` has set."""
    assert sim
    return Wallet(tmp_path, monkeypatch)


@pytest.fixture
def fleet(wallet: Wallet, make_fleet: Callable[..., Fleet]) -> Fleet:
    assert wallet is not None
    return make_fleet()


def strangers(fleet: Fleet) -> list[dict[str, Any]]:
    return fleet.sim.instances(account=OTHER_ACCOUNT)


def questions(fleet: Fleet) -> int:
    return fleet.sim.calls().get("GetCallerIdentity", 0)


def test_credentials_of_another_account_launch_nothing_within_the_time_of_trust(fleet: Fleet, wallet: Wallet) -> None:
    fleet.active()
    wallet.put(THEIRS)
    lease_id = fleet.create(wait_seconds=60)
    fleet.drive(lambda: fleet.step() == 0)
    assert strangers(fleet) == []
    assert fleet.account().state == "disabled"
    (attempt,) = fleet.attempts(lease_id)
    assert (attempt.state, attempt.error["class"]) == ("refused", "IdentityChanged")
    wallet.put(OURS)
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    assert fleet.account().state == "ok"
    fleet.end_cool_offs()
    assert fleet.drive_to(lease_id, "active").state == "active"


def test_credentials_of_another_account_end_nothing_and_what_they_see_is_not_believed(
    fleet: Fleet, wallet: Wallet
) -> None:
    kept, ending = fleet.active(), fleet.active()
    wallet.put(THEIRS)
    fleet.end(ending)
    fleet.step()
    (attempt,) = fleet.attempts(ending)
    assert (attempt.terminate_sent_at, attempt.error["class"]) == (None, "IdentityChanged")
    assert len(fleet.vms()) == 2
    for look in (watch, take_inventory):
        with pytest.raises(ProviderError):
            look(fleet.runtime, ACCOUNT, REGION)
    assert fleet.lease(kept).state == "active"
    wallet.put(OURS)
    assert fleet.drive_to(ending, "released").state == "released"
    assert [vm["tags"]["gpulease-lease"] for vm in fleet.vms()] == [kept]


def test_renewed_credentials_are_verified_once_and_go_on(fleet: Fleet, wallet: Wallet) -> None:
    fleet.active()
    before = questions(fleet)
    wallet.put(RENEWED)
    leases: list[LeaseId] = [fleet.create() for _ in range(3)]
    fleet.wait_for(lambda: not fleet.step() and all(fleet.attempts(one)[0].state == "known" for one in leases))
    assert questions(fleet) == before + 1, "once for the new credentials, not once a launch"


def test_what_a_new_worker_ends_first_is_ended_with_verified_credentials(
    fleet: Fleet, wallet: Wallet, make_fleet: Callable[..., Fleet]
) -> None:
    lease_id = fleet.active()
    fleet.end(lease_id)
    wallet.put(THEIRS)
    stranger = make_fleet(observe=False)
    stranger.step()
    assert fleet.attempts(lease_id)[0].terminate_sent_at is None
    assert "TerminateInstances" not in fleet.sim.calls()


def test_a_launch_whose_credentials_cannot_be_verified_is_not_sent_and_not_unknown(
    fleet: Fleet, wallet: Wallet
) -> None:
    fleet.active()
    wallet.put(RENEWED)
    fleet.sim.fault("GetCallerIdentity", "error", code="InternalError", times=None)
    lease_id = fleet.create()
    fleet.step()
    (attempt,) = fleet.attempts(lease_id)
    assert (attempt.state, attempt.unknown_since, attempt.error["class"]) == ("sent", None, "Unreachable")
    fleet.sim.clear_faults()
    assert fleet.drive_to(lease_id, "active").state == "active"
