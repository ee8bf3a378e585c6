"""What the process chaos asks for is drawn from its seed alone."""

from itertools import pairwise

import pytest

from tests.chaos.orders import LARGEST, SMALLEST, orders


@pytest.mark.parametrize("leases", [1, 40, 1000])
def test_orders_come_to_the_wanted_number_of_leases(leases: int) -> None:
    drawn = list(orders(1, leases))
    assert drawn == list(orders(1, leases))
    assert sum(order.leases for order in drawn) == leases
    assert all(one.number + one.leases == other.number for one, other in pairwise(drawn))


def test_the_default_run_has_groups_of_every_size_and_kind_and_bursts() -> None:
    drawn = [order for seed in (1, 2, 3) for order in orders(seed, 1000)]
    groups = [order.group for order in drawn if order.group is not None]
    sizes = {group["size"] for group in groups}
    assert (min(sizes), max(sizes)) == (SMALLEST, LARGEST)
    for name, values in (
        ("placement", {"any", "same_zone", "cluster"}),
        ("on_member_loss", {"end", "replace", "keep"}),
        ("interconnect", {"none", "preferred"}),
    ):
        assert {group[name] for group in groups} == values
    assert any(group["min_size"] < group["size"] for group in groups)
    assert all(order.leases == order.group["size"] for order in drawn if order.group is not None)
    bursts = sum(order.leases for order in drawn if order.group is None and order.leases > 1)
    members = sum(group["size"] for group in groups)
    assert bursts > 300
    assert members > 600
