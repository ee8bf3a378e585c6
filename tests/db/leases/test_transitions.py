"""The one statement that changes a lease: guarded, and telling exactly what it did."""

from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from app.db.events.events import NewEvent
from app.db.leases import transitions
from app.db.schema.tables import event, lease
from app.domain.events import LeaseReleaseBlocked
from app.domain.ids import LeaseId
from app.domain.leases import TERMINAL, TRANSITIONS, LeaseState
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.db.store import ENDED, Store, together

RELEASED = Reason(ReasonCode.RELEASED_BY_USER, "A user asked for it.")
TOLD = NewEvent(LeaseReleaseBlocked(obstacle="a test"), "req-1")
S = LeaseState


def in_state(store: Store, state: LeaseState) -> LeaseId:
    values: dict[str, Any] = {"state": str(state)}
    if state is S.ACTIVE:
        values["ready_at"] = func.now()
    if state is S.RELEASING:
        values["desired"] = "end"
    if state in TERMINAL:
        values = {**ENDED, "state": str(state)}
    return store.lease(**values)


def needed_for(state: LeaseState) -> dict[str, Any]:
    match state:
        case S.ACTIVE:
            return {"ready_at": func.now()}
        case S.RELEASING:
            return {"desired": "end"}
        case S.RELEASED | S.FAILED:
            return {"ended_at": func.now(), "next_due": None}
        case _:
            return {}


def events(store: Store, lease_id: LeaseId) -> list[Any]:
    return store.all(select(event).where(event.c.lease_id == lease_id).order_by(event.c.lease_sequence))


def test_exactly_the_transitions_of_the_table_can_be_written(store: Store) -> None:
    for start, target in product(LeaseState, LeaseState):
        lease_id = in_state(store, start)
        before = store.row(lease, lease_id)
        wrote = store.first(transitions.write(lease_id, TOLD, to=target, values=needed_for(target)))
        if target in TRANSITIONS[start]:
            assert wrote is not None
            assert store.row(lease, lease_id).state == target
        else:
            assert wrote is None, (start, target)
            assert store.row(lease, lease_id) == before
            assert events(store, lease_id) == []


def test_a_change_and_its_event_are_one(store: Store) -> None:
    lease_id = store.lease()
    wrote = store.first(transitions.write(lease_id, TOLD, to=S.PROVISIONING, values={"provider": "aws"}))
    row = store.row(lease, lease_id)
    assert tuple(wrote or ()) == (lease_id, 1)
    assert (row.state, row.provider, row.version, row.events_count) == ("provisioning", "aws", 2, 1)
    (told,) = events(store, lease_id)
    assert (told.type, told.data, told.request_id, told.tenant_id) == (
        TOLD.type,
        TOLD.data.as_json(),
        "req-1",
        store.tenant_id,
    )
    assert told.sequence is None


def test_without_the_claim_nothing_is_decided_or_told(store: Store) -> None:
    lease_id = store.lease()
    claim_id = store.claimed(lease_id)
    assert store.first(transitions.write(lease_id, TOLD, to=S.PROVISIONING, claim_id=uuid4())) is None
    assert events(store, lease_id) == []
    assert store.first(transitions.write(lease_id, TOLD, to=S.PROVISIONING, claim_id=claim_id)) is not None


def test_a_guard_that_does_not_hold_writes_and_tells_nothing(store: Store) -> None:
    lease_id = store.lease()
    assert store.first(transitions.write(lease_id, TOLD, where=[lease.c.desired == "end"])) is None
    assert store.row(lease, lease_id).version == 1
    assert events(store, lease_id) == []


def test_an_end_asked_for_by_many_begins_once(store: Store) -> None:
    lease_id = store.lease()
    reason = Reason(ReasonCode.RELEASED_BY_USER, "x", Origin.USER)
    asked = together(12, lambda number: store.first(transitions.request_end(lease_id, reason, f"req-{number}")))
    row = store.row(lease, lease_id)
    assert sum(answer is not None for answer in asked) == 1
    assert (row.state, row.desired, row.wake_count) == ("releasing", "end", 1)
    assert [told.type for told in events(store, lease_id)] == ["lease.releasing"]


@pytest.mark.parametrize("state", sorted(TERMINAL | {S.RELEASING}))
def test_what_ends_or_has_ended_cannot_be_ended_again(store: Store, state: LeaseState) -> None:
    lease_id = in_state(store, state)
    assert store.first(transitions.request_end(lease_id, RELEASED, None)) is None


def test_asking_for_the_end_takes_no_claim_away(store: Store) -> None:
    lease_id = store.lease()
    claim_id = store.claimed(lease_id)
    store.run(transitions.request_end(lease_id, RELEASED, None))
    assert store.row(lease, lease_id).claim_id == claim_id


def test_changes_at_once_are_numbered_without_a_gap(store: Store) -> None:
    lease_id = store.lease()
    together(16, lambda _: [store.run(transitions.write(lease_id, TOLD)) for _ in range(3)])
    assert [told.lease_sequence for told in events(store, lease_id)] == list(range(1, 49))
