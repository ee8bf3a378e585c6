"""EC2's records in the interface's words."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import botocore.session
import pytest

from app.domain.leases import VmState
from app.domain.offerings import Market
from workers.providers.aws import vms
from workers.providers.errors import InsufficientCapacity

LAUNCHED = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def record(**changes: Any) -> Any:
    return {
        "InstanceId": "i-0123456789abcdef0",
        "State": {"Name": "running", "Code": 16},
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "InstanceType": "g5.xlarge",
        "LaunchTime": LAUNCHED,
        **changes,
    }


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("User initiated (2026-11-20 12:34:56 GMT)", datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC)),
        ("Server initiated shutdown (2026-02-28 23:59:59 UTC)", datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)),
        ("User initiated", None),
        ("User initiated (yesterday)", None),
        ("", None),
        (None, None),
    ],
)
def test_the_time_of_a_transition_is_read_from_its_reason(text: str | None, time: datetime | None) -> None:
    assert vms.transition_time(text) == time


def test_every_state_that_ec2_has_is_known() -> None:
    model: Any = botocore.session.Session().get_service_model("ec2")
    assert set(vms.STATES) == set(model.shape_for("InstanceStateName").enum)


@pytest.mark.parametrize("state", ["shutting-down", "terminated", "stopping", "stopped"])
def test_an_ending_vm_says_when_and_why(state: str) -> None:
    reason = {"Code": "Client.UserInitiatedShutdown", "Message": "User initiated"}
    vm = vms.from_instance(
        record(
            State={"Name": state, "Code": 48},
            StateReason=reason,
            StateTransitionReason="User initiated (2026-11-20 12:34:56 GMT)",
        ),
        "us-east-1",
    )
    assert vm.ended_at == datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC)
    assert vm.state_reason == {"code": "Client.UserInitiatedShutdown", "message": "User initiated"}
    assert not vm.interrupted


def test_a_vm_that_was_stopped_once_and_runs_again_has_no_end() -> None:
    vm = vms.from_instance(record(StateTransitionReason="User initiated (2026-11-20 11:00:00 GMT)"), "us-east-1")
    assert vm.ended_at is None
    assert vm.state_reason is None


@pytest.mark.parametrize("code", ["Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"])
def test_a_vm_taken_back_is_interrupted(code: str) -> None:
    ended = record(State={"Name": "terminated", "Code": 48}, StateReason={"Code": code, "Message": code})
    vm = vms.from_instance(ended | {"InstanceLifecycle": "spot"}, "us-east-1")
    assert vm.interrupted
    assert vm.market is Market.SPOT


def test_capacity_missing_after_the_launch_is_told_as_the_reason() -> None:
    reason = {"Code": "Server.InsufficientInstanceCapacity", "Message": "Insufficient capacity."}
    vm = vms.from_instance(record(State={"Name": "terminated", "Code": 48}, StateReason=reason), "us-east-1")
    assert vm.state is VmState.GONE
    assert vm.state_reason is not None
    assert vm.state_reason["code"] == "Server.InsufficientInstanceCapacity"
    assert vm.refusal is InsufficientCapacity
    assert not vm.interrupted


def test_times_are_utc_whatever_zone_they_come_in() -> None:
    there = LAUNCHED.astimezone(timezone(timedelta(hours=-5)))
    vm = vms.from_instance(record(LaunchTime=there), "us-east-1")
    assert vm.launched_at == LAUNCHED
    assert vm.launched_at is not None
    assert vm.launched_at.tzinfo is UTC


def test_a_vm_without_tags_token_and_addresses_is_read_too() -> None:
    vm = vms.from_instance(record(ClientToken=""), "us-east-1")
    assert (vm.tags, vm.launch_identity, vm.public_ip, vm.private_ip) == ({}, None, None, None)
