"""Idleness in SQL: the same rule as the domain's, notices once each, and an end that only a run without a break passes."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from app.db.events.events import NewEvent
from app.db.leases import claims, idle_evidence, idleness
from app.db.leases.loaded_leases import lease_from_row
from app.db.schema.tables import event, gpu_latest, gpu_sample, lease, tenant
from app.domain.events import LeaseIdleSoon
from app.domain.idleness import LAST_NOTICE, IdleFloor, Idleness, evidence
from app.domain.ids import LeaseId
from app.domain.lease_requests import IdleAction, IdleRule
from tests.db.store import Store, ago, ahead

PERIOD = 60.0
HOUR_END = {"after_seconds": 3600, "action": "end"}
rules = st.builds(IdleRule, after_seconds=st.integers(900, 100_000), action=st.sampled_from(IdleAction))
floors = st.builds(IdleFloor, rule=rules)


def idle_lease(
    store: Store, *, wish: Any = HOUR_END, since: str = "1 hour", samples: int = 60, **values: Any
) -> LeaseId:
    """An active lease whose GPUs are idle `since`, with a sample half a minute ago."""
    request = {"ttl_seconds": 3600, "idle": wish}
    facts = {"state": "active", "ready_at": ago("2 days"), "gpu_count": 2, "next_due": None, "request": request}
    lease_id = store.lease(**{**facts, **values})
    store.attempt(lease_id, "known")
    times = {"sampled_at": ago("30 seconds"), "received_at": ago("30 seconds"), "idle_since": ago(since)}
    row = {"lease_id": lease_id, "tenant_id": store.tenant_id, "attempt_id": "attempt_x", "idle_samples": samples}
    store.run(insert(gpu_latest).values(**row, **times))
    return lease_id


def sampled(store: Store, lease_id: LeaseId, **values: Any) -> None:
    store.run(update(gpu_latest).where(gpu_latest.c.lease_id == lease_id).values(**values))


def due(store: Store) -> dict[str, int]:
    """Leases whose owners are to be told, and what."""
    result = {}
    for row in store.all(idleness.due(PERIOD, 100)):
        run = idleness.idleness_from_row(row, IdleRule.from_json(row.rule) if row.rule else None)
        assert run is not None
        result[row.id] = run.notice(row.now, PERIOD)
    return result


def loaded(store: Store, lease_id: LeaseId) -> Any:
    store.write(lease, lease_id, next_due=ago("1 minute"), held_until=None)
    return lease_from_row(store.first(claims.load(lease_id, store.claimed(lease_id))))


def run_of(store: Store, lease_id: LeaseId) -> Idleness:
    run: Idleness | None = loaded(store, lease_id).idleness
    assert run is not None
    return run


def tell(store: Store, lease_id: LeaseId, run: Idleness, notice: int) -> int:
    data = LeaseIdleSoon(idle_since=run.since, ends_at=run.ends_at, seconds=600)
    return store.changed(idleness.tell(lease_id, NewEvent(data), run, notice, PERIOD))


@settings(max_examples=60)
@given(
    rules | st.none(),
    floors | st.none(),
    st.integers(0, 100_000),
    st.integers(1, 2000),
    st.none() | st.integers(-50_000, 50_000),
    st.integers(0, LAST_NOTICE),
)
def test_sql_and_domain_agree_on_what_is_due(
    store: Store, wish: IdleRule | None, floor: IdleFloor | None, idle: int, samples: int, keep: int | None, told: int
) -> None:
    store.run(update(tenant).values(idle_floor=floor.as_json() if floor else None))
    keep_until = None if keep is None else ahead(f"{keep} seconds")
    lease_id = idle_lease(
        store,
        wish=wish.as_json() if wish else None,
        since=f"{idle} seconds",
        samples=samples,
        keep_until=keep_until,
    )
    try:
        run = loaded(store, lease_id).idleness
        if wish is None and floor is None:
            assert run is None
            assert due(store) == {}
            return
        row = store.only(
            select(
                idleness.due_at(lease, idleness.after_seconds(lease, tenant.c.idle_floor), gpu_latest.c.idle_since),
                idleness.ends_after(lease, tenant.c.idle_floor),
            )
            .select_from(lease.join(gpu_latest, idleness.RUN_OF_LEASE).join(tenant, tenant.c.id == lease.c.tenant_id))
            .where(lease.c.id == lease_id)
        )
        assert row[0] == run.due_at
        assert row[1] == (None if run.ends_at is None else run.rule.after_seconds)
        store.write(lease, lease_id, idle_told=told, idle_told_for=run.due_at)
        before, found, after = _due(store, run, told), due(store).get(lease_id, 0), _due(store, run, told)
        assert before <= found <= after
    finally:
        store.write(lease, lease_id, state="releasing", desired="end")
        store.run(update(gpu_latest).values(idle_since=None))


def _due(store: Store, run: Idleness, told: int) -> int:
    """The notice that is due when `told` has been told for the same time. What must end is due whatever was told."""
    notice = run.notice(store.now(), PERIOD)
    ends = notice == LAST_NOTICE and run.ends_at is not None
    return notice if notice > told or ends else 0


@pytest.mark.parametrize(
    "change",
    [
        {"idle_since": None, "idle_samples": 0},
        {"idle_since": ago("1 minute"), "idle_samples": 1},
        {"sampled_at": ago("3 minutes")},
    ],
)
def test_a_busy_sample_a_gap_or_silence_wins_over_the_end(store: Store, change: dict[str, Any]) -> None:
    lease_id = idle_lease(store)
    run = run_of(store, lease_id)
    sampled(store, lease_id, **change)
    assert not tell(store, lease_id, run, LAST_NOTICE)
    assert due(store) == {}


def test_a_keep_wins_over_the_end(store: Store) -> None:
    lease_id = idle_lease(store)
    run = run_of(store, lease_id)
    store.write(lease, lease_id, keep_until=ahead("1 hour"))
    assert not tell(store, lease_id, run, LAST_NOTICE)
    assert run_of(store, lease_id).due_at > run.due_at


def test_another_idle_sample_changes_nothing(store: Store) -> None:
    lease_id = idle_lease(store)
    run = run_of(store, lease_id)
    sampled(store, lease_id, idle_samples=61, sampled_at=ago("0 seconds"))
    assert tell(store, lease_id, run, LAST_NOTICE) == 1


def test_each_notice_is_told_once_for_each_run(store: Store) -> None:
    lease_id = idle_lease(store, since="31 minutes", samples=31)
    assert due(store) == {lease_id: 1}
    assert tell(store, lease_id, run_of(store, lease_id), 1) == 1
    assert tell(store, lease_id, run_of(store, lease_id), 1) == 0
    assert due(store) == {}
    sampled(store, lease_id, idle_since=ago("51 minutes"), idle_samples=51)
    assert due(store) == {lease_id: 2}, "another run"
    store.write(lease, lease_id, keep_until=ahead("2 hours"))
    assert due(store) == {}
    assert [row.type for row in store.rows(event)] == ["lease.idle_soon"]


@pytest.mark.parametrize("wish", [{"after_seconds": 3600, "action": "notify"}, None], ids=["own-rule", "floor-alone"])
def test_a_floor_that_ends_reaches_a_lease_that_was_told_idle_under_one_that_notifies(store: Store, wish: Any) -> None:
    store.run(update(tenant).values(idle_floor={"after_seconds": 3600, "action": "notify"}))
    lease_id = idle_lease(store, wish=wish)
    assert tell(store, lease_id, run_of(store, lease_id), LAST_NOTICE) == 1
    assert due(store) == {}
    store.run(update(tenant).values(idle_floor=HOUR_END))
    assert due(store) == {lease_id: LAST_NOTICE}


def test_a_run_of_the_vm_before_is_none(store: Store) -> None:
    lease_id = idle_lease(store, ready_at=ago("10 minutes"))
    assert loaded(store, lease_id).idleness is None
    assert due(store) == {}


def test_a_lease_without_samples_or_a_rule_is_not_judged(store: Store) -> None:
    assert loaded(store, store.lease(request={"ttl_seconds": 60, "idle": HOUR_END})).idleness is None
    without = idle_lease(store, wish=None)
    assert loaded(store, without).idleness is None
    assert due(store) == {}
    store.run(update(tenant).values(idle_floor={**HOUR_END, "max_keep_seconds": 60}))
    assert loaded(store, without).idle_floor == IdleFloor.from_json({**HOUR_END, "max_keep_seconds": 60})
    assert due(store) == {without: LAST_NOTICE}


def test_waking_makes_an_active_lease_due(store: Store) -> None:
    lease_id = idle_lease(store)
    store.run(idleness.wake(lease_id))
    assert store.row(lease, lease_id).next_due is not None


def test_the_deciding_samples_are_the_evidence(store: Store) -> None:
    lease_id = idle_lease(store)
    run = run_of(store, lease_id)
    for n, at in enumerate((run.since - timedelta(minutes=1), run.since, run.since + timedelta(minutes=1))):
        store.run(insert(gpu_sample).values(**_sample(store, lease_id, at, n)))
    with store.database.begin() as connection:
        found = evidence(run, connection.execute(*idle_evidence.samples(lease_id, run)).all())
    assert found["gpus"] == ["GPU-0", "GPU-1"]
    assert found["percentages"] == [[1, 2], [2, 2]]
    assert found["at"][0] == found["since"]
    assert (found["samples"], found["after_seconds"], found["idle_percent"]) == (60, 3600, 5)


def test_the_evidence_has_the_last_1440_samples(store: Store) -> None:
    lease_id = idle_lease(store)
    run = run_of(store, lease_id)
    step = (run.sampled_at - run.since) / 1500
    times = [run.since + n * step for n in range(1, 1501)]
    store.run(insert(gpu_sample).values([_sample(store, lease_id, at, 1) for at in times]))
    with store.database.begin() as connection:
        found = evidence(run, connection.execute(*idle_evidence.samples(lease_id, run)).all())
    assert (len(times), len(found["at"])) == (1500, 1440)


def _sample(store: Store, lease_id: LeaseId, at: datetime, percent: int) -> dict[str, Any]:
    values = [[percent, 2], [3, 3], [40, 40], [60, 60]]
    gpus = {"uuids": ["GPU-0", "GPU-1"], "gpu_values": values}
    return {"lease_id": lease_id, "tenant_id": store.tenant_id, "at": at, "idle": True, **gpus}
