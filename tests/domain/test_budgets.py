"""What a lease counts for in a budget, when its periods begin, and which leases end when it is exceeded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.budgets import (
    BudgetKind,
    Holder,
    Period,
    Scope,
    Spending,
    commitment,
    expected_end,
    highest_after_change,
    reached,
    span_at,
    to_release,
    without_event,
)

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

amounts = st.decimals(min_value=0, max_value=10_000, places=6)
moments = st.datetimes(min_value=datetime(2023, 1, 1), max_value=datetime(2033, 1, 1), timezones=st.just(UTC))
terms = st.timedeltas(min_value=timedelta(days=-2), max_value=timedelta(days=60))
spendings = st.builds(
    Spending,
    accrued=amounts,
    base=amounts,
    rate_per_hour=st.decimals(min_value=0, max_value=500, places=6),
    ends_at=terms.map(lambda term: NOW + term),
    max_cost=st.none() | amounts,
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("period", "moment", "starts_at", "ends_at"),
    [
        (Period.DAY, "2026-11-15T12:00:00", "2026-11-15", "2026-11-16"),
        (Period.DAY, "2026-11-15T00:00:00", "2026-11-15", "2026-11-16"),
        (Period.DAY, "2026-12-31T23:59:59.999999", "2026-12-31", "2027-01-01"),
        (Period.MONTH, "2026-11-30T23:59:59", "2026-11-01", "2026-12-01"),
        (Period.MONTH, "2026-12-31T23:59:59", "2026-12-01", "2027-01-01"),
        (Period.MONTH, "2027-01-31T00:00:00", "2027-01-01", "2027-02-01"),
        (Period.MONTH, "2028-02-29T12:00:00", "2028-02-01", "2028-03-01"),
        (Period.DAY, "2028-02-28T12:00:00", "2028-02-28", "2028-02-29"),
        (Period.DAY, "2028-02-29T12:00:00", "2028-02-29", "2028-03-01"),
        (Period.DAY, "2027-02-28T12:00:00", "2027-02-28", "2027-03-01"),
    ],
)
def test_days_and_months_are_those_of_utc(period: Period, moment: str, starts_at: str, ends_at: str) -> None:
    span = span_at(period, at(moment))
    assert (span.starts_at, span.ends_at) == (at(starts_at), at(ends_at))


def test_another_time_zone_does_not_move_a_period() -> None:
    tokyo = datetime(2026, 12, 1, 8, tzinfo=timezone(timedelta(hours=9)))
    assert span_at(Period.MONTH, tokyo).starts_at == at("2026-11-01")


def test_a_lifetime_begins_with_the_budget_and_never_ends() -> None:
    assert (span_at(Period.LIFETIME, NOW).starts_at, span_at(Period.LIFETIME, NOW).ends_at) == (NOW, None)


@given(moment=moments, period=st.sampled_from([Period.DAY, Period.MONTH]))
def test_each_moment_is_in_one_period_and_the_next_begins_where_it_ends(moment: datetime, period: Period) -> None:
    span = span_at(period, moment)
    assert span.ends_at is not None
    assert span.starts_at <= moment < span.ends_at
    assert span_at(period, span.ends_at).starts_at == span.ends_at


def test_a_scope_counts_the_leases_it_names() -> None:
    vision = {"team": "vision"}
    assert Scope(kind=BudgetKind.TENANT).counts(key_id=None, labels={})
    assert Scope(kind=BudgetKind.KEY, key_id="key_1").counts(key_id="key_1", labels=vision)
    assert not Scope(kind=BudgetKind.KEY, key_id="key_1").counts(key_id=None, labels=vision)
    assert Scope(kind=BudgetKind.LABEL, label=("team", "vision")).counts(key_id=None, labels=vision)
    assert not Scope(kind=BudgetKind.LABEL, label=("team", "speech")).counts(key_id=None, labels=vision)


RUNNING = Spending(
    accrued=Decimal(10), base=Decimal(4), rate_per_hour=Decimal(2), ends_at=NOW + 5 * HOUR, max_cost=None
)


@pytest.mark.parametrize(
    ("spending", "period", "usd"),
    [
        (RUNNING, Period.LIFETIME, "16"),
        (RUNNING, Period.DAY, "16"),
        (replace(RUNNING, ends_at=NOW + 20 * HOUR), Period.DAY, "30"),
        (replace(RUNNING, ends_at=NOW + 32 * HOUR), Period.DAY, "40"),
        (replace(RUNNING, ends_at=NOW + 100 * HOUR), Period.DAY, "48"),
        (replace(RUNNING, ends_at=NOW + 100 * HOUR, max_cost=Decimal(45)), Period.DAY, "35"),
        (replace(RUNNING, ends_at=NOW - HOUR), Period.DAY, "6"),
        (replace(RUNNING, ends_at=NOW + timedelta(days=20)), Period.MONTH, "750"),
        (replace(RUNNING, ends_at=NOW + timedelta(days=40)), Period.MONTH, "1176"),
        (replace(RUNNING, ends_at=NOW + timedelta(days=90)), Period.MONTH, "1488"),
        (replace(RUNNING, max_cost=Decimal(15)), Period.LIFETIME, "11"),
        (replace(RUNNING, max_cost=Decimal(9)), Period.LIFETIME, "6"),
        (replace(RUNNING, base=Decimal(0)), Period.LIFETIME, "20"),
        (replace(RUNNING, base=Decimal(11)), Period.LIFETIME, "10"),
        (replace(RUNNING, rate_per_hour=Decimal(0)), Period.DAY, "6"),
    ],
)
def test_a_lease_holds_the_most_that_it_costs_in_one_period(spending: Spending, period: Period, usd: str) -> None:
    assert commitment(spending, period, NOW) == Decimal(usd)


@pytest.mark.parametrize(
    ("requested", "minutes"), [(None, 60), (0, 10), (9, 1), (10, 10), (25, 5), (-5, 15), (-100, 60)]
)
def test_a_released_lease_ends_within_ten_minutes_which_begin_again_while_it_lasts(
    requested: int | None, minutes: int
) -> None:
    """`requested`: minutes ago. Below zero: by the clock of another transaction."""
    at = None if requested is None else NOW - timedelta(minutes=requested)
    assert expected_end(NOW + HOUR, at, NOW) == NOW + timedelta(minutes=minutes)


@given(spending=spendings, period=st.sampled_from(Period))
def test_a_commitment_lies_between_what_it_cost_and_what_its_cap_allows(spending: Spending, period: Period) -> None:
    spending = replace(spending, base=min(spending.base, spending.accrued))
    held = commitment(spending, period, NOW)
    assert held >= spending.counted
    assert held <= commitment(spending, Period.LIFETIME, NOW)
    if spending.max_cost is not None:
        assert held <= max(spending.counted, spending.max_cost - spending.base)


def cost_of(rate: Decimal, since: datetime, until: datetime) -> Decimal:
    return rate * (max(until - since, timedelta(0)) // timedelta(microseconds=1)) / Decimal(3_600_000_000)


@given(
    now=moments, ends=terms, rate=st.integers(0, 500).map(Decimal), period=st.sampled_from([Period.DAY, Period.MONTH])
)
def test_no_period_costs_more_than_what_was_held_at_the_start(
    now: datetime, ends: timedelta, rate: Decimal, period: Period
) -> None:
    term = now + 3 * ends
    new = Spending(accrued=Decimal(0), base=Decimal(0), rate_per_hour=rate, ends_at=term)
    costs, since = [Decimal(0)], now
    while since < term:
        until = span_at(period, since).ends_at
        assert until is not None
        costs.append(cost_of(rate, since, min(until, term)))
        since = until
    assert abs(commitment(new, period, now) - max(costs)) <= Decimal("0.000001")


@given(
    spending=spendings,
    now=moments,
    term=terms,
    steps=st.lists(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=25)), min_size=1, max_size=4),
    period=st.sampled_from(Period),
)
@example(
    # the cap lies between 43 and 44 microseconds
    spending=Spending(
        accrued=Decimal(0),
        base=Decimal(0),
        rate_per_hour=Decimal("81.859091"),
        ends_at=NOW,
        max_cost=Decimal("0.000001"),
    ),
    now=datetime(2023, 1, 1, tzinfo=UTC),
    term=timedelta(seconds=1),
    steps=[timedelta(seconds=1)],
    period=Period.DAY,
)
def test_what_a_lease_holds_at_a_constant_rate_never_grows_whatever_period_begins(
    spending: Spending, now: datetime, term: timedelta, steps: list[timedelta], period: Period
) -> None:
    """So the sum over all leases never grows: a budget that all fitted into is never exceeded by their own terms."""
    lease = replace(spending, base=min(spending.base, spending.accrued), ends_at=now + 2 * term)
    if lease.max_cost is not None and lease.rate_per_hour:
        left = min(max(lease.max_cost - lease.accrued, Decimal(0)) / lease.rate_per_hour, Decimal(10_000))
        whole = int((left * 3_600_000_000).to_integral_value(ROUND_FLOOR))  # as `cost_reached_at` is stored
        lease = replace(lease, ends_at=min(lease.ends_at, now + timedelta(microseconds=whole)))
    held = commitment(lease, period, now)
    for step in steps:
        begins = now if period is Period.LIFETIME else span_at(period, now + step).starts_at
        before = lease.accrued + cost_of(lease.rate_per_hour, now, min(begins, lease.ends_at))
        base = before.quantize(Decimal("0.000001"), rounding=ROUND_CEILING) if begins > now else lease.base
        accrued = lease.accrued + cost_of(lease.rate_per_hour, now, min(now + step, lease.ends_at))
        lease, now = replace(lease, accrued=accrued, base=base), now + step
        assert commitment(lease, period, now) <= held
        held = commitment(lease, period, now)


THRESHOLDS = (50, 80, 100)


def test_each_threshold_is_told_once() -> None:
    assert reached(THRESHOLDS, Decimal("49.999999"), Decimal(100)) == ()
    assert without_event(THRESHOLDS, 0, Decimal(85), Decimal(100)) == (50, 80)
    assert without_event(THRESHOLDS, 80, Decimal(99), Decimal(100)) == ()
    assert without_event(THRESHOLDS, 80, Decimal(250), Decimal(100)) == (100,)


def test_nothing_spent_reaches_no_threshold_of_an_amount_of_zero() -> None:
    assert reached(THRESHOLDS, Decimal(0), Decimal(0)) == ()
    assert reached(THRESHOLDS, Decimal("0.01"), Decimal(0)) == THRESHOLDS


def test_a_raised_amount_makes_a_threshold_one_to_tell_again() -> None:
    assert highest_after_change(THRESHOLDS, 80, Decimal(85), Decimal(100)) == 80
    assert highest_after_change(THRESHOLDS, 80, Decimal(85), Decimal(150)) == 50
    assert highest_after_change(THRESHOLDS, 80, Decimal(85), Decimal(1000)) == 0
    assert highest_after_change(THRESHOLDS, 0, Decimal(85), Decimal(100)) == 0


def holder(lease_id: str, rate: int, *, committed: int = 10, counted: int = 2, ending: bool = False) -> Holder:
    rates = {"rate_per_hour": Decimal(rate), "committed": Decimal(committed), "counted": Decimal(counted)}
    return Holder(lease_id=lease_id, ending=ending, **rates)


def test_the_most_expensive_leases_end_first_and_no_more_than_needed() -> None:
    holders = [holder("a", 1), holder("b", 9), holder("c", 3)]
    assert to_release(holders, spent=Decimal(0), amount=Decimal(30)) == ()
    assert to_release(holders, spent=Decimal(1), amount=Decimal(30)) == ("b",)
    assert to_release(holders, spent=Decimal(9), amount=Decimal(30)) == ("b", "c")
    assert to_release(holders, spent=Decimal(50), amount=Decimal(30)) == ("b", "c", "a")


def test_of_equal_rates_the_newest_lease_ends_first() -> None:
    assert to_release([holder("a", 1), holder("b", 1)], spent=Decimal(0), amount=Decimal(19)) == ("b",)


def test_a_lease_that_ends_already_counts_with_what_it_has_cost() -> None:
    holders = [holder("a", 1), holder("b", 9, ending=True)]
    assert to_release(holders, spent=Decimal(0), amount=Decimal(12)) == ()
    assert to_release(holders, spent=Decimal(1), amount=Decimal(12)) == ("a",)


@given(
    holders=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 9), st.booleans()), max_size=8),
    spent=st.integers(0, 20),
    amount=st.integers(0, 60),
)
def test_after_the_ends_the_commitment_fits_or_no_lease_runs(
    holders: list[tuple[int, int, int, bool]], spent: int, amount: int
) -> None:
    named = [
        holder(f"lease_{n}", rate, counted=counted, committed=counted + rest, ending=ending)
        for n, (rate, counted, rest, ending) in enumerate(holders)
    ]
    ended = to_release(named, spent=Decimal(spent), amount=Decimal(amount))
    left = [one for one in named if not one.ending and one.lease_id not in ended]
    total = spent + sum(one.committed if one in left else one.counted for one in named)
    assert total <= amount or not left
    if ended:
        last = next(one for one in named if one.lease_id == ended[-1])
        assert total - last.counted + last.committed > amount, "the last one need not have ended"
