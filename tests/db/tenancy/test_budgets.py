"""Budgets: what leases hold is the domain's rule, exact under concurrency, over periods and at the end of leases."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Row, delete, insert, select, text
from sqlalchemy.exc import OperationalError

from app.db.leases.transitions import locked
from app.db.schema.tables import attempt, attempt_price, budget, event, lease, quota, quota_claim
from app.db.tenancy import budgets, commitments, quotas, thresholds
from app.db.tenancy.quotas import NewCommitment
from app.domain.budgets import Holder, Period, Spending, commitment, expected_end, resource_of, to_release
from app.domain.ids import LeaseId, TenantId
from tests.db.store import Store, ago, together
from workers.jobs import budgets as job_of_budgets
from workers.jobs.budgets import apply_budgets
from workers.runtime.runtime import Runtime

ONE = {"gpus": Decimal(1)}
HOUR = timedelta(hours=1)
CENT = Decimal("0.01")


def at(rate: str, *, ttl: timedelta = HOUR, **labels: str) -> NewCommitment:
    return NewCommitment(rate=Decimal(rate), ttl=ttl, labels=labels)


def room(store: Store) -> TenantId:
    return store.tenant(gpus=10_000)


def counter(store: Store, budget_id: str) -> Row[Any]:
    found: Row[Any] | None = store.first(select(quota).where(quota.c.resource == resource_of(budget_id)))
    assert found is not None
    return found


def claim(store: Store, budget_id: str, lease_id: str) -> Row[Any] | None:
    found: Row[Any] | None = store.first(
        select(quota_claim).where(quota_claim.c.resource == resource_of(budget_id), quota_claim.c.lease_id == lease_id)
    )
    return found


def shown(store: Store, budget_id: str) -> Row[Any]:
    (row,) = store.all(budgets.get(budget_id, within=None))
    return row


def run(store: Store, lease_id: LeaseId, rate: str, started: str) -> None:
    """The lease's VM has run for so long."""
    billed = {"price_per_hour": Decimal(rate), "billing_started_at": ago(started)}
    store.attempt(lease_id, "known", **billed)
    store.write(lease, lease_id, rate_per_hour=Decimal(rate), rate_since=ago(started), state="booting")


def end(store: Store, lease_id: LeaseId) -> None:
    """The lease has ended, as the last step of a worker does it."""
    store.run(CLOSE.bindparams(id=lease_id))
    with store.database.begin() as connection:
        connection.execute(END.bindparams(id=lease_id))
        connection.execute(*quotas.release(lease_id))


CLOSE = text(
    """
    UPDATE attempt SET state = 'dead', clean = true, ended_at = now(), params = NULL,
        billing_ended_at = CASE WHEN billing_started_at IS NOT NULL THEN now() END
    WHERE lease_id = :id
    """
)
END = text(
    """
    UPDATE lease l SET state = 'released', desired = 'end', ended_at = now(), next_due = NULL, rate_per_hour = NULL,
        rate_since = NULL, cost_closed = (
            SELECT coalesce(sum(price_per_hour * extract(epoch FROM billing_ended_at - billing_started_at) / 3600), 0)
            FROM attempt a WHERE a.lease_id = l.id)
    WHERE id = :id
    """
)


def job(store: Store, *, failures: int = 0) -> int:
    """One run of the job, in which so many parts of tenants' turns fail."""
    failed: list[Any] = []
    metrics = SimpleNamespace(job_failed=lambda *about: failed.append(about))
    count = apply_budgets(cast(Runtime, SimpleNamespace(database=store.database, metrics=metrics)), "", "")
    assert len(failed) == failures, failed
    return count


money = st.decimals(min_value=0, max_value=1000, places=6)
ends = st.timedeltas(min_value=-HOUR, max_value=timedelta(days=40))


