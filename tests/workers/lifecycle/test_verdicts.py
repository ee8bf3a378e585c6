"""The account is set aside only when it does not accept our credentials; any other refusal concerns one thing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cloudsim.testing import Control
from tests.workers.failing import REJECTED, Failing
from tests.workers.fleet import ACCOUNT, NEVER, REGION, Fleet
from tests.workers.test_images import PARAMETER
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.providers.errors import CredentialsRejected, InvalidSpec
from workers.runtime import Runtime

ONE_TYPE = CredentialsRejected("a policy forbids this type", code="UnauthorizedOperation")
TERMS = CredentialsRejected("accept the terms of this product", code="OptInRequired")


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], failing: Failing) -> Fleet:
    return make_fleet(connect_account=failing.connect)


@pytest.mark.parametrize("error", [ONE_TYPE, TERMS])
def test_a_refused_launch_cools_off_its_offering(fleet: Fleet, failing: Failing, error: CredentialsRejected) -> None:
    failing.errors = {"launch": error}
    lease_id = fleet.create(wait_seconds=600)
    fleet.pause(lease_id)
    assert fleet.account().state == "ok"
    attempts = fleet.attempts(lease_id)
    assert {(one.state, one.error["class"]) for one in attempts} == {("refused", "NotPermitted")}
    assert {row[1:3] for row in fleet.cooling()} == {("refused", error.code)}
    assert len(fleet.cooling()) == len(attempts) > 1, "the other candidates were tried"


def test_the_account_is_set_aside_when_it_does_not_know_us(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"launch": REJECTED, "identity": REJECTED}
    lease_id = fleet.create(wait_seconds=600)
    fleet.pause(lease_id)
    assert fleet.account().state == "failing"
    assert fleet.cooling() == [], "its offerings are free again as soon as the account is"
    assert fleet.attempts(lease_id)[0].error["class"] == "CredentialsRejected"


def test_an_image_that_the_account_may_not_read_cools_off_the_offering(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"image": ONE_TYPE}
    fleet.pause(fleet.create(wait_seconds=600))
    assert fleet.account().state == "ok"
    assert {row[1:3] for row in fleet.cooling()} == {("refused", "UnauthorizedOperation")}


def test_a_refused_release_leaves_the_account_alone(fleet: Fleet, failing: Failing) -> None:
    lease_id = fleet.active()
    failing.errors = {"terminate": ONE_TYPE}
    fleet.end(lease_id)
    fleet.pause(lease_id)
    assert fleet.account().state == "ok"


@pytest.mark.parametrize(("identity_fails", "state"), [(False, "ok"), (True, "failing")])
def test_a_job_that_may_not_read_a_region(fleet: Fleet, failing: Failing, state: str, *, identity_fails: bool) -> None:
    def run(_runtime: Runtime, _account: str, _region: str) -> None:
        raise ONE_TYPE

    failing.errors = {"identity": REJECTED} if identity_fails else {}
    kinds = {"test": JobSpec(name="test", run=run, interval=lambda _: 1.0)}
    ensure_jobs(fleet.runtime, kinds)
    assert PeriodicRunner(fleet.runtime, kinds).run_one()
    assert fleet.account().state == state
    assert fleet.region().last_error["code"] == "UnauthorizedOperation"


def test_a_refused_image_of_a_tenant_sets_nothing_aside_for_others(
    make_fleet: Callable[..., Fleet], failing: Failing, sim: Control, tmp_path: Path
) -> None:
    config = tmp_path / "images.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
        f'[accounts.images]\n"marketplace" = "{PARAMETER}"\n'
    )
    fleet = make_fleet(config=config, connect_account=failing.connect)
    failing.errors = {"launch": TERMS}
    lease_id = fleet.create(image="marketplace")
    failed = fleet.drive_to(lease_id, "failed")
    assert len(fleet.attempts(lease_id)) == 1, "the image is refused once for all zones of the region"
    assert failed.reason["code"] == "capacity_exhausted"
    assert "OptInRequired" in failed.reason["message"]
    assert fleet.cooling() == []
    failing.errors = {}
    fleet.drive_to(fleet.create(), "active")


def test_a_late_refusal_of_a_named_image_sets_nothing_aside_for_others(
    make_fleet: Callable[..., Fleet], failing: Failing, sim: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC2 accepts the launch and then ends the VM, because of its image."""
    config = tmp_path / "images.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
        f'[accounts.images]\n"marketplace" = "{PARAMETER}"\n'
    )
    fleet = make_fleet(config=config, connect_account=failing.connect)
    fleet.sim.settings(boot_seconds=NEVER)
    monkeypatch.setattr("workers.lifecycle.steps.end.refusal", lambda _reason: InvalidSpec("no", code="Client.Bad"))
    lease_id = fleet.create(image="marketplace")
    fleet.drive(lambda: bool(fleet.vms()))
    fleet.sim.stop(fleet.vms()[0]["id"])
    failed = fleet.drive_to(lease_id, "failed")
    assert [one.state for one in fleet.attempts(lease_id)] == ["refused"]
    assert fleet.cooling() == []
    assert failed.reason["code"] == "provider_error"
