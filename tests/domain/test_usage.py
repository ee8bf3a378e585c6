"""Steps of reports."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.domain.usage import UsagePeriod, UsageStep

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
HOUR, DAY = UsageStep.HOUR, UsageStep.DAY


@pytest.mark.parametrize(
    ("step", "moment", "floor", "ceil"),
    [
        (HOUR, NOON, NOON, NOON),
        (HOUR, NOON + timedelta(seconds=1), NOON, NOON + timedelta(hours=1)),
        (DAY, NOON, datetime(2026, 11, 23, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC)),
        (
            DAY,
            datetime(2026, 11, 23, tzinfo=UTC),
            datetime(2026, 11, 23, tzinfo=UTC),
            datetime(2026, 11, 23, tzinfo=UTC),
        ),
    ],
)
def test_a_moment_lies_in_a_step(step: UsageStep, moment: datetime, floor: datetime, ceil: datetime) -> None:
    assert (step.floor(moment), step.ceil(moment)) == (floor, ceil)


def test_a_day_is_one_of_utc() -> None:
    in_tokyo = datetime(2026, 11, 24, 3, tzinfo=timezone(timedelta(hours=9)))
    assert DAY.floor(in_tokyo) == datetime(2026, 11, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rolled_until", "live_since"),
    [
        (None, NOON - timedelta(days=3)),
        (NOON - timedelta(days=9), NOON - timedelta(days=3)),
        (NOON - timedelta(hours=5), NOON - timedelta(hours=5)),
        (NOON + timedelta(days=9), NOON),
    ],
)
def test_what_is_not_stored_is_live(rolled_until: datetime | None, live_since: datetime) -> None:
    period = UsagePeriod(step=HOUR, since=NOON - timedelta(days=3), until=NOON)
    assert period.live_since(rolled_until) == live_since


def test_the_day_that_is_not_over_is_live() -> None:
    today = DAY.floor(NOON)
    period = UsagePeriod(step=DAY, since=today - timedelta(days=3), until=today + timedelta(days=1))
    assert period.live_since(NOON) == today


@pytest.mark.parametrize(
    ("as_of", "covered"), [(-1, timedelta(0)), (15, timedelta(minutes=15)), (90, timedelta(hours=1))]
)
def test_the_current_step_is_covered_in_part(as_of: int, covered: timedelta) -> None:
    period = UsagePeriod(step=HOUR, since=NOON, until=NOON + timedelta(hours=1))
    assert period.covered(NOON, NOON + timedelta(minutes=as_of)) == covered