@settings(max_examples=30)
@given(
    closed=money,
    rate=st.none() | st.decimals(min_value=0, max_value=500, places=6),
    running=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10)),
    base=money,
    max_cost=st.none() | money,
    expires=ends,
    capped=st.none() | ends,
    period=st.sampled_from(["day", "month", "lifetime"]),
    released=st.none() | st.timedeltas(min_value=-HOUR, max_value=timedelta(days=1)),
)
def test_sql_and_domain_agree_about_a_commitment(  # noqa: PLR0917 - one argument for each fact
    store: Store,
    closed: Decimal,
    rate: Decimal | None,
    running: timedelta,
    base: Decimal,
    max_cost: Decimal | None,
    expires: timedelta,
    capped: timedelta | None,
    period: str,
    released: timedelta | None,
) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "1", period=period, when_exceeded="notify")
    lease_id = store.admit(tenant, ONE, at("2.5"))
    assert lease_id is not None
    with store.database.begin() as connection:
        now: datetime = connection.execute(text("SELECT now()")).scalar_one()
        connection.execute(
            lease.update()
            .where(lease.c.id == lease_id)
            .values(
                cost_closed=closed,
                rate_per_hour=rate,
                rate_since=None if rate is None else now - running,
                max_cost=max_cost,
                expires_at=now + expires,
                cost_reached_at=None if capped is None else now + capped,
                release_requested_at=None if released is None else now - released,
            )
        )
        connection.execute(quota_claim.update().where(quota_claim.c.lease_id == lease_id).values(base=base))
        commitments.fit(connection, [lease_id])
        held = connection.execute(
            select(quota_claim.c.amount).where(quota_claim.c.resource == resource_of(budget_id))
        ).scalar_one()
    accrued = closed + (rate or 0) * (running // timedelta(microseconds=1)) / Decimal(3_600_000_000)
    spending = Spending(
        accrued=accrued,
        base=base,
        rate_per_hour=Decimal("2.5") if rate is None else rate,
        ends_at=expected_end(
            now + (expires if capped is None else min(expires, capped)),
            None if released is None else now - released,
            now,
        ),
        max_cost=max_cost,
    )
    assert abs(held - commitment(spending, Period(period), now)) <= Decimal("0.000002")
    end(store, lease_id)


def test_of_many_at_once_as_many_are_admitted_as_fit(store: Store) -> None:
    tenant = room(store)
    month = store.budget(tenant, "1000", when_exceeded="notify")
    label = store.budget(tenant, "20", kind="label", label_key="team", label_value="vision")
    admitted = together(16, lambda _: [store.admit(tenant, ONE, at("1", team="vision")) for _ in range(3)])
    assert sum(lease_id is not None for many in admitted for lease_id in many) == 20
    assert counter(store, label).used == counter(store, month).used == 20
    assert store.used(tenant)["gpus"] == 20


def test_a_budget_and_leases_created_at_once_find_each_other(store: Store) -> None:
    tenant = room(store)
    made: list[str] = []

    def work(number: int) -> list[LeaseId | None]:
        if number % 4 == 0:
            made.extend(store.budget(tenant, "1000", kind="label", label_key="a", label_value="b") for _ in range(3))
            return []
        return [store.admit(tenant, ONE, at("1", a="b")) for _ in range(6)]

    leases = [lease_id for many in together(12, work) for lease_id in many]
    assert len(made) == 9
    for budget_id in made:
        rows = store.all(select(quota_claim.c.lease_id).where(quota_claim.c.resource == resource_of(budget_id)))
        assert {row.lease_id for row in rows} == set(leases)
    assert store.all(quotas.RECOUNT) == []


def test_an_admission_in_a_period_that_is_over_changes_nothing_before_the_roll(store: Store) -> None:
    """The caller need not roll back: it may go on in its transaction."""
    tenant = room(store)
    budget_id = store.budget(tenant, "10", period="day")
    store.write(budget, budget_id, period_started_at=ago("3 days"), period_ends_at=ago("1 day"))
    with store.database.begin() as connection:
        answer = connection.execute(quotas.admit(tenant, ONE, at("0.001"))).one()
        assert (answer.due, answer.outdated, answer.fits) == (True, False, False)
    assert store.used(tenant) == {}
    assert store.admit(tenant, ONE, at("0.001")) is not None


def test_an_admission_beside_a_change_of_the_set_of_budgets_changes_nothing(store: Store) -> None:
    tenant = room(store)

    def admit() -> Row[Any]:
        with store.database.begin() as connection:
            return connection.execute(quotas.admit(tenant, ONE, at("1"))).one()

    with ThreadPoolExecutor(1) as other, store.database.begin() as connection:
        commitments.lock_tenant(connection, tenant)
        answer = other.submit(admit)
        store.await_lock()
        connection.commit()
        assert (answer.result().outdated, answer.result().fits) == (True, False)
    assert store.used(tenant) == {}


def test_a_roll_waits_for_a_lease_before_it_holds_what_the_lease_needs(store: Store) -> None:
    """Whoever changes a lease locks it first and its quotas afterwards: in the other order both wait for each other."""
    tenant = room(store)
    budget_id = store.budget(tenant, "1000", period="day")
    lease_id = store.admit(tenant, ONE, at("1"))
    assert lease_id is not None
    ended_period(store, budget_id)
    with ThreadPoolExecutor(1) as other, store.database.begin() as connection:
        connection.execute(*locked([lease_id]))
        rolled = other.submit(lambda: roll_anew(store, tenant))
        store.await_lock()
        connection.execute(select(quota).where(quota.c.tenant_id == tenant).with_for_update(nowait=True)).all()
        connection.commit()
        assert rolled.result() == 1


def roll_anew(store: Store, tenant: str) -> int:
    with store.database.begin() as connection:
        return commitments.roll(connection, tenant)


def test_a_lease_that_ends_leaves_its_cost_and_gives_back_the_rest(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "10")
    lease_id = store.admit(tenant, ONE, at("4", ttl=2 * HOUR))
    assert lease_id is not None
    assert counter(store, budget_id).used == 8
    assert store.admit(tenant, ONE, at("4")) is None
    run(store, lease_id, "4", "30 minutes")
    end(store, lease_id)
    assert counter(store, budget_id).used == 0
    spent = counter(store, budget_id).spent
    assert abs(spent - 2) < CENT
    store.run(quotas.release(lease_id))
    assert counter(store, budget_id).spent == spent
    assert store.admit(tenant, ONE, at("7.99")) is not None
    assert store.admit(tenant, ONE, at("0.1")) is None


def test_a_plan_holds_its_offerings_rate_and_a_refusal_the_least_again(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "5")
    lease_id = store.admit(tenant, ONE, at("2"))
    assert lease_id is not None
    assert not store.hold(tenant, lease_id, ONE, Decimal(6))
    assert counter(store, budget_id).used == 2
    assert store.hold(tenant, lease_id, ONE, Decimal(4))
    assert 4 - CENT < counter(store, budget_id).used <= 4
    store.give_back(lease_id)
    assert 2 - CENT < counter(store, budget_id).used <= 2


def test_a_free_lease_is_counted_too_so_that_it_counts_when_it_costs(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "5")
    lease_id = store.admit(tenant, ONE, at("0"))
    assert lease_id is not None
    found = claim(store, budget_id, lease_id)
    assert found is not None
    assert found.amount == 0
    assert store.hold(tenant, lease_id, ONE, Decimal(1))
    assert counter(store, budget_id).used > 0
    assert store.hold(tenant, lease_id, ONE, Decimal(0))
    assert claim(store, budget_id, lease_id) is not None


def test_labels_leave_what_was_spent_and_join_with_what_comes(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "10", kind="label", label_key="team", label_value="vision")
    lease_id = store.admit(tenant, ONE, at("2", ttl=2 * HOUR, team="vision"))
    assert lease_id is not None
    run(store, lease_id, "2", "30 minutes")
    for labels in ({"team": "speech"}, {"team": "vision"}):
        with store.database.begin() as connection:
            connection.execute(lease.update().where(lease.c.id == lease_id).values(labels=labels))
            assert connection.execute(*quotas.recommit(tenant, [lease_id])).one().fits
        assert abs(counter(store, budget_id).spent - 1) < CENT
    found = claim(store, budget_id, lease_id)
    assert found is not None
    assert abs(found.base - 1) < CENT
    end(store, lease_id)
    assert abs(counter(store, budget_id).spent - 1) < CENT


def test_a_new_period_counts_from_its_start(store: Store) -> None:
    """The budget is rolled late: what ended or ran since the start of the period counts in it, to the second."""
    tenant = room(store)
    daily = store.budget(tenant, "1000", period="day")
    long, short = [store.admit(tenant, ONE, at("2", ttl=timedelta(days=3))) for _ in range(2)]
    assert long is not None
    assert short is not None
    for lease_id in (long, short):
        run(store, lease_id, "2", "30 hours")
    store.run(
        insert(attempt_price).values(
            attempt_id=select(attempt.c.id).where(attempt.c.lease_id == long).scalar_subquery(),
            starts_at=text("date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '1 hour'"),
            tenant_id=tenant,
            price_per_hour=Decimal(3),
            price_source="history",
        )
    )
    midnight = "date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
    store.write(
        lease,
        long,
        created_at=ago("30 hours"),
        cost_closed=text(f"2 * extract(epoch FROM {midnight} - interval '1 hour' - rate_since) / 3600"),
        rate_per_hour=Decimal(3),
        rate_since=text(f"{midnight} - interval '1 hour'"),
    )
    end(store, short)
    store.write(budget, daily, period_started_at=ago("3 days"), period_ends_at=ago("1 day"), threshold_told=80)
    with store.database.begin() as connection:
        assert commitments.roll(connection, tenant) == 1
        assert commitments.roll(connection, tenant) == 0
    row = shown(store, daily)
    assert row.threshold_told == 0
    assert row.period_ends_at - row.period_started_at == timedelta(days=1)
    today = _hours_of_today(store)
    assert abs(counter(store, daily).spent - min(today, Decimal(30)) * 2) < CENT
    held = claim(store, daily, long)
    assert held is not None
    before = (29 - today) * 2 + 3
    assert abs(held.base - before) < CENT


def test_what_is_billed_before_its_lease_shows_it_is_spent_once(store: Store) -> None:
    """An adopted VM is billed since its launch, its lease only when the VM is seen running."""
    tenant = room(store)
    budget_id = store.budget(tenant, "10")
    lease_id = store.admit(tenant, ONE, at("4"))
    assert lease_id is not None
    store.run(quotas.release(lease_id))
    store.attempt(lease_id, "known", price_per_hour=Decimal(4), billing_started_at=ago("30 minutes"))
    store.write(budget, budget_id, period_started_at=ago("1 hour"))
    with store.database.begin() as connection:
        commitments.fit(connection, [lease_id])
    held = claim(store, budget_id, lease_id)
    assert held is not None
    assert held.base == 0
    end(store, lease_id)
    assert abs(counter(store, budget_id).spent - 2) < CENT


def _hours_of_today(store: Store) -> Decimal:
    since = text("SELECT extract(epoch FROM now() - date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')")
    with store.database.begin() as connection:
        seconds: Decimal = connection.execute(since).scalar_one()
    return seconds / 3600


def test_a_month_budget_counts_leases_that_ended_earlier_in_the_month(store: Store) -> None:
    tenant = room(store)
    lease_id = store.admit(tenant, ONE, at("2"))
    assert lease_id is not None
    run(store, lease_id, "2", "1 second")
    end(store, lease_id)
    monthly = store.budget(tenant, "100", period="month")
    assert Decimal("0.0005") < counter(store, monthly).spent < CENT
    assert counter(store, store.budget(tenant, "100")).spent == 0


def test_a_deleted_budget_is_held_by_nobody(store: Store) -> None:
    tenant = room(store)
    kept, gone = store.budget(tenant, "10"), store.budget(tenant, "10")
    assert store.admit(tenant, ONE, at("1")) is not None
    with store.database.begin() as connection:
        commitments.lock_tenant(connection, tenant)
        connection.execute(budgets.remove(gone))
        commitments.begin_period(connection, tenant, [resource_of(gone)])
        connection.execute(budgets.remove_counter(tenant, gone))
    assert 1 - CENT < counter(store, kept).used <= 1
    assert not store.all(select(quota_claim).where(quota_claim.c.resource == resource_of(gone)))


# --- the job ----------------------------------------------------------------------------------------------


def test_the_job_follows_a_rate_that_has_changed(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "5")
    lease_id = store.admit(tenant, ONE, at("4"))
    assert lease_id is not None
    run(store, lease_id, "4", "0 seconds")
    assert job(store) == 0
    store.write(lease, lease_id, rate_per_hour=Decimal(6))
    assert job(store) == 1
    assert counter(store, budget_id).used > 5, "what runs is counted, whatever the limit"
    assert job(store) == 0
    store.write(lease, lease_id, rate_per_hour=Decimal(1))
    assert job(store) == 1
    assert abs(counter(store, budget_id).used - 1) < CENT


def test_the_job_leaves_a_lease_alone_that_a_step_holds(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "5")
    lease_id = store.admit(tenant, ONE, at("1"))
    assert lease_id is not None
    store.write(lease, lease_id, minimum_rate=Decimal(2))
    with store.database.begin() as connection:
        connection.execute(select(lease.c.id).where(lease.c.id == lease_id).with_for_update())
        assert job(store) == 0
    assert job(store) == 1
    assert 2 - CENT < counter(store, budget_id).used <= 2


def test_each_threshold_is_told_once_a_period(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "100", period="month", when_exceeded="notify")
    counted = quota.update().where(quota.c.resource == resource_of(budget_id))

    def told() -> list[tuple[int, str]]:
        job(store)
        rows = store.all(select(event).where(event.c.type == "budget.threshold").order_by(event.c.row_id))
        assert {row.tenant_id for row in rows} <= {tenant}
        assert {row.data["budget_id"] for row in rows} <= {budget_id}
        return [(row.data["threshold"], row.data["spent"]) for row in rows]

    assert told() == []
    store.run(counted.values(spent=85))
    first = [(50, "85.00"), (80, "85.00")]
    assert told() == first
    assert told() == first
    store.run(counted.values(spent=100))
    assert told() == [*first, (100, "100.00")]
    store.write(budget, budget_id, period_started_at=ago("62 days"), period_ends_at=ago("31 days"))
    assert len(told()) == 3
    store.run(counted.values(spent=51))
    assert told()[3:] == [(50, "51.00")]


def ended_period(store: Store, budget_id: str) -> None:
    """Nobody has rolled the budget of a day since it ended at midnight."""
    midnight = "date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
    store.write(
        budget, budget_id, period_started_at=text(f"{midnight} - interval '1 day'"), period_ends_at=text(midnight)
    )


def thresholds_of(store: Store, budget_id: str) -> list[tuple[int, str]]:
    rows = store.all(select(event).where(event.c.type == "budget.threshold").order_by(event.c.row_id))
    return [(row.data["threshold"], row.data["spent"]) for row in rows if row.data["budget_id"] == budget_id]


def test_a_period_that_ended_unseen_tells_of_the_thresholds_that_it_reached(store: Store) -> None:
    tenant = room(store)
    daily = store.budget(tenant, "100", period="day", when_exceeded="notify")
    store.run(quota.update().where(quota.c.resource == resource_of(daily)).values(spent=85))
    ended_period(store, daily)
    with store.database.begin() as connection:
        assert commitments.roll(connection, tenant) == 1
    assert thresholds_of(store, daily) == [(50, "85.00"), (80, "85.00")]
    assert job(store) == 0
    assert len(thresholds_of(store, daily)) == 2


def test_what_a_lease_costs_before_and_after_the_period_reaches_none_of_its_thresholds(store: Store) -> None:
    tenant = room(store)
    daily = store.budget(tenant, "100", period="day", when_exceeded="notify", thresholds=[20, 23, 25])
    lease_id = store.admit(tenant, ONE, at("1", ttl=timedelta(days=3)))
    assert lease_id is not None
    run(store, lease_id, "1", "3 days")
    store.write(lease, lease_id, created_at=ago("4 days"))
    ended_period(store, daily)
    with store.database.begin() as connection:
        assert commitments.roll(connection, tenant) == 1
    assert thresholds_of(store, daily) == [(20, "24.00"), (23, "24.00")]


def test_what_an_ended_lease_costs_after_the_period_reaches_none_of_its_thresholds(store: Store) -> None:
    """The lease ends after midnight, and before the roll."""
    tenant = room(store)
    daily = store.budget(tenant, "100", period="day", when_exceeded="notify", thresholds=[20, 25])
    lease_id = store.admit(tenant, ONE, at("1", ttl=timedelta(days=9)))
    assert lease_id is not None
    run(store, lease_id, "1", "3 days")
    store.write(lease, lease_id, created_at=ago("4 days"))
    ended_period(store, daily)
    end(store, lease_id)
    with store.database.begin() as connection:
        assert commitments.roll(connection, tenant) == 1
    assert thresholds_of(store, daily) == [(20, "24.00")]


def test_each_day_that_ended_unseen_tells_of_its_own_thresholds(store: Store) -> None:
    """Nobody was there for two days, on each of which a lease cost 24 USD."""
    tenant = room(store)
    daily = store.budget(tenant, "100", period="day", when_exceeded="notify", thresholds=[20, 50])
    lease_id = store.admit(tenant, ONE, at("1", ttl=timedelta(days=9)))
    assert lease_id is not None
    run(store, lease_id, "1", "5 days")
    store.write(lease, lease_id, created_at=ago("6 days"))
    midnight = "date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
    ended = {"period_started_at": text(f"{midnight} - interval '2 days'")}
    store.write(budget, daily, **ended, period_ends_at=text(f"{midnight} - interval '1 day'"))
    with store.database.begin() as connection:
        assert commitments.roll(connection, tenant) == 1
    assert thresholds_of(store, daily) == [(20, "24.00"), (20, "24.00")]


def test_an_exceeded_budget_ends_the_most_expensive_leases_until_it_fits(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "10", when_exceeded="end")
    cheap, dear, middle = [store.admit(tenant, ONE, at(rate)) for rate in ("1", "5", "3")]
    assert cheap is not None
    assert dear is not None
    assert middle is not None
    assert job(store) == 0
    store.write(budget, budget_id, amount=Decimal("4.5"))
    store.run(budgets.set_limit(tenant, budget_id, Decimal("4.5")))
    assert job(store) == 1
    states = {row.id: (row.state, row.desired) for row in store.rows(lease)}
    assert states == {cheap: ("queued", "run"), dear: ("releasing", "end"), middle: ("queued", "run")}
    reason = store.row(lease, dear).reason
    assert (reason["code"], reason["origin"]) == ("budget_exceeded", "system")
    assert job(store) == 1, "it commits minutes, and no longer its term"
    assert job(store) == 0, "a lease that ends is not ended again"
    store.write(budget, budget_id, amount=Decimal(0))
    store.run(budgets.set_limit(tenant, budget_id, Decimal(0)))
    assert job(store) == 2


def test_a_lease_whose_term_is_over_ends_for_its_term_and_not_for_the_budget_that_it_overran(store: Store) -> None:
    """The job runs between the end of a term and the step that ends the lease. A cap that is reached is such an end."""
    tenant = room(store)
    store.budget(tenant, "10", when_exceeded="end")
    over, capped, running = (store.admit(tenant, ONE, at(rate)) for rate in ("5", "4", "1"))
    past, later = text("now() - interval '1 second'"), text("now() + interval '1 hour'")
    since = text("now() - interval '1 hour'")
    assert over is not None
    assert capped is not None
    assert running is not None
    for lease_id, rate in ((over, 5), (capped, 5), (running, 1)):
        store.write(lease, lease_id, rate_per_hour=Decimal(rate), rate_since=since, expires_at=later)
    store.write(lease, over, expires_at=past)
    store.write(lease, capped, cost_reached_at=past, max_cost=Decimal("4.99"))
    job(store)
    states = {row.id: row.desired for row in store.rows(lease)}
    assert states == {over: "run", capped: "run", running: "end"}, "only the end of this one saves anything"


def test_a_hold_keeps_every_lease(store: Store) -> None:
    tenant = room(store)
    budget_id = store.budget(tenant, "10", when_exceeded="end")
    assert store.admit(tenant, ONE, at("5")) is not None
    store.write(budget, budget_id, amount=Decimal(1))
    store.run(budgets.set_limit(tenant, budget_id, Decimal(1)))
    store.run(text("""UPDATE installation SET hold = '{"reason": "r", "since": "2026-01-01T00:00:00Z"}'"""))
    assert job(store) == 0
    store.run(text("UPDATE installation SET hold = NULL"))
    assert job(store) == 1


def test_no_lease_ends_for_what_others_hold_too_much(store: Store) -> None:
    """One price fell by less than a hundredth, and another one rose: together they fit by a little."""
    tenant = room(store)
    budget_id = store.budget(tenant, "1000", when_exceeded="end")
    first, second = (store.admit(tenant, ONE, at("498")) for _ in "ab")
    assert first is not None
    assert second is not None
    store.write(lease, first, minimum_rate=Decimal("493.767"), expires_at=text("now() + interval '1 hour'"))
    store.write(lease, second, minimum_rate=Decimal("505.47"), expires_at=text("now() + interval '1 hour'"))
    job(store)
    assert {row.desired for row in store.rows(lease)} == {"run"}
    assert counter(store, budget_id).used <= 1000


@settings(max_examples=20)
@given(rates=st.lists(st.tuples(st.integers(1, 60), st.decimals("0.9", "1.1", places=4)), min_size=1, max_size=6))
@example(rates=[(50, Decimal("0.9915")), (50, Decimal("1.0005"))])
def test_the_job_ends_what_the_rule_ends_on_fresh_facts(store: Store, rates: list[tuple[int, Decimal]]) -> None:
    """Prices move up and down by up to a tenth, less than what the job leaves alone and more."""
    tenant = room(store)
    budget_id = store.budget(tenant, str(sum(rate for rate, _ in rates)), when_exceeded="end")
    moved = {}
    for rate, by in rates:
        lease_id = store.admit(tenant, ONE, at(str(rate)))
        assert lease_id is not None
        moved[lease_id] = rate * by
    for lease_id, rate in moved.items():
        store.write(lease, lease_id, minimum_rate=rate, expires_at=text("now() + interval '1 hour'"))
    job(store)
    holders = [
        Holder(lease_id=lease_id, rate_per_hour=rate, counted=Decimal(0), committed=rate, ending=False)
        for lease_id, rate in moved.items()
    ]
    amount = shown(store, budget_id).amount
    ended = {row.id for row in store.rows(lease) if row.tenant_id == tenant and row.desired == "end"}
    if abs(sum(moved.values()) - amount) > CENT:  # the clock went on since the leases were written
        assert ended == set(to_release(holders, spent=Decimal(0), amount=amount))
    for table in (quota_claim, lease, budget, quota):  # the next example's job would go through them again
        store.run(delete(table).where(table.c.tenant_id == tenant))


# --- one poisoned tenant ----------------------------------------------------------------------------------


def exceed(store: Store, tenant: TenantId) -> LeaseId:
    """A lease of the tenant whose price rises above its budget."""
    store.budget(tenant, "10", when_exceeded="end")
    lease_id = store.admit(tenant, ONE, at("5"))
    assert lease_id is not None
    store.write(lease, lease_id, minimum_rate=Decimal(50))
    return lease_id


def test_what_fails_for_one_tenant_is_done_for_the_others(store: Store) -> None:
    broken, other = room(store), room(store)
    budget_id = store.budget(broken, "10")
    assert store.admit(broken, ONE, at("5")) is not None
    lease_id = exceed(store, other)
    store.write(budget, budget_id, thresholds=["x"])
    store.run(quota.update().where(quota.c.resource == resource_of(budget_id)).values(spent=1))
    assert job(store, failures=1) > 0
    assert store.row(lease, lease_id).desired == "end"


def test_a_budget_that_fails_keeps_no_other_of_its_tenant_from_ending_leases(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = room(store)
    failing = store.budget(tenant, "10", when_exceeded="end")
    lease_id = exceed(store, tenant)
    fit_budget = commitments.fit_budget

    def fails_for_the_first(connection: Connection, tenant_id: str, resource: str) -> int:
        if resource == resource_of(failing):
            raise TimeoutError
        return fit_budget(connection, tenant_id, resource)

    monkeypatch.setattr(commitments, "fit_budget", fails_for_the_first)
    assert job(store, failures=1) > 0
    assert store.row(lease, lease_id).desired == "end"


def test_a_budget_that_fails_keeps_no_other_of_its_tenant_from_its_events(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = room(store)
    failing, other = sorted(store.budget(tenant, "10") for _ in "ab")
    store.run(quota.update().where(quota.c.resource != "gpus").values(spent=9))
    append = thresholds.append

    def fails_for_the_first(connection: Connection, row: Row[Any], reached: list[int]) -> int:
        if row.id == failing:
            raise TimeoutError
        return append(connection, row, reached)

    monkeypatch.setattr(thresholds, "append", fails_for_the_first)
    assert job(store, failures=1) > 0
    assert thresholds_of(store, other) == [(50, "9.00"), (80, "9.00")]


def test_after_a_run_that_stops_at_one_tenant_the_next_run_begins_with_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database goes away at each turn of the first tenant."""
    failing, other = sorted(room(store) for _ in "ab")
    store.budget(failing, "10")
    lease_id = exceed(store, other)
    roll = commitments.roll

    def database_away(connection: Connection, tenant_id: str, *, most: int) -> int:
        if tenant_id == failing:
            raise OperationalError("roll", {}, psycopg.OperationalError())
        return roll(connection, tenant_id, most=most)

    monkeypatch.setattr(commitments, "roll", database_away)
    for _ in range(2):
        with pytest.raises(OperationalError):
            job(store)
    assert store.row(lease, lease_id).desired == "end"


def test_leases_of_one_tenant_that_always_cost_more_than_they_hold_delay_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More work than one run, every run: leases that a cloud does not terminate are billed beyond their end."""
    monkeypatch.setattr(job_of_budgets, "_PAIRS", 12)
    monkeypatch.setattr(job_of_budgets, "_BATCHES", 1)
    stuck, other = room(store), room(store)
    store.budget(stuck, "1", when_exceeded="notify")
    for _ in range(6):
        lease_id = store.admit(stuck, ONE, at("1"))
        assert lease_id is not None
        run(store, lease_id, "100", "1 hour")
        store.write(lease, lease_id, expires_at=ago("1 minute"))
    price_rises = exceed(store, other)
    job(store)
    assert store.row(lease, price_rises).desired == "end"


def test_a_tenants_lanes_reach_every_lease(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two leases a run: overdue ones are in every run, and yet the others have their turn."""
    monkeypatch.setattr(job_of_budgets, "_PAIRS", 12)
    monkeypatch.setattr(job_of_budgets, "_BATCHES", 1)
    tenant = room(store)
    store.budget(tenant, "1000", when_exceeded="notify")
    leases = [store.admit(tenant, ONE, at("1")) for _ in range(9)]
    for lease_id in leases[:4]:
        assert lease_id is not None
        run(store, lease_id, "100", "1 hour")
        store.write(lease, lease_id, expires_at=ago("1 minute"))
    for _ in range(2):
        job(store)
    for lease_id in leases[4:]:
        assert lease_id is not None
        store.write(lease, lease_id, minimum_rate=Decimal(2))
    for _ in range(6):
        job(store)
    held = {row.lease_id: row.amount for row in store.rows(quota_claim) if row.resource != "gpus"}
    assert all(held[lease_id] > Decimal("1.9") for lease_id in leases if lease_id is not None)


def test_a_tenant_with_many_leases_begins_a_period_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commitments, "_AT_ONCE", 2)
    tenant = room(store)
    daily = store.budget(tenant, "1000", period="day")
    leases = [store.admit(tenant, ONE, at("1", ttl=timedelta(days=2))) for _ in range(4)]
    first = leases[0]
    assert first is not None
    run(store, first, "1", "30 hours")
    store.write(lease, first, created_at=ago("3 days"), rate_since=ago("2 days"))
    ended_period(store, daily)
    before = counter(store, daily).used
    with store.database.begin() as connection:
        assert commitments.roll(connection, tenant) == 1
    assert counter(store, daily).used == before
    today = _hours_of_today(store)
    assert abs(shown(store, daily).spent - today) < CENT, "only what the new period costs is spent"
    job(store)
    end(store, first)
    assert abs(counter(store, daily).spent - today) < CENT
    assert store.all(quotas.RECOUNT) == []
