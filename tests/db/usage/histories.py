"""Attempts with a billing period and changes of their price, as rows and by the rule of the domain."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from sqlalchemy import insert

from app.db.schema.tables import attempt, attempt_price
from app.domain.billing import cost
from tests.db.store import Store

PRICES = st.decimals(min_value=0, max_value=99, places=6)


@dataclass(frozen=True)
class Billed:
    """An attempt. `changes`: prices from times after the begin. `late`: how long nobody knows of the end."""

    began: datetime
    lasted: timedelta
    price: Decimal
    changes: tuple[tuple[timedelta, Decimal], ...] = ()
    disk: Decimal | None = None
    address: Decimal | None = None
    listed: Decimal | None = None
    late: timedelta = timedelta(0)

    @property
    def ended(self) -> datetime:
        return self.began + self.lasted

    def costs(self) -> dict[str, Decimal]:
        """USD by part, by the rule of the domain."""
        starts = [(timedelta(0), self.price), *sorted(self.changes)]
        ends = [*(start for start, _ in starts[1:]), self.lasted]
        compute = sum(
            (
                cost(price, min(end, self.lasted) - min(start, self.lasted))
                for (start, price), end in zip(starts, ends, strict=True)
            ),
            Decimal(0),
        )
        return {
            "compute_cost": compute,
            "disk_cost": cost(self.disk or Decimal(0), self.lasted),
            "address_cost": cost(self.address or Decimal(0), self.lasted),
            "list_cost": compute if self.listed is None else cost(self.listed, self.lasted),
        }


def billed(first: datetime, last: datetime) -> st.SearchStrategy[Billed]:
    """Attempts that begin in a period, and last for up to 60 hours."""
    times = st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(hours=60))
    change = st.tuples(times, PRICES)
    return st.builds(
        Billed,
        began=st.datetimes(first.replace(tzinfo=None), last.replace(tzinfo=None), timezones=st.just(UTC)),
        lasted=times,
        price=PRICES,
        changes=st.lists(change, max_size=3, unique_by=lambda one: one[0]).map(tuple),
        disk=st.none() | PRICES,
        address=st.none() | PRICES,
        listed=st.none() | PRICES,
        late=st.sampled_from([timedelta(0), timedelta(minutes=20), timedelta(hours=5)]),
    )


def add(store: Store, one: Billed, **more: Any) -> str:
    """A lease with one attempt that is billed. Nobody knows of its end yet."""
    lease_id = store.lease(created_at=one.began, labels={"team": "vision"})
    prices = {"price_per_hour": one.price, "disk_price_per_hour": one.disk, "address_price_per_hour": one.address}
    hardware = {"offering": {"gpu": {"model": "A100", "count": 4}}, "disk_gib": 100}
    values = {**prices, **hardware, "list_price_per_hour": one.listed, "billing_started_at": one.began, **more}
    attempt_id = store.attempt(lease_id, "known", **values)
    for after, price in one.changes:
        row = {"attempt_id": attempt_id, "tenant_id": store.tenant_id, "price_per_hour": price, "price_source": "x"}
        store.run(insert(attempt_price).values(**row, starts_at=one.began + after))
    return attempt_id


def end(store: Store, attempt_id: str, at: datetime) -> None:
    """The end of its VM becomes known."""
    store.write(attempt, attempt_id, state="dead", clean=True, billing_ended_at=at, ended_at=at)
