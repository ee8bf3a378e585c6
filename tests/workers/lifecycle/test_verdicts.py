"""The account is set aside only when it does not accept our credentials; any other refusal concerns one thing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from app.db.fleet import accounts
from cloudsim.testing import Control
from tests.workers.failing import REJECTED, Failing
from tests.workers.fleet import ACCOUNT, NEVER, REGION, Fleet
from tests.workers.test_images import PARAMETER
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.providers.errors import (
    AccountBlocked,
    CredentialsRejected,
    InvalidSpec,
    NotPermitted,
    Refused,
    RegionBlocked,
)
from workers.runtime.runtime import Runtime

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


def end_block(fleet: Fleet, *, since: str) -> None:
    """The pause is over. `since`: when the first refusal was, in SQL."""
    change = f"UPDATE account_region SET blocked_since = {since}, blocked_until = now() - interval '1 second'"
    with fleet.runtime.database.begin() as connection:
        connection.execute(text(change))


BLOCKED = AccountBlocked("the account is blocked", code="Blocked")
VERIFYING = RegionBlocked("the account is being verified", code="PendingVerification")


@pytest.mark.parametrize("error", [BLOCKED, VERIFYING])
def test_an_account_that_may_launch_nothing_is_set_aside_at_its_first_refusal(
    fleet: Fleet, failing: Failing, error: AccountBlocked
) -> None:
    running = fleet.active()
    failing.errors = {"launch": error}
    lease_id = fleet.create()
    failed = fleet.drive_to(lease_id, "failed")
    assert [one.error["class"] for one in fleet.attempts(lease_id)] == [error.kind], "no other offering is tried"
    assert failed.reason["code"] == "provider_auth"
    assert "blocked" not in failed.reason["message"], "tenants do not read the provider's words"
    assert fleet.cooling() == []
    region = fleet.region()
    assert region.blocked_by == {"class": error.kind, "code": error.code, "message": error.message}
    assert 590 < (region.blocked_until - region.blocked_since).total_seconds() <= 600
    assert fleet.account().state == "ok"
    later = fleet.drive_to(fleet.create(), "failed")
    assert later.reason["code"] == "provider_auth"
    assert fleet.lease(running).state == "active"
    fleet.end(running)
    fleet.drive_to(running, "released")


def test_a_blocked_account_is_tried_again_with_growing_pauses(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"launch": BLOCKED}
    fleet.drive_to(fleet.create(), "failed")
    pauses = []
    for minutes in (25, 120):
        past = f"now() - interval '{minutes} minutes'"
        end_block(fleet, since=past)
        fleet.runtime.catalogue.forget()
        fleet.drive_to(fleet.create(), "failed")
        region = fleet.region()
        pauses.append(round((region.blocked_until - fleet.now()).total_seconds() / 60))
    assert pauses == [25, 60]
    end_block(fleet, since="blocked_since")
    fleet.runtime.catalogue.forget()
    failing.errors = {}
    fleet.drive_to(fleet.create(), "active")


def test_refusals_of_launches_on_their_way_do_not_prolong_the_pause(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"launch": BLOCKED}
    first = fleet.create()
    fleet.drive_to(first, "failed")
    before = fleet.region()
    with fleet.runtime.database.begin() as connection:
        connection.execute(*accounts.block(ACCOUNT, None, {"class": "AccountBlocked", "code": "x", "message": "y"}))
    assert fleet.region() == before


@pytest.mark.parametrize(
    ("error", "concerns_image"),
    [
        (InvalidSpec("no", code="InvalidSubnetID.NotFound"), False),
        (NotPermitted("no", code="ScopeLocked"), False),
        (InvalidSpec("no", code="InvalidAMIID.NotFound"), True),
        (BLOCKED, False),
    ],
)
def test_only_a_refusal_that_may_concern_the_image_sets_the_image_aside(
    make_fleet: Callable[..., Fleet],
    failing: Failing,
    sim: Control,
    tmp_path: Path,
    error: Refused,
    *,
    concerns_image: bool,
) -> None:
    config = tmp_path / "images.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
        f'[accounts.images]\n"marketplace" = "{PARAMETER}"\n'
    )
    fleet = make_fleet(config=config, connect_account=failing.connect)
    error.may_concern_image = concerns_image
    failing.errors = {"launch": error}
    lease_id = fleet.create(image="marketplace")
    fleet.drive_to(lease_id, "failed")
    assert bool(fleet.cooling()) == (not concerns_image and error is not BLOCKED)
    failing.errors = {}
    if concerns_image:
        fleet.drive_to(fleet.create(), "active")


def test_an_account_that_aws_blocks_makes_one_call_and_serves_what_runs(fleet: Fleet) -> None:
    running = fleet.active()
    before = fleet.runs()
    fleet.sim.refuse_launches("Blocked")
    lease_id = fleet.create(wait_seconds=600)
    fleet.pause(lease_id)
    fleet.pause(fleet.create(wait_seconds=600))
    assert fleet.runs() == before + 1
    fleet.end(running)
    fleet.drive_to(running, "released")
    fleet.sim.refuse_launches(None)
    end_block(fleet, since="blocked_since")
    fleet.runtime.catalogue.forget()
    fleet.make_due(lease_id)
    fleet.drive_to(lease_id, "active")
