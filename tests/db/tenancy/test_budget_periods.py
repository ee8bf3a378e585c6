"""Budgets while time passes: midnights, ends of months, late jobs, and transactions whose now() is older than a roll.

Prices, amounts and budgets stay as they are. Whatever the hour of an admission or an extension, no budget is exceeded.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st
from sqlalchemy import Row, select

from app.db.schema.tables import budget, lease, quota
from app.db.tenancy import quotas
from app.db.tenancy.quotas import NewCommitment
from app.domain.budgets import Period, resource_of, span_at
from app.domain.ids import LeaseId
from tests.db.store import Store
from tests.db.tenancy.test_budgets import CENT, ONE, at, claim, counter, end, job, run
from tests.harness.databases import Databases
from tests.workers.virtual_time import VirtualTime, virtual
from workers.runtime.database import WorkerDatabase

T = TypeVar("T")
EXAMPLES, STEPS = 10, 30
MOST_LEASES = 5
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
AMOUNTS = {Period.DAY: Decimal(30), Period.MONTH: Decimal(400), Period.LIFETIME: Decimal(2000)}

rates = st.sampled_from([Decimal(rate) for rate in ("0.2", "1", "2", "3.333333")])
terms = st.sampled_from([timedelta(hours=hours) for hours in (1, 5, 23, 24, 40, 24 * 20, 24 * 40)])
whichever = st.integers(0, 11)


@pytest.fixture
def clock() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def timed(databases: Databases, database_url: str, clock: VirtualTime) -> Iterator[Store]:
    """The tables at the time of `clock`."""
    with clock.of(databases.owner_url):
        database = WorkerDatabase(virtual(database_url), pool_size=4)
        yield Store(database)
        database.close()


def until(store: Store, period: Period) -> timedelta:
    """What is left of the period of now."""
    now = store.now()
    ends_at = span_at(period, now).ends_at
    assert ends_at is not None
    return ends_at - now


@pytest.mark.parametrize("period", [Period.DAY, Period.MONTH])
@pytest.mark.parametrize("when_exceeded", ["end", "refuse"])
def test_a_lease_over_the_end_of_a_period_fits_into_the_next_one_too(
    timed: Store, clock: VirtualTime, period: Period, when_exceeded: str
) -> None:
    tenant = timed.tenant(gpus=100)
    clock.forward((until(timed, period) - HOUR).total_seconds())
    budget_id = timed.budget(tenant, "10", period=str(period), when_exceeded=when_exceeded)
    assert timed.admit(tenant, ONE, at("2", ttl=24 * HOUR)) is None
    lease_id = timed.admit(tenant, ONE, at("2", ttl=5 * HOUR))
    assert lease_id is not None
    run(timed, lease_id, "2", "0 seconds")
    assert not extend(timed, lease_id, 10 * HOUR)
    assert extend(timed, lease_id, HOUR / 2)
    clock.forward((HOUR + 5 * SECOND).total_seconds())
    job(timed)
    assert timed.row(lease, lease_id).desired == "run"
    assert abs(counter(timed, budget_id).used - 9) < CENT


def test_an_extension_that_began_before_midnight_holds_the_whole_day_after_it(timed: Store, clock: VirtualTime) -> None:
    """It waited for the roll, and its now() is still of the day before."""
    tenant = timed.tenant(gpus=100)
    clock.forward((until(timed, Period.DAY) - HOUR).total_seconds())
    budget_id = timed.budget(tenant, "100", period="day")
    lease_id = timed.admit(tenant, ONE, at("2", ttl=10 * HOUR))
    assert lease_id is not None
    clock.forward((HOUR + SECOND).total_seconds())
    job(timed)
    clock.forward(-2.0)
    assert extend(timed, lease_id, HOUR)
    assert timed.admit(tenant, ONE, at("1", ttl=10 * HOUR)) is not None
    clock.forward(2.0)
    held = claim(timed, budget_id, lease_id)
    assert held is not None
    assert abs(held.amount - 20) < CENT
    assert abs(counter(timed, budget_id).used - 30) < CENT


def extend(store: Store, lease_id: LeaseId, by: timedelta) -> bool:
    """As the API extends a lease. False: a budget has no room, and nothing changes."""
    row = store.row(lease, lease_id)
    with store.database.begin() as connection:
        later = lease.update().where(lease.c.id == lease_id).values(expires_at=row.expires_at + by)
        connection.execute(later)
        fits = bool(connection.execute(*quotas.recommit(row.tenant_id, [lease_id])).one().fits)
        if not fits:
            connection.rollback()
    return fits


class BudgetTime(stateful.RuleBasedStateMachine):
    """What people, workers and the clock do, in any order. The job runs late, or not at all."""

    store: ClassVar[Store]
    clock: ClassVar[VirtualTime]

    def __init__(self) -> None:
        super().__init__()
        self.tenant = self.store.tenant(gpus=100)
        self.rates: dict[LeaseId, Decimal] = {}
        self.budgets = {
            self.store.budget(self.tenant, amount, period=str(period), when_exceeded="end"): amount
            for period, amount in AMOUNTS.items()
        }

    def stale(self, act: Callable[[], T], *, is_stale: bool) -> T:
        """Acts in a transaction that began just before the last midnight, if nobody is due any more."""
        now = self.store.now()
        back = (now - span_at(Period.DAY, now).starts_at + SECOND).total_seconds()
        if not is_stale or back > 60 or self.due():
            return act()
        self.clock.forward(-back)
        try:
            return act()
        finally:
            self.clock.forward(back)

    def due(self) -> bool:
        over = (budget.c.tenant_id == self.tenant, budget.c.period_ends_at <= self.store.now())
        return bool(self.store.all(select(budget.c.id).where(*over)))

    @stateful.precondition(lambda self: len(self.rates) < MOST_LEASES)
    @stateful.rule(rate=rates, ttl=terms, cap=st.sampled_from([None, None, Decimal(20)]), is_stale=st.booleans())
    def admit(self, rate: Decimal, ttl: timedelta, cap: Decimal | None, is_stale: bool) -> None:
        new = NewCommitment(rate=rate, ttl=ttl, max_cost=cap)
        lease_id = self.stale(lambda: self.store.admit(self.tenant, ONE, new), is_stale=is_stale)
        if lease_id is not None:
            self.rates[lease_id] = rate
            self.store.write(lease, lease_id, max_cost=cap)

    @stateful.precondition(lambda self: self.rates)
    @stateful.rule(which=whichever, by=terms, is_stale=st.booleans())
    def extend(self, which: int, by: timedelta, is_stale: bool) -> None:
        lease_id = list(self.rates)[which % len(self.rates)]
        self.stale(lambda: extend(self.store, lease_id, by), is_stale=is_stale)

    @stateful.precondition(lambda self: self.rates)
    @stateful.rule(which=whichever, ends=st.sampled_from([False, False, True]))
    def work(self, which: int, ends: bool) -> None:
        """Its VM starts, or it ends."""
        lease_id = list(self.rates)[which % len(self.rates)]
        row = self.store.row(lease, lease_id)
        if ends:
            self.end(lease_id)
        elif row.rate_per_hour is None and self.store.hold(self.tenant, lease_id, ONE, self.rates[lease_id]):
            run(self.store, lease_id, str(self.rates[lease_id]), "0 seconds")
            if row.max_cost is not None:
                hours = float(row.max_cost / self.rates[lease_id])
                self.store.write(lease, lease_id, cost_reached_at=self.store.now() + timedelta(hours=hours))

    def end(self, lease_id: LeaseId) -> None:
        end(self.store, lease_id)
        del self.rates[lease_id]

    @stateful.rule(hours=st.sampled_from([0.01, 1.0, 7.0, 30.0, 24.0 * 12]))
    def pass_time(self, hours: float) -> None:
        """Each lease ends at its time."""
        self.pass_until(self.store.now() + timedelta(hours=hours))

    @stateful.rule(period=st.sampled_from([Period.DAY, Period.DAY, Period.MONTH]), after=st.sampled_from([-1, 1, 10]))
    def pass_midnight(self, period: Period, after: int) -> None:
        self.pass_until(self.store.now() + until(self.store, period) + after * SECOND)

    def pass_until(self, moment: datetime) -> None:
        for row in sorted(self.live(), key=self.ends_at):
            if self.ends_at(row) - SECOND / 2 <= moment:
                self.clock.forward(max((self.ends_at(row) - SECOND / 2 - self.store.now()).total_seconds(), 0.0))
                self.end(row.id)
        self.clock.forward(max((moment - self.store.now()).total_seconds(), 0.0))

    @staticmethod
    def ends_at(row: Row[Any]) -> datetime:
        times = (row.expires_at, row.cost_reached_at)
        return min(time for time in times if time is not None)

    def live(self) -> list[Row[Any]]:
        return self.store.all(select(lease).where(lease.c.id.in_(self.rates)))

    @stateful.rule()
    def run_job(self) -> None:
        job(self.store)

    @stateful.invariant()
    def no_budget_is_exceeded_and_none_ends_a_lease(self) -> None:
        assert self.store.all(quotas.RECOUNT) == []
        assert {row.desired for row in self.live()} <= {"run"}
        if not self.due():
            for budget_id, amount in self.budgets.items():
                row = self.store.only(select(quota).where(quota.c.resource == resource_of(budget_id)))
                assert row.used + row.spent <= amount

    def teardown(self) -> None:
        for lease_id in list(self.rates):
            self.end(lease_id)


@pytest.mark.parametrize("seed", [3, 11])
def test_no_hour_of_an_admission_or_extension_exceeds_a_budget_later(
    timed: Store, clock: VirtualTime, seed: int
) -> None:
    machine = type("BudgetsTime", (BudgetTime,), {"store": timed, "clock": clock})
    settings = hypothesis.settings(max_examples=EXAMPLES, stateful_step_count=STEPS, phases=[hypothesis.Phase.generate])
    stateful.run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=settings)
