"""Buckets of costs are those of UTC, and groupings are parsed strictly."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.costs import CostBucket, CostDimension, CostGrouping, parse_groupings

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
TIMES = st.builds(
    lambda moment, zone: moment.astimezone(zone),
    st.datetimes(datetime(2024, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC)),
    ZONES,
)


@given(moment=TIMES, bucket=st.sampled_from(CostBucket))
def test_a_bucket_contains_its_moments_and_ends_where_the_next_begins(moment: datetime, bucket: CostBucket) -> None:
    start = bucket.floor(moment)
    following = bucket.after(start)
    assert start <= moment < following
    assert bucket.floor(following) == following == bucket.floor(following + timedelta(minutes=59))
    assert bucket.floor(following - timedelta(microseconds=1)) == start
    assert bucket.ceil(start) == start
    assert bucket.ceil(start + timedelta(microseconds=1)) == following


def test_months_have_their_own_lengths() -> None:
    month = CostBucket.MONTH
    lengths = [(month.after(start) - start).days for start in (datetime(2028, n, 1, tzinfo=UTC) for n in range(1, 13))]
    assert lengths == [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def test_groupings() -> None:
    assert parse_groupings("") == ()
    found = parse_groupings("lease,label:example.org/team")
    assert found == (CostGrouping(CostDimension.LEASE), CostGrouping(None, "example.org/team"))
    assert [one.name for one in found] == ["lease", "label:example.org/team"]
    assert all(one.needs_records for one in found)
    assert not any(one.needs_records for one in parse_groupings("tenant,market"))


@pytest.mark.parametrize("text", ["zone", "tenant,", "label:", "label:-x", "tenant,tenant", "tenant,region,market"])
def test_a_wrong_grouping_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|label"):
        parse_groupings(text)
