from hypothesis import given
from hypothesis import strategies as st

from cloudsim.world.limits import Buckets, Rate


@given(st.lists(st.floats(0, 5), max_size=200))
def test_no_window_admits_more_than_the_burst_and_what_came_since(gaps: list[float]) -> None:
    rate, buckets, now = Rate(5, 2), Buckets(), 0.0
    admitted: list[float] = []
    for gap in gaps:
        now += gap
        if buckets.take(("a",), rate, now):
            admitted.append(now)
    for first, start in enumerate(admitted):
        for last in range(first, len(admitted)):
            assert last - first + 1 <= 5 + 2 * (admitted[last] - start) + 1e-3


def test_keys_do_not_share() -> None:
    buckets, rate = Buckets(), Rate(1, 0)
    assert buckets.take(("a",), rate, 0)
    assert buckets.take(("b",), rate, 0)
    assert not buckets.take(("a",), rate, 1_000)
