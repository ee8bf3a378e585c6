"""The judge of `make agents` finds what is wrong, and nothing else."""

from decimal import Decimal
from typing import Any

import pytest

from tests.agents.__main__ import Asked, judge

ASKED = Asked(budget=Decimal("5.00"), seconds=1.0, ttl=60)
FINE: dict[str, Any] = {
    "agent died early": False,
    "refused by the budget": 7,
    "live leases when killed": 3,
    "MCP server ended by itself": True,
    "cost of the leases": "5.00",
    "spent of the budget": "4.999999",
    "committed of the budget": "0.00",
    "leases left": 0,
    "VMs left": 0,
    "resources left": 0,
}


def test_a_run_that_keeps_its_budget_and_leaves_nothing_has_no_faults() -> None:
    assert judge(FINE, ASKED) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent died early", True),
        ("refused by the budget", 0),
        ("live leases when killed", 0),
        ("MCP server ended by itself", False),
        ("cost of the leases", "5.000001"),
        ("cost of the leases", "2.49"),
        ("spent of the budget", "5.000001"),
        ("committed of the budget", "0.01"),
        ("leases left", 1),
        ("VMs left", 1),
        ("resources left", 1),
    ],
)
def test_each_fault_is_found(name: str, value: object) -> None:
    (fault,) = judge({**FINE, name: value}, ASKED)
    assert fault
