"""Launch batches: who may join, who sends, and what undoes what."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert

from app.db.leases import batch_company, batches
from app.db.leases.transitions import locked
from app.db.schema.tables import attempt, launch_batch, lease
from app.domain.ids import AttemptId, BatchId, LeaseId
from tests.db.store import Store, ago, ahead, together

KEY, BUCKET = "key", "sim/us-east-1/launch"
BATCH = BatchId("batch_1")
TIMES = {"call_seconds": 30.0, "hold_seconds": 90.0}


def planned(store: Store, key: str | None = KEY, tenant: Any = None, **values: Any) -> tuple[LeaseId, AttemptId]:
    facts = {"state": "provisioning", "tenant_id": tenant or store.tenant_id, **values}
    lease_id = store.lease(**facts)
    return lease_id, store.attempt(lease_id, batch_key=key)


def company(store: Store, leader: LeaseId, limit: int = 10) -> set[str]:
    statement = batch_company.claim_company(store.tenant_id, KEY, leader, limit=limit, number=None, **TIMES)
    return {row.id for row in store.all(statement)}


def elect(store: Store, lease_id: LeaseId, most: int = 100) -> Any:
    claim_id = uuid4()
    store.write(lease, lease_id, claim_id=claim_id)
    with store.database.begin() as connection:
        connection.execute(*batch_company.lock_key(KEY))
        election = batch_company.elect(lease_id, claim_id, store.tenant_id, KEY, BUCKET, most=most, late=5.0)
        return connection.execute(*election).one()


def sent(store: Store, count: int) -> list[tuple[LeaseId, AttemptId]]:
    """A batch of so many attempts that was sent once."""
    pairs = [planned(store) for _ in range(count)]
    place = {"provider": "aws", "account": "sim", "region": "us-east-1", "zone": "us-east-1a"}
    facts = {"slots": count, "params": {"MaxCount": count}, "params_hash": "0" * 16, "tenant_id": store.tenant_id}
    store.run(insert(launch_batch).values(id=BATCH, token=str(uuid4()), **place, **facts))
    with store.database.begin() as connection:
        connection.execute(*locked(lease_id for lease_id, _ in pairs))
        assert len(connection.execute(*batches.sent(BATCH, columns(pairs, "slot"))).all()) == count
    return pairs


def columns(pairs: list[tuple[LeaseId, AttemptId]], of: str) -> batches.SlotRows:
    rows = batches.SlotRows()
    for _, attempt_id in pairs:
        rows.add(attempt_id, f"{of}-{attempt_id}".encode(), None)
    return rows


def unsend(store: Store, pairs: list[tuple[LeaseId, AttemptId]], sent_at: Any) -> int:
    return len(store.all(batches.unsent(BATCH, columns(pairs, "own"), sent_at, 7.0, '{"code": "slow"}', reached=True)))


def rows(store: Store, pairs: list[tuple[LeaseId, AttemptId]]) -> list[Any]:
    return [store.row(attempt, attempt_id) for _, attempt_id in pairs]


# --- who joins ----------------------------------------------------------------------------------------------


def test_due_attempts_of_the_tenant_and_key_join(store: Store) -> None:
    leader, _ = planned(store)
    others = {planned(store)[0] for _ in range(3)}
    assert company(store, leader) == others
    assert all(store.row(lease, one).claim_id is not None for one in others)


def test_no_more_join_than_there_is_room(store: Store) -> None:
    leader, _ = planned(store)
    for _ in range(3):
        planned(store)
    assert len(company(store, leader, limit=2)) == 2


def test_others_do_not_join(store: Store) -> None:
    leader, _ = planned(store)
    planned(store, key="another")
    planned(store, key=None)
    planned(store, tenant=store.tenant())
    planned(store, desired="end")
    planned(store, expires_at=ahead("20 seconds"))
    store.claimed(planned(store)[0])
    store.write(attempt, planned(store)[1], retry_at=ahead("1 minute"))
    store.write(attempt, planned(store)[1], state="sent")
    assert company(store, leader) == set()


def test_two_leaders_never_gather_the_same_lease(store: Store) -> None:
    leaders = [planned(store)[0] for _ in range(4)]
    for leader in leaders:
        store.claimed(leader)
    others = {planned(store)[0] for _ in range(12)}
    gathered = together(4, lambda number: company(store, leaders[number], limit=3))
    assert sum(map(len, gathered)) == len(set().union(*gathered)) <= len(others)


# --- who leads ----------------------------------------------------------------------------------------------


def test_one_leads_and_the_others_follow(store: Store) -> None:
    first, second = planned(store)[0], planned(store)[0]
    assert elect(store, first).elected
    row = elect(store, second)
    assert (row.elected, row.slot_at, row.company) == (False, store.row(lease, first).slot_at, True)


def test_more_attempts_than_a_call_takes_get_another_leader(store: Store) -> None:
    ids = [planned(store)[0] for _ in range(3)]
    assert [elect(store, one, most=2).elected for one in ids] == [True, True, False]


def test_a_leader_whose_slot_has_long_passed_does_not_count(store: Store) -> None:
    first, second = planned(store)[0], planned(store)[0]
    elect(store, first)
    store.write(lease, first, slot_at=ago("1 minute"))
    assert elect(store, second).elected


def test_a_lease_that_is_about_to_be_placed_is_company(store: Store) -> None:
    first, _ = planned(store)
    assert not elect(store, first).company
    store.lease()
    assert elect(store, first).company


# --- what is sent -------------------------------------------------------------------------------------------


def test_all_slots_are_sent_at_the_time_of_their_batch(store: Store) -> None:
    pairs = sent(store, 3)
    batch = store.row(launch_batch, BATCH)
    assert [(row.state, row.batch_id, row.batch_index) for row in rows(store, pairs)] == [
        ("sent", BATCH, index) for index in range(3)
    ]
    assert {(row.first_sent_at, row.last_sent_at, row.unknown_since) for row in rows(store, pairs)} == {
        (batch.last_sent_at,) * 3
    }
    assert rows(store, pairs)[1].host_key_hash == f"slot-{pairs[1][1]}".encode()
    assert [row.params for row in rows(store, pairs)] == [None] * 3, "nobody can send one of them alone"


def test_a_send_that_did_nothing_leaves_planned_attempts(store: Store) -> None:
    pairs = sent(store, 3)
    assert unsend(store, pairs, store.row(launch_batch, BATCH).last_sent_at) == 3
    for row in rows(store, pairs):
        assert (row.state, row.batch_id, row.first_sent_at, row.unknown_since) == ("planned", None, None, None)
        assert (row.host_key_hash, row.params) == (f"own-{row.id}".encode(), None)
        assert row.retry_at - store.now() > timedelta(seconds=5)


def test_a_batch_that_was_sent_again_is_not_undone(store: Store) -> None:
    pairs = sent(store, 2)
    first = store.row(launch_batch, BATCH).last_sent_at
    store.run(batches.sent_again(BATCH, [], call_seconds=30))
    assert unsend(store, pairs, first) == 0
    assert unsend(store, pairs, store.row(launch_batch, BATCH).last_sent_at) == 0, "the first send may have worked"


def test_a_repeat_concerns_every_slot_of_unknown_outcome(store: Store) -> None:
    pairs = sent(store, 4)
    first = store.row(launch_batch, BATCH).last_sent_at
    settling, known = pairs[1][1], pairs[2][1]
    store.write(attempt, settling, state="settling", empty_listings=2, last_empty_listing_at=ago("1 minute"))
    store.write(attempt, known, state="known", instance_id="i-1", vm_state="running")
    store.run(batches.sent_again(BATCH, [pairs[0][0]], call_seconds=30))
    again = store.row(launch_batch, BATCH).last_sent_at
    assert again > first
    assert [row.last_sent_at for row in rows(store, pairs)] == [again, again, first, again]
    assert store.row(attempt, settling).empty_listings == 0
    assert [row.retry_at is not None for row in rows(store, pairs)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("values", "repeatable"),
    [
        ({"retry_at": None}, True),
        ({"state": "refused", "ended_at": ago("1 second")}, True),
        ({"state": "dead", "ended_at": ago("1 second")}, False),
        ({"state": "known", "instance_id": "i-1", "vm_state": "running"}, True),
        ({"state": "known", "instance_id": "i-1", "vm_state": "gone"}, False),
        ({"state": "known", "instance_id": "i-1", "vm_state": "running", "terminate_sent_at": ago("1 second")}, False),
    ],
)
def test_a_call_is_not_repeated_where_it_could_create_a_vm_anew(
    store: Store, values: dict[str, Any], repeatable: bool
) -> None:
    pairs = sent(store, 2)
    store.write(attempt, pairs[1][1], **values)
    assert store.only(batches.locked_batch(BATCH).statement.params(batch=BATCH)).repeatable is repeatable


def test_parameters_stay_until_no_slot_may_be_sent(store: Store) -> None:
    pairs = sent(store, 2)
    store.write(attempt, pairs[0][1], state="known", instance_id="i-1", vm_state="running")
    store.run(batches.forget_params([BATCH]))
    assert store.row(launch_batch, BATCH).params is not None
    store.write(attempt, pairs[1][1], state="refused", ended_at=ago("1 second"))
    store.run(batches.forget_params([BATCH]))
    assert store.row(launch_batch, BATCH).params is None


# --- what listings name -------------------------------------------------------------------------------------


def test_slots_name_attempts(store: Store) -> None:
    pairs = sent(store, 2)
    place = store.row(attempt, pairs[0][1])
    batch = store.row(launch_batch, BATCH)
    asked = [(BATCH, 0), (BATCH, 5), ("batch_2", 0)]
    found = {(row.batch_id, row.slot): (row.known, row.lease_id) for row in store.all(_named(batch, asked))}
    assert place.batch_index == 0
    assert found == {(BATCH, 0): (True, pairs[0][0]), (BATCH, 5): (True, None), ("batch_2", 0): (False, None)}


def _named(batch: Any, slots: list[tuple[str, int]]) -> Any:
    return batches.named_slots(batch.account, batch.region, slots)


def test_leftovers_of_a_batch_are_over_with_its_last_attempt(store: Store) -> None:
    pairs = sent(store, 2)
    judge = batches.judged("sim", "us-east-1", [BATCH, "batch_2"])
    store.write(attempt, pairs[0][1], state="dead", ended_at=ago("1 second"))
    assert {row.id: (row.ended, row.rowless) for row in store.all(judge)} == {
        BATCH: (False, False),
        "batch_2": (False, True),
    }
    store.write(attempt, pairs[1][1], state="dead", ended_at=ago("1 second"))
    assert {row.id: row.ended for row in store.all(judge)} == {BATCH: True, "batch_2": False}
