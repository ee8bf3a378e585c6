"""What happens when a provider says no: the next candidate, cool-offs, waiting, giving up with the true reason."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from app.db.tenancy import quotas
from app.domain.ids import LeaseId
from app.settings import AccountSettings, Settings
from tests.workers.fleet import ACCOUNT, AT_LEAST_ONE, LEAST, Fleet
from tests.workers.providers.aws.test_userdata import noise
from workers.providers.aws import userdata
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.errors import InsufficientCapacity
from workers.providers.types import Params, Vm

ZONE_A, ZONE_B = "us-east-1a", "us-east-1b"


def zones(fleet: Fleet) -> list[str]:
    return sorted({o.key.zone for o in fleet.runtime.catalogue.offerings() if o.key.instance_type == "g5.xlarge"})


def test_without_capacity_in_two_zones_the_third_is_taken(fleet: Fleet) -> None:
    first, second, *rest = zones(fleet)
    for zone in (first, second):
        fleet.sim.capacity(0, zone=zone)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    states = [(a.state, a.zone, (a.error or {}).get("code")) for a in fleet.attempts(lease_id)]
    assert states[:2] == [
        ("refused", first, "InsufficientInstanceCapacity"),
        ("refused", second, "InsufficientInstanceCapacity"),
    ]
    assert states[2][0] == "known"
    assert states[2][1] in rest
    assert fleet.runs() == 3
    cooling = {o.key.zone: o.cool_off for o in fleet.runtime.catalogue.offerings() if o.cool_off is not None}
    assert set(cooling) == {first, second}
    assert {c.code for c in cooling.values()} == {"InsufficientInstanceCapacity"}


def test_capacity_that_is_found_missing_after_the_launch_is_a_refusal_too(fleet: Fleet) -> None:
    first, second, *_ = zones(fleet)
    code = "Server.InsufficientInstanceCapacity"
    fleet.sim.fault("boot", "error", code=code)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    refused, launched = fleet.attempts(lease_id)
    assert (refused.state, refused.zone) == ("refused", first)
    assert (refused.error["class"], refused.error["code"]) == ("InsufficientCapacity", code)
    assert (launched.state, launched.zone) == ("known", second)
    assert refused.billing_started_at is None
    cooling = [(o.key.zone, o.cool_off) for o in fleet.runtime.catalogue.offerings() if o.cool_off is not None]
    assert [(zone, cool_off.reason, cool_off.code) for zone, cool_off in cooling] == [(first, "no_capacity", code)]
    assert "attempt.refused" in fleet.events(lease_id)


def test_no_capacity_anywhere_fails_with_the_reason_and_returns_the_quota(fleet: Fleet) -> None:
    fleet.sim.capacity(0)
    lease_id = fleet.create()
    failed = fleet.drive_to(lease_id, "failed", "released")
    assert failed.state == "failed"
    assert failed.reason["code"] == "capacity_exhausted"
    assert failed.reason["retryable"]
    assert "InsufficientInstanceCapacity" in failed.reason["message"]
    assert len(fleet.attempts(lease_id)) == len(zones(fleet))
    assert fleet.used() == {}


def test_a_waiting_lease_goes_back_to_the_queue_and_starts_when_capacity_returns(fleet: Fleet) -> None:
    fleet.sim.capacity(0)
    lease_id = fleet.create(wait_seconds=600)
    fleet.drive(lambda: "lease.queued" in fleet.events(lease_id))
    waiting = fleet.lease(lease_id)
    assert waiting.state == "queued"
    assert waiting.reason["code"] == "capacity_exhausted"
    assert fleet.used() == {name: Decimal(amount) for name, amount in waiting.minimum_claim.items()}
    fleet.sim.capacity(None)
    fleet.end_cool_offs()
    fleet.make_due(lease_id)
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"


def test_our_quota_at_the_provider_is_told_as_such(fleet: Fleet) -> None:
    fleet.sim.quota("L-DB2E81BA", 0)
    failed = fleet.drive_to(fleet.create(), "failed")
    assert failed.reason["code"] == "provider_quota"


def test_a_missing_image_is_told_as_such(fleet: Fleet) -> None:
    fleet.sim.fault("GetParameter", "error", code="ParameterNotFound", times=None)
    fleet.sim.fault("DescribeImages", "error", code="InvalidAMIID.NotFound", times=None)
    failed = fleet.drive_to(fleet.create(), "failed")
    assert failed.reason["code"] == "image_missing"
    assert fleet.runs() == 0


def test_what_is_too_long_for_a_launch_ends_the_lease_at_once_and_is_never_tried_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(userdata, "LIMIT", 1024)
    lease_id = fleet.create(wait_seconds=600, script=f"#!/bin/sh\n{noise(4096)}")
    failed = fleet.drive_to(lease_id, "failed")
    shown = {name: failed.reason[name] for name in ("code", "origin", "retryable")}
    assert shown == {"code": "request_too_long", "origin": "user", "retryable": False}
    assert failed.ended_at < failed.wait_until
    assert (fleet.runs(), fleet.attempts(lease_id)) == (0, [])


def test_throttling_never_fails_a_lease(fleet: Fleet) -> None:
    fleet.sim.fault("RunInstances", "throttle", times=3)
    lease_id = fleet.create()
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    assert [a.n for a in fleet.attempts(lease_id)] == [1]
    assert len(fleet.vms()) == 1


def test_wrong_credentials_set_the_account_aside_with_the_reason(fleet: Fleet) -> None:
    fleet.sim.credentials(bad=["AKIASIMULATED0000001"])
    lease_id = fleet.create()
    failed = fleet.drive_to(lease_id, "failed")
    assert failed.reason["code"] == "provider_auth"
    account = fleet.account()
    assert account.name == ACCOUNT
    assert account.state == "failing"
    assert account.last_error["code"] == "AuthFailure"
    assert all(o.account_problem for o in fleet.runtime.catalogue.offerings())
    fleet.sim.credentials(bad=[])
    fleet.refresh()
    assert fleet.account().state == "ok"
    assert fleet.drive_to(fleet.create(), "active", "failed").state == "active"


def test_an_offering_that_does_not_fit_the_quota_is_skipped(fleet: Fleet) -> None:
    fleet.limit("gpus", 3)
    lease_id = fleet.create(instance_types=["g5.12xlarge"], gpu=AT_LEAST_ONE, reserved=LEAST)
    failed = fleet.drive_to(lease_id, "failed")
    assert failed.reason["code"] == "quota_exceeded"
    assert fleet.runs() == 0
    assert fleet.used() == {}


def test_a_price_cap_below_every_offering_is_told(fleet: Fleet) -> None:
    failed = fleet.drive_to(fleet.create(max_price_per_hour="0.01"), "failed")
    assert failed.reason["code"] == "price_cap"


def test_the_chosen_offering_is_what_the_quota_holds(fleet: Fleet) -> None:
    lease_id = fleet.create(instance_types=["g5.12xlarge"], gpu=AT_LEAST_ONE)
    fleet.drive_to(lease_id, "active")
    used = fleet.used()
    assert used["gpus"] == used["gpus:A10G"] == 4
    assert used["spend_per_hour"] == fleet.lease(lease_id).rate_per_hour, "with disks and address"


def test_an_emergency_stop_keeps_leases_in_the_queue(fleet: Fleet) -> None:
    fleet.stop_launches()
    lease_id = fleet.create()
    for _ in range(3):
        fleet.step()
    assert fleet.lease(lease_id).state == "queued"
    assert fleet.runs() == 0


def test_a_refusal_after_the_price_fell_returns_what_it_can_and_the_lease_still_ends(
    make_fleet: Callable[..., Fleet],
) -> None:
    others: list[LeaseId] = []

    class Refusing(AwsProvider):
        """Another lease takes the spend that became free, then the cloud refuses."""

        def launch(self, region: str, params: Params) -> Vm:
            if not others:
                others.append(fleet.create(reserved={**LEAST, "spend_per_hour": Decimal("0.5")}))
            raise InsufficientCapacity("none", code="InsufficientInstanceCapacity")

    def connect(account: AccountSettings, settings: Settings) -> AwsProvider:
        assert isinstance(account, AwsAccount)
        return Refusing(account, settings)

    fleet = make_fleet(connect_account=connect)
    fleet.limit("spend_per_hour", Decimal("1.1"))
    either: dict[str, Any] = {
        "gpu": None,
        "instance_types": ["g5.xlarge", "g4dn.xlarge"],
    }
    fleet.set_price("g4dn.xlarge", Decimal("1.006"))
    lease_id = fleet.create(**either, wait_seconds=600)
    reserved = fleet.used()
    assert reserved == {**LEAST, "spend_per_hour": Decimal("1.021959")}, "with its disk and its address"
    fleet.set_price("g5.xlarge", Decimal("0.5"))
    fleet.drive(lambda: [attempt.state for attempt in fleet.attempts(lease_id)][:1] == ["refused"])
    for one in (lease_id, *others):
        fleet.end(one)
    fleet.drive_all_to((lease_id, *others), "released")
    assert fleet.used() == {}
    assert fleet.runtime.database.all(quotas.RECOUNT) == []
