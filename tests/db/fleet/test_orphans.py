"""Statements on orphans: when they are due, what is remembered of them, and when they are gone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from app.db.fleet import orphans
from app.db.operations import ops
from app.db.schema.tables import account, installation, orphan
from tests.db.store import Store, ago, together
from workers.observation.orphans import KILLS_A_CYCLE

PLACE = {"account": "main", "region": "us-east-1"}
AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def sight(
    store: Store, instance_id: str = "i-1", cause: str = "copied_tags", grace: float | None = 0, **changes: Any
) -> None:
    values = {
        **PLACE,
        "instance_id": instance_id,
        "zone": "us-east-1a",
        "instance_type": "g5.xlarge",
        "cause": cause,
        "market": "spot",
        "lease_id": None,
        "attempt_n": None,
        "tags": "{}",
        "price_per_hour": None,
        "launched_at": None,
        "deadline_at": None,
        **changes,
    }
    store.run(orphans.sight(values, grace_seconds=grace))


def due(store: Store, *, rowless_too: bool = True, limit: int = 50) -> list[str]:
    statement = orphans.due(**PLACE, again_after=30, limit=limit, rowless_too=rowless_too)
    return sorted(row.instance_id for row in store.all(statement))


@pytest.fixture
def place(store: Store) -> Store:
    store.run(insert(account).values(name="main", provider="aws", config={}))
    return store


def test_what_a_row_proves_dead_is_due_at_once_and_asked_again_only_after_a_while(place: Store) -> None:
    sight(place, cause="ended_lease")
    assert due(place) == ["i-1"]
    assert due(place) == []
    place.run(update(orphan).values(end_requested_at=ago("31 seconds")))
    assert due(place) == ["i-1"]


def test_an_orphan_that_refuses_to_end_takes_no_turn_of_one_that_was_never_asked(place: Store) -> None:
    sight(place, "i-old", cause="ended_lease")
    assert due(place) == ["i-old"]
    place.run(update(orphan).values(end_requested_at=ago("31 seconds"), first_seen_at=ago("1 hour")))
    sight(place, "i-new", cause="ended_lease")
    assert due(place, limit=1) == ["i-new"]
    assert due(place, limit=1) == ["i-old"]


def test_what_came_of_asking_for_an_end_is_remembered_until_it_is_accepted(place: Store) -> None:
    for vm_id in ("i-1", "i-2"):
        sight(place, vm_id, cause="ended_lease")
    error = {"class": "InvalidSpec", "code": "OperationNotPermitted", "message": "protected"}

    def errors() -> dict[str, object]:
        return {row.instance_id: row.end_error for row in place.all(select(orphan))}

    place.run(orphans.end_asked(**PLACE, errors={"i-1": error, "i-2": None}))
    assert errors() == {"i-1": error, "i-2": None}
    place.run(orphans.end_asked(**PLACE, errors={"i-1": None}))
    assert errors() == {"i-1": None, "i-2": None}


def test_what_has_no_row_is_due_after_two_listings_and_its_grace(place: Store) -> None:
    sight(place)
    assert due(place) == []
    sight(place)
    assert due(place) == ["i-1"]
    sight(place, "i-2", grace=900)
    sight(place, "i-2", grace=900)
    assert due(place) == []


def test_a_later_sight_does_not_prolong_the_grace(place: Store) -> None:
    sight(place, grace=900)
    place.run(update(orphan).values(end_after=ago("1 second")))
    sight(place, grace=900)
    assert due(place) == ["i-1"]


def test_a_tagged_deadline_ends_the_grace(place: Store) -> None:
    sight(place, grace=900, deadline_at=AT)
    sight(place, grace=900, deadline_at=AT)
    assert due(place) == ["i-1"]


def seen_as(store: Store, instance_id: str = "i-1") -> Any:
    return store.first(select(orphan).where(orphan.c.instance_id == instance_id))


def test_a_vm_of_a_lost_row_is_due_at_its_deadline_alone_or_when_an_operator_says_so(place: Store) -> None:
    for name, deadline in (("i-later", LATER), ("i-over", AT), ("i-none", None), ("i-told", None)):
        for _ in range(2):
            sight(place, name, cause="lost_row", grace=None, deadline_at=deadline)
    place.run(ops.end_orphan(seen_as(place, "i-told").id))
    sight(place, "i-told", cause="lost_row", grace=None)
    assert due(place) == ["i-over", "i-told"]


def test_an_orphan_shows_its_present_tags_and_deadline(place: Store) -> None:
    sight(place, cause="lost_row", grace=None, deadline_at=AT, tags='{"a": "1"}')
    changed: dict[str, Any] = {
        "deadline_at": AT + timedelta(days=1),
        "tags": '{"a": "2"}',
        "lease_id": "lease_1",
        "attempt_n": 2,
    }
    sight(place, cause="lost_row", grace=None, **changed)
    row = seen_as(place)
    assert (row.deadline_at, row.tags) == (AT + timedelta(days=1), {"a": "2"})
    assert (row.lease_id, row.attempt_n) == ("lease_1", 2)


def test_a_vm_that_turns_out_to_be_of_a_lost_row_has_no_grace_any_more(place: Store) -> None:
    sight(place, cause="copied_tags")
    sight(place, cause="lost_row", grace=None)
    assert (seen_as(place).end_after, due(place)) == (None, [])


def test_a_vm_of_a_lost_row_is_not_ended_for_a_new_attempt_of_the_same_number(place: Store) -> None:
    for _ in range(2):
        sight(place, cause="lost_row", grace=None)
    sight(place, cause="other_attempt")
    assert (seen_as(place).cause, due(place)) == ("lost_row", [])
    sight(place, cause="ended_lease")
    assert (seen_as(place).cause, due(place)) == ("ended_lease", ["i-1"])


def test_only_vms_of_lost_rows_are_adopted(place: Store) -> None:
    for cause in ("lost_row", "copied_tags", "other_attempt", "ended_lease"):
        sight(place, f"i-{cause}", cause=cause)
    assert [row.instance_id for row in place.all(ops.adopt_orphans())] == ["i-lost_row"]


def test_those_of_lost_rows_are_told_once(place: Store) -> None:
    for cause in ("lost_row", "copied_tags"):
        sight(place, f"i-{cause}", cause=cause)
    names = ["i-lost_row", "i-copied_tags", "i-new"]
    rows = place.all(orphans.lost_before(**PLACE, instance_ids=names))
    assert [row.instance_id for row in rows] == ["i-lost_row"]


def test_the_brake_on_rowless_kills_lets_proven_ones_pass(place: Store) -> None:
    for _ in range(2):
        sight(place, "i-rowless")
        sight(place, "i-proven", cause="other_attempt")
    assert due(place, rowless_too=False) == ["i-proven"]


def test_the_hold_ends_nothing(place: Store) -> None:
    sight(place, cause="ended_lease")
    place.run(update(installation).values(hold={"reason": "test"}))
    assert due(place) == []


def test_kills_are_limited_and_shared_among_many_without_overlap(place: Store) -> None:
    for number in range(30):
        sight(place, f"i-{number}", cause="ended_lease")
    taken = [instance_id for many in together(8, lambda _: due(place, limit=4)) for instance_id in many]
    assert len(taken) == len(set(taken))
    assert len(taken) <= 30


def test_a_cycle_ends_at_most_fifty(place: Store) -> None:
    for number in range(60):
        sight(place, f"i-{number}", cause="ended_lease")
    assert len(due(place, limit=KILLS_A_CYCLE)) == 50


def test_what_a_complete_listing_no_longer_shows_is_gone_and_may_be_seen_again(place: Store) -> None:
    sight(place, "i-1", cause="ended_lease")
    sight(place, "i-2")
    gone = place.all(orphans.gone(**PLACE, still_alive=["i-1"], unreachable=[]))
    assert [row.instance_id for row in gone] == ["i-2"]
    assert due(place) == ["i-1"]
    sight(place, "i-2", grace=900)
    row = place.first(select(orphan).where(orphan.c.instance_id == "i-2"))
    assert row is not None
    assert (row.state, row.gone_at) == ("seen", None)
