"""Claims: one owner at a time, by the database's clock."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from sqlalchemy import func, select

from app.db.leases import claims
from app.db.leases.loaded_leases import lease_from_row
from app.db.leases.transitions import WAKE
from app.db.schema.tables import lease
from app.domain.leases import LeaseState
from tests.db.store import ENDED, Store, ago, ahead, together

LATER = datetime(2100, 1, 1, tzinfo=UTC)


def due(store: Store, lease_id: str) -> bool:
    statement = select(lease.c.id).where(lease.c.id == lease_id, lease.c.next_due <= func.now())
    return store.first(statement) is not None


def test_of_many_who_claim_one_lease_one_wins(store: Store) -> None:
    lease_id = store.lease()
    won = together(16, lambda _: store.first(claims.claim(lease_id, uuid4(), 60)))
    assert sum(row is not None for row in won) == 1


def test_many_sweepers_share_the_due_leases_without_overlap(store: Store) -> None:
    made = {store.lease() for _ in range(60)}
    taken = [row for rows in together(12, lambda _: store.all(claims.claim_due(5, 60))) for row in rows]
    assert {row.id for row in taken} == made
    assert len(taken) == 60
    assert len({row.claim_id for row in taken}) == 60


def test_the_longest_due_are_taken_first(store: Store) -> None:
    newer, older = store.lease(next_due=ago("1 minute")), store.lease(next_due=ago("2 minutes"))
    assert [row.id for row in store.all(claims.claim_due(1, 60))] == [older]
    assert [row.id for row in store.all(claims.claim_due(1, 60))] == [newer]


def test_what_is_not_due_or_held_or_asleep_is_not_taken(store: Store) -> None:
    held = store.lease()
    store.claimed(held)
    for lease_id in (held, store.lease(next_due=ahead("1 second")), store.lease(next_due=None)):
        assert store.first(claims.claim(lease_id, uuid4(), 60)) is None
    assert store.all(claims.claim_due(10, 60)) == []


def test_a_claim_runs_out_and_its_owner_can_decide_nothing_after_another_took_over(store: Store) -> None:
    lease_id = store.lease()
    lost = store.claimed(lease_id, hold_seconds=-1)
    won = store.claimed(lease_id)
    assert store.first(claims.load(lease_id, lost)) is None
    assert store.changed(claims.unclaim(lease_id, lost, next_due=None, wake_count=0)) == 0
    assert store.changed(claims.postpone(lease_id, lost, timedelta(0))) == 0
    assert store.first(claims.load(lease_id, won)) is not None


def test_a_lease_rests_until_its_time(store: Store) -> None:
    lease_id = store.lease()
    claim_id = store.claimed(lease_id)
    assert store.changed(claims.unclaim(lease_id, claim_id, next_due=LATER, wake_count=0)) == 1
    row = store.row(lease, lease_id)
    assert (row.next_due, row.claim_id, row.held_until) == (LATER, None, None)


def test_a_lease_with_nothing_to_do_is_not_due_at_all(store: Store) -> None:
    lease_id = store.lease()
    store.run(claims.unclaim(lease_id, store.claimed(lease_id), next_due=None, wake_count=0))
    assert store.row(lease, lease_id).next_due is None


def test_a_lease_woken_while_it_was_held_is_due_again_at_once(store: Store) -> None:
    lease_id = store.lease()
    claim_id = store.claimed(lease_id)
    seen = store.row(lease, lease_id).wake_count
    store.write(lease, lease_id, **WAKE)
    store.run(claims.unclaim(lease_id, claim_id, next_due=LATER, wake_count=seen))
    assert due(store, lease_id)


def test_a_wake_never_takes_a_claim_away(store: Store) -> None:
    lease_id = store.lease()
    claim_id = store.claimed(lease_id)
    store.write(lease, lease_id, **WAKE)
    assert store.first(claims.claim(lease_id, uuid4(), 60)) is None
    assert store.first(claims.load(lease_id, claim_id)) is not None


def test_an_ended_lease_is_let_go_and_never_due_again(store: Store) -> None:
    lease_id = store.lease()
    claim_id = store.claimed(lease_id)
    store.write(lease, lease_id, **ENDED)
    store.run(claims.unclaim(lease_id, claim_id, next_due=LATER, wake_count=99))
    row = store.row(lease, lease_id)
    assert (row.next_due, row.claim_id) == (None, None)
    assert store.changed(claims.postpone(lease_id, claim_id, timedelta(0))) == 0


def test_a_postponed_lease_is_free_and_due_after_the_pause(store: Store) -> None:
    lease_id = store.lease()
    assert store.changed(claims.postpone(lease_id, store.claimed(lease_id), timedelta(hours=1))) == 1
    assert not due(store, lease_id)
    lease_id = store.lease()
    store.run(claims.postpone(lease_id, store.claimed(lease_id), timedelta(0)))
    assert store.row(lease, lease_id).claim_id is None
    store.claimed(lease_id)


def test_a_lease_is_loaded_with_its_newest_attempt_and_what_is_left_of_the_others(store: Store) -> None:
    lease_id = store.lease()
    store.attempt(lease_id, "refused", ended_at=func.now(), clean=False)
    newest = store.attempt(lease_id, "sent", last_sent_at=ago("1 second"))
    row = store.first(claims.load(lease_id, store.claimed(lease_id)))
    loaded = lease_from_row(row)
    assert (loaded.id, loaded.state, loaded.attempts_count, loaded.unclean_attempts) == (
        lease_id,
        LeaseState.QUEUED,
        2,
        1,
    )
    assert loaded.attempt is not None
    assert (loaded.attempt.id, loaded.attempt.n) == (newest, 2)


def test_a_lease_without_attempts_is_loaded_without_one(store: Store) -> None:
    lease_id = store.lease()
    loaded = lease_from_row(store.first(claims.load(lease_id, store.claimed(lease_id))))
    assert loaded.attempt is None
    assert loaded.unclean_attempts == 0


def test_tenants_take_turns_however_many_leases_each_has_waiting(store: Store) -> None:
    many = [store.lease(next_due=ago(f"{100 - n} seconds")) for n in range(20)]
    other = store.tenant()
    few = [store.lease(tenant_id=other, next_due=ago(f"{2 - n} seconds")) for n in range(2)]
    in_turns = [row.id for row in store.all(claims.claim_due(5, 60))]
    assert in_turns == [many[0], few[0], many[1], few[1], many[2]]


def test_turns_go_on_while_other_leases_of_a_tenant_are_held(store: Store) -> None:
    for n in range(10):
        store.lease(next_due=ago(f"{100 - n} seconds"))
    store.all(claims.claim_due(4, 60))
    late = store.lease(tenant_id=store.tenant(), next_due=ago("1 second"))
    assert late in [row.id for row in store.all(claims.claim_due(2, 60))]
