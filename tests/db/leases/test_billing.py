"""The cost of billed time is the same in SQL as in the domain."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import DateTime, Numeric, literal, select

from app.db.leases.billing import cost as cost_in_sql
from app.domain.billing import cost
from tests.db.store import Store

PRICES = st.decimals(min_value=0, max_value=500, places=6)
TIMES = st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2030, 1, 1), timezones=st.just(UTC))
TERMS = st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=400))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(price=PRICES, since=TIMES, term=TERMS)
def test_sql_and_domain_agree(store: Store, price: Decimal, since: datetime, term: timedelta) -> None:
    moments = (literal(moment, DateTime(timezone=True)) for moment in (since, since + term))
    [(found,)] = store.database.all(select(cost_in_sql(literal(price, Numeric), *moments)))
    assert abs(found - cost(price, term)) < Decimal("1e-9")
