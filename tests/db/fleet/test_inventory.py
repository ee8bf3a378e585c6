"""Bulk statements of observation: many rows at once, and nothing written that others have overtaken."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Update, func, insert, select, update

from app.db.core.prepared import Bound
from app.db.fleet import inventory
from app.db.operations import ops
from app.db.schema.tables import account, account_region, attempt, installation, lease, orphan
from app.domain.leases import VmState
from tests.db.store import ENDED, Store, ago, together

PLACE = {"account": "main", "region": "us-east-1"}
AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def observe(store: Store, attempt_id: str, state: VmState, **facts: Any) -> bool:
    observed = inventory.Observed()
    observed.add(attempt_id, state, **facts)
    return store.first(observed.statement()) is not None


def test_many_observations_are_one_statement(store: Store) -> None:
    made = {store.attempt(lease_id, "known"): lease_id for lease_id in (store.lease() for _ in range(20))}
    observed = inventory.Observed()
    for number, attempt_id in enumerate(made):
        observed.add(attempt_id, VmState.RUNNING, addresses=(f"192.0.2.{number}", None), ready=number % 2 == 0)
    assert len(observed) == 20
    assert sorted(row.lease_id for row in store.all(observed.statement())) == sorted(made.values())
    for number, attempt_id in enumerate(made):
        row = store.row(attempt, attempt_id)
        assert (row.public_ip, row.ready) == (f"192.0.2.{number}", number % 2 == 0)


def test_observations_of_the_same_vms_in_any_order_do_not_block_each_other(store: Store) -> None:
    ids = [store.attempt(store.lease(), "known") for _ in range(30)]

    def work(number: int) -> None:
        for _ in range(5):
            observed = inventory.Observed()
            for attempt_id in ids if number % 2 else ids[::-1]:
                observed.add(attempt_id, VmState.RUNNING)
            store.run(observed.statement())

    together(8, work)


def test_a_look_that_began_before_what_is_known_was_seen_undoes_nothing(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known", vm_state="running", vm_state_at=AT)
    assert not observe(store, attempt_id, VmState.PENDING, at=AT - timedelta(seconds=5))
    assert store.row(attempt, attempt_id).vm_state == "running"
    assert observe(store, attempt_id, VmState.ENDING, at=AT - timedelta(seconds=5)), (
        "the provider's clock may be behind"
    )
    assert observe(store, attempt_id, VmState.RUNNING, at=AT)


@pytest.mark.parametrize("state", [VmState.RUNNING, VmState.ENDING, VmState.STOPPED])
def test_a_look_from_before_a_listing_without_the_vm_tells_only_when_it_was_last_seen(
    store: Store, state: VmState
) -> None:
    store.run(insert(account).values(name="main", provider="aws", config={}))
    store.run(insert(account_region).values(**PLACE, last_listing_started_at=AT + timedelta(seconds=10)))
    attempt_id = store.attempt(store.lease(), "known", vm_state="absent", vm_state_at=AT)
    assert observe(store, attempt_id, state, at=AT + timedelta(seconds=5), reason='{"code": "Spot"}')
    row = store.row(attempt, attempt_id)
    assert (row.vm_state, row.vm_state_at) == ("absent", AT + timedelta(seconds=5))
    assert row.vm_reason == {"code": "Spot"}, "nobody may see the reason again"
    assert observe(store, attempt_id, state, at=AT + timedelta(seconds=15))
    row = store.row(attempt, attempt_id)
    assert (row.vm_state, row.vm_state_at) == (str(state), AT + timedelta(seconds=15))


@pytest.mark.parametrize("state", [state for state in VmState if state is not VmState.GONE])
def test_a_vm_once_gone_never_comes_back(store: Store, state: VmState) -> None:
    attempt_id = store.attempt(store.lease(), "known", vm_state="gone", vm_state_at=AT)
    assert not observe(store, attempt_id, state, ready=True)
    row = store.row(attempt, attempt_id)
    assert (row.vm_state, row.vm_state_at, row.ready) == ("gone", AT, False)


def test_the_providers_time_of_a_change_is_kept_and_its_reason_with_it(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known")
    observe(store, attempt_id, VmState.GONE, at=AT, reason='{"code": "x", "interrupted": true}')
    observe(store, attempt_id, VmState.GONE, at=None, clean=True)
    row = store.row(attempt, attempt_id)
    assert (row.vm_state_at, row.vm_reason, row.clean) == (AT, {"code": "x", "interrupted": True}, True)


def test_ready_and_clean_are_never_taken_back(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known")
    observe(store, attempt_id, VmState.RUNNING, ready=True, clean=True)
    observe(store, attempt_id, VmState.RUNNING)
    row = store.row(attempt, attempt_id)
    assert (row.ready, row.clean) == (True, True)


@pytest.mark.parametrize(
    ("state", "taken"), [("sent", True), ("settling", True), ("planned", True), ("known", False), ("dead", False)]
)
def test_a_vm_is_found_only_for_an_attempt_whose_vm_is_not_known(store: Store, state: str, *, taken: bool) -> None:
    values = {"ended_at": func.now()} if state == "dead" else {}
    attempt_id = store.attempt(store.lease(), state, retry_at=ago("1 second"), **values)
    rows = store.all(inventory.found([(attempt_id, "i-found", VmState.RUNNING, None, "192.0.2.1", None)]))
    row = store.row(attempt, attempt_id)
    assert bool(rows) is taken
    assert (row.state == "known" and row.instance_id == "i-found") is taken
    if taken:
        assert row.known_at is not None
        assert row.retry_at is None


def test_absence_dates_from_when_the_vm_was_last_seen(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known", known_at=AT)
    later = AT.replace(day=2)
    assert store.first(inventory.absent([attempt_id], later)) is not None
    row = store.row(attempt, attempt_id)
    assert (row.vm_state, row.vm_state_at) == ("absent", later)
    assert store.first(inventory.absent([attempt_id], later)) is None


@pytest.mark.parametrize("last_seen", [None, AT])
def test_absence_never_dates_from_before_the_launch(store: Store, last_seen: Any) -> None:
    known_at = AT.replace(day=2)
    attempt_id = store.attempt(store.lease(), "known", known_at=known_at)
    store.run(inventory.absent([attempt_id], last_seen))
    assert store.row(attempt, attempt_id).vm_state_at == known_at


@pytest.mark.parametrize("state", ["gone", "absent"])
def test_what_is_gone_is_not_made_absent(store: Store, state: str) -> None:
    attempt_id = store.attempt(store.lease(), "known", vm_state=state)
    assert store.first(inventory.absent([attempt_id], None)) is None


def test_empty_listings_count_for_settling_attempts_alone(store: Store) -> None:
    settling, sent = store.attempt(store.lease(), "settling"), store.attempt(store.lease(), "sent")
    assert len(store.all(inventory.seen_nothing([settling, sent], AT, gap_seconds=120))) == 1
    row = store.row(attempt, settling)
    assert (row.empty_listings, row.last_empty_listing_at) == (1, AT)
    assert store.row(attempt, sent).empty_listings == 0


@pytest.mark.parametrize(("seconds", "counted"), [(-60, 1), (119, 1), (120, 2)])
def test_two_empty_listings_count_only_apart_also_when_two_processes_took_them(
    store: Store, seconds: int, counted: int
) -> None:
    settling = store.attempt(store.lease(), "settling")
    later = AT + timedelta(seconds=seconds)
    for at in (AT, later):
        store.run(inventory.seen_nothing([settling], at, gap_seconds=120))
    row = store.row(attempt, settling)
    assert (row.empty_listings, row.last_empty_listing_at) == (counted, AT if counted == 1 else later)


def test_waking_counts_and_makes_due_but_never_what_has_ended(store: Store) -> None:
    asleep, ended = store.lease(next_due=None), store.lease(**ENDED)
    store.run(inventory.wake([asleep, ended]))
    woken, over = store.row(lease, asleep), store.row(lease, ended)
    assert woken.next_due is not None
    assert (woken.wake_count, over.wake_count, over.next_due) == (1, 0, None)


def test_live_rows_are_those_that_may_have_a_vm_in_this_place(store: Store) -> None:
    here = [store.attempt(store.lease(), state) for state in ("planned", "sent", "known", "settling")]
    for state in ("refused", "dead"):
        store.attempt(store.lease(), state, ended_at=func.now())
    store.attempt(store.lease(), "known", region="eu-west-1")
    store.attempt(store.lease(), "known", account="other")
    rows = [inventory.row_from(row) for row in store.all(Bound(inventory.LIVE_ROWS, PLACE))]
    assert sorted(row.attempt_id for row in rows) == sorted(here)


def test_rows_are_found_by_the_tags_of_vms_ended_ones_included(store: Store) -> None:
    lease_id = store.lease()
    ended = store.attempt(lease_id, "dead", ended_at=func.now(), clean=True)
    store.attempt(lease_id)
    unknown = ("lease_01jz0000000000000000000009", 1)
    rows = store.all(inventory.named_rows(**PLACE, keys=[(lease_id, 1), (lease_id, 7), unknown]))
    assert [inventory.row_from(row).attempt_id for row in rows] == [ended]
    assert store.all(inventory.named_rows(**PLACE, keys=[])) == []


def test_a_complete_listing_is_remembered_with_its_cost(store: Store) -> None:
    store.run(insert(account).values(name="main", provider="aws", config={}))
    store.run(insert(account_region).values(**PLACE, last_error={"class": "x"}))
    for _ in range(2):
        store.run(listed(AT))
    row = store.first(inventory.region_rows(PLACE["account"], [PLACE["region"]]))
    assert row is not None
    assert (row.cycles, row.last_error, row.last_complete_listing_at) == (2, None, AT)


@pytest.mark.parametrize("lack", ["all_well", "all_zones"])
def test_a_listing_that_was_not_believed_or_left_a_zone_out_is_no_time_that_vms_were_seen(
    store: Store, lack: str
) -> None:
    store.run(insert(account).values(name="main", provider="aws", config={}))
    store.run(insert(account_region).values(**PLACE))
    store.run(listed(AT))
    store.run(listed(AT + timedelta(minutes=1), all_well=lack != "all_well", all_zones=lack != "all_zones"))
    row = store.first(inventory.region_rows(PLACE["account"], [PLACE["region"]]))
    assert row is not None
    assert (row.cycles, row.last_complete_listing_at) == (2, AT)


def listed(started_at: datetime, *, all_well: bool = True, all_zones: bool = True) -> Bound[Update]:
    cost = (1, Decimal(1))
    place = (PLACE["account"], PLACE["region"])
    return inventory.listed(*place, started_at=started_at, count=3, cost=cost, all_well=all_well, all_zones=all_zones)


# --- orphans --------------------------------------------------------------------------------------------------


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
    store.run(inventory.sight(values, grace_seconds=grace))


def due(store: Store, *, rowless_too: bool = True, limit: int = 50) -> list[str]:
    statement = inventory.orphans_due(**PLACE, again_after=30, limit=limit, rowless_too=rowless_too)
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

    place.run(inventory.end_asked(**PLACE, errors={"i-1": error, "i-2": None}))
    assert errors() == {"i-1": error, "i-2": None}
    place.run(inventory.end_asked(**PLACE, errors={"i-1": None}))
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


@pytest.mark.parametrize("before", ["no_row", "copied_tags"])
def test_a_vm_that_turns_out_to_be_of_a_lost_row_has_no_grace_any_more(place: Store, before: str) -> None:
    """The version before wrote `no_row`."""
    sight(place, cause=before)
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
    for cause in ("lost_row", "copied_tags", "no_row"):
        sight(place, f"i-{cause}", cause=cause)
    names = ["i-lost_row", "i-copied_tags", "i-no_row", "i-new"]
    rows = place.all(inventory.lost_before(**PLACE, instance_ids=names))
    assert [row.instance_id for row in rows] == ["i-lost_row"]


# --- deadline tags --------------------------------------------------------------------------------------------


def test_what_a_tag_says_is_kept_unless_it_was_written_since(store: Store) -> None:
    leases = [store.lease(deadline_applied=AT) for _ in range(2)]
    store.run(update(lease).where(lease.c.id == leases[1]).values(deadline_applied=LATER))
    rows = store.all(inventory.retagged([(one, AT, AT - timedelta(hours=1)) for one in leases]))
    assert [row.id for row in rows] == leases[:1]
    assert [store.row(lease, one).deadline_applied for one in leases] == [AT - timedelta(hours=1), LATER]


def test_a_tag_that_cannot_be_read_counts_as_not_written(store: Store) -> None:
    lease_id = store.lease(deadline_applied=AT)
    store.run(inventory.retagged([(lease_id, AT, None)]))
    assert store.row(lease, lease_id).deadline_applied is None


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


def test_what_a_complete_listing_no_longer_shows_is_gone_and_may_be_seen_again(place: Store) -> None:
    sight(place, "i-1", cause="ended_lease")
    sight(place, "i-2")
    gone = place.all(inventory.orphans_gone(**PLACE, still_alive=["i-1"], unreachable=[]))
    assert [row.instance_id for row in gone] == ["i-2"]
    assert due(place) == ["i-1"]
    sight(place, "i-2", grace=900)
    row = place.first(select(orphan).where(orphan.c.instance_id == "i-2"))
    assert row is not None
    assert (row.state, row.gone_at) == ("seen", None)
