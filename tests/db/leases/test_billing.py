"""Money is the same in SQL as in the domain: the cost of billed time, price segments, and the end at a spend cap."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import DateTime, Numeric, delete, func, insert, literal, select, update

from app.db.leases.billing import cost as cost_in_sql
from app.db.leases.billing import cost_reached_at, price_segments
from app.db.schema.tables import attempt, attempt_price
from app.domain.billing import PriceChange, closed_cost, cost
from app.domain.rates import Rate
from tests.db.store import Store

PRICES = st.decimals(min_value=0, max_value=500, places=6)
TIMES = st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2030, 1, 1), timezones=st.just(UTC))
TERMS = st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=400))
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
RUNS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=9))
CHANGES = st.dictionaries(st.timedeltas(timedelta(hours=-1), timedelta(hours=10)), PRICES, max_size=5)


@given(price=PRICES, since=TIMES, term=TERMS)
def test_sql_and_domain_agree(store: Store, price: Decimal, since: datetime, term: timedelta) -> None:
    moments = (literal(moment, DateTime(timezone=True)) for moment in (since, since + term))
    [(found,)] = store.database.all(select(cost_in_sql(literal(price, Numeric), *moments)))
    assert abs(found - cost(price, term)) < Decimal("1e-9")


@given(compute=PRICES, disk=st.none() | PRICES, address=st.none() | PRICES, run=RUNS, changes=CHANGES)
def test_the_segments_of_an_attempt_cost_what_closes_it(
    store: Store,
    compute: Decimal,
    disk: Decimal | None,
    address: Decimal | None,
    run: timedelta,
    changes: dict[timedelta, Decimal],
) -> None:
    known = [row.id for row in store.rows(attempt)]
    attempt_id = known[0] if known else store.attempt(store.lease(), "dead", clean=True, ended_at=START)
    prices = {"price_per_hour": compute, "disk_price_per_hour": disk, "address_price_per_hour": address}
    billed = {"billing_started_at": START, "billing_ended_at": START + run}
    store.run(delete(attempt_price))
    store.run(update(attempt).values(**prices, **billed))
    for at, price in changes.items():
        row = {"attempt_id": attempt_id, "tenant_id": store.tenant_id, "starts_at": START + at}
        store.run(insert(attempt_price).values(**row, price_per_hour=price, price_source="test"))
    segment = price_segments()
    total = func.coalesce(func.sum(cost_in_sql(segment.c.rate_per_hour, segment.c.starts_at, segment.c.ends_at)), 0)
    [(in_sql,)] = store.all(select(total))
    past = [PriceChange(starts_at=START + at, price_per_hour=price) for at, price in changes.items()]
    exact = closed_cost(Rate(compute=compute, disk=disk, address=address), START, START + run, past)
    assert abs(in_sql - exact) <= Decimal("0.000001")


@given(cap=PRICES, closed=PRICES, rate=PRICES)
@example(cap=Decimal("0.000001"), closed=Decimal(0), rate=Decimal("81.859091"))  # between 43 and 44 microseconds
def test_at_the_time_that_a_cap_is_reached_the_cost_is_the_cap_and_no_more(
    store: Store, cap: Decimal, closed: Decimal, rate: Decimal
) -> None:
    most, past, present = (literal(number, Numeric) for number in (cap, closed, rate))
    since = literal(START, DateTime(timezone=True))
    [(at,)] = store.all(select(cost_reached_at(most, past, present, since)))
    if closed >= cap:
        assert at == START
    elif rate == 0:
        assert at is None
    elif at - START < timedelta(days=365 * 99):
        assert Decimal("-0.000001") < closed + cost(rate, at - START) - cap < Decimal("1e-12")
