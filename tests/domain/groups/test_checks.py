"""Reports of members about their group, as VMs send them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.groups.checks import AllReduceResult, GroupCheck, MeshResult, parse_group_check

WHOLE = {"nodes": 4, "mesh": "failed", "unreachable": [1, 3], "all_reduce": "ok", "all_reduce_gbps": 178.4}


def test_a_report_is_stored_as_it_is_shown() -> None:
    check = parse_group_check(WHOLE)
    assert check == GroupCheck(
        nodes=4,
        mesh=MeshResult.FAILED,
        unreachable=(1, 3),
        all_reduce=AllReduceResult.OK,
        all_reduce_gbps=178.4,
    )
    assert check.as_json(datetime(2026, 6, 1, tzinfo=UTC)) == {**WHOLE, "checked_at": "2026-06-01T00:00:00Z"}


def test_an_all_reduce_may_be_missing() -> None:
    check = parse_group_check({"nodes": 1, "mesh": "ok", "from": "a later version"})
    assert (check.unreachable, check.all_reduce, check.all_reduce_gbps) == ((), None, None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nodes": 0}, "check.nodes must be a whole number from 1 to 256"),
        ({"nodes": None}, "check.nodes is required"),
        ({"mesh": None}, "check.mesh is required"),
        ({"mesh": "good"}, "check.mesh must be one of ok, failed"),
        ({"unreachable": [256]}, r"check.unreachable\[0\] must be a whole number from 0 to 255"),
        ({"unreachable": [True]}, r"check.unreachable\[0\] must be"),
        ({"unreachable": list(range(257))}, "at most 256 entries"),
        ({"unreachable": "1"}, "check.unreachable must be a list"),
        ({"all_reduce": "maybe"}, "check.all_reduce must be one of"),
        ({"all_reduce_gbps": -1}, "check.all_reduce_gbps must be from 0"),
        ({f"x{number}": 1 for number in range(17)}, "too many unknown members"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_group_check({**WHOLE, **change})
