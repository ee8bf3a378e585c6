"""What the judge of chaos holds against gpulease after the database has lost rows."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from app.domain.tags import LEASE
from tests.chaos.course import Course
from tests.chaos.judgement import Judge
from tests.chaos.losses import Losses
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Tenant

VM: Json = {"id": "vm-1", "tags": {LEASE: "lease_1"}, "end_reason": "user", "boot_failure": None}


def _clock() -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC)


class Things:
    """A cloud's VMs, or a tenant's leases."""

    id = "tenant_1"

    def __init__(self, *things: Json) -> None:
        self._things = list(things)

    def vms(self, *_: str) -> Sequence[Json]:
        return self._things

    def leases(self) -> Sequence[Json]:
        return self._things


def losses(*vms: Json, leases: Sequence[Json] = ()) -> Losses:
    found = Losses(cast(Tenant, Things(*leases)), cast(Cloud, Things(*vms)), "", _clock)
    found.vms = {vm["id"]: vm["tags"][LEASE] for vm in vms}
    return found


def test_a_vm_of_a_lost_row_that_gpulease_ended_is_wrong() -> None:
    assert losses(VM).ended(list, []) == ["vm-1 of lease_1"]


@pytest.mark.parametrize("changes", [{"end_reason": "reclaimed"}, {"boot_failure": "ZonalAllocationFailed"}])
def test_a_vm_that_its_cloud_ended_or_never_ran_may_end(changes: Json) -> None:
    assert losses(VM | changes).ended(list, []) == []


def test_a_launch_whose_sending_was_lost_may_be_sent_again_when_others_ended_its_vm() -> None:
    lost = losses()
    lost.unsent = {"vm-1", "vm-2"}
    assert lost.forgotten({"vm-1", "vm-3"}) == {"vm-1"}


def member(number: int, code: str) -> Json:
    placement = {"instance_id": f"zone:vm-{number}"}
    return {"id": f"lease_{number}", "group_id": "group_1", "reason": {"code": code}, "placement": placement}


@pytest.mark.parametrize(
    ("code", "other", "stopped", "cancelled", "may_end"),
    [
        ("group_member_lost", member(2, "instance_lost"), {"vm-2"}, set(), True),
        ("group_member_lost", member(2, "released_by_user"), set(), {"lease_2"}, True),
        ("group_member_lost", member(2, "interrupted"), set(), set(), True),
        # a group that is not formed yet ends for the reason of its member
        ("released_by_user", member(2, "released_by_user"), set(), {"lease_2"}, True),
        ("released_by_user", member(2, "released_by_user"), set(), set(), False),
        # nothing of the run ended it: gpulease took a lost row for a lost member
        ("group_member_lost", member(2, "instance_lost"), set(), set(), False),
    ],
)
def test_a_member_may_end_with_its_group_when_the_run_took_others(
    code: str, other: Json, stopped: set[str], cancelled: set[str], *, may_end: bool
) -> None:
    course = Course()
    course.stopped |= stopped
    course.cancelled |= cancelled
    mine = member(1, code)
    lost = losses(VM, leases=[mine, other])
    lost.group_of = {"lease_1": "group_1"}
    unused: Any = None
    tenant = cast(Tenant, Things(mine, other))
    judge = Judge(
        unused, tenant, course, lost, duty=unused, purse=unused, groups=unused, volumes=unused, hostile=unused
    )
    assert ("lease_1" in judge._over()) is may_end
