"""What the VM of a group's member finds when it checks its group: a connection to each other member, and one all-reduce."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.domain.gpus.report_values import Reader, check_keys
from app.domain.groups.groups import MOST_MEMBERS

_FASTEST = 1_000_000.0
"""GB/s: no bus is faster."""


class MeshResult(StrEnum):
    """Whether the VM reaches every other member."""

    OK = "ok"
    FAILED = "failed"


class AllReduceResult(StrEnum):
    """How the all-reduce over all GPUs of the group ended on this VM."""

    OK = "ok"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCheck:
    """`nodes`: the members that the VM knew, itself included. `unreachable`: ranks that did not answer.

    `all_reduce` None: it was not tried. `all_reduce_gbps`: the bus bandwidth in GB/s.
    """

    nodes: int
    mesh: MeshResult
    unreachable: tuple[int, ...] = ()
    all_reduce: AllReduceResult | None = None
    all_reduce_gbps: float | None = None

    def as_json(self, checked_at: datetime) -> dict[str, Any]:
        """The stored form, which the API shows."""
        return {
            "nodes": self.nodes,
            "mesh": str(self.mesh),
            "unreachable": list(self.unreachable),
            "all_reduce": None if self.all_reduce is None else str(self.all_reduce),
            "all_reduce_gbps": self.all_reduce_gbps,
            "checked_at": checked_at.isoformat().replace("+00:00", "Z"),
        }


_KEYS = ("nodes", "mesh", "unreachable", "all_reduce", "all_reduce_gbps")


def parse_group_check(report: Mapping[str, Any]) -> GroupCheck:
    """Reads a report. Raises ValueError naming what is wrong with it."""
    check_keys(report, _KEYS, "check")
    reader = Reader(report, "check")
    nodes, mesh = reader.integer("nodes", 1, MOST_MEMBERS, required=True), reader.choice("mesh", MeshResult)
    if nodes is None or mesh is None:
        raise ValueError("check.mesh is required")
    return GroupCheck(
        nodes=nodes,
        mesh=mesh,
        unreachable=reader.integers("unreachable", MOST_MEMBERS, 0, MOST_MEMBERS - 1),
        all_reduce=reader.choice("all_reduce", AllReduceResult),
        all_reduce_gbps=reader.number("all_reduce_gbps", 0.0, _FASTEST),
    )
