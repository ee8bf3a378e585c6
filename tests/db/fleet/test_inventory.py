"""Bulk statements of observation: many rows at once, and nothing written that others have overtaken."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Update, func, insert, update

from app.db.core.prepared import Bound
from app.db.fleet import inventory
from app.db.schema.tables import account, account_region, attempt, lease
from app.domain.leases import VmState
from tests.db.store import ENDED, Store, ago, together

PLACE = {"account": "main", "region": "us-east-1"}
AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def observe(store: Store, attempt_id: str, state: VmState, **facts: Any) -> bool:
    observed = inventory.ObservationBatch()
    observed.add(attempt_id, state, **facts)
    return store.first(observed.statement()) is not None


def test_many_observations_are_one_statement(store: Store) -> None:
    made = {store.attempt(lease_id, "known"): lease_id for lease_id in (store.lease() for _ in range(20))}
    observed = inventory.ObservationBatch()
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
            observed = inventory.ObservationBatch()
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
    rows = store.all(inventory.record_found_vms([(attempt_id, "i-found", VmState.RUNNING, None, "192.0.2.1", None)]))
    row = store.row(attempt, attempt_id)
    assert bool(rows) is taken
    assert (row.state == "known" and row.instance_id == "i-found") is taken
    if taken:
        assert row.known_at is not None
        assert row.retry_at is None


def test_absence_dates_from_when_the_vm_was_last_seen(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known", known_at=AT)
    later = AT.replace(day=2)
    assert store.first(inventory.absent([(attempt_id, later)])) is not None
    row = store.row(attempt, attempt_id)
    assert (row.vm_state, row.vm_state_at) == ("absent", later)
    assert store.first(inventory.absent([(attempt_id, later)])) is None


@pytest.mark.parametrize("last_seen", [None, AT])
def test_absence_never_dates_from_before_the_launch(store: Store, last_seen: Any) -> None:
    known_at = AT.replace(day=2)
    attempt_id = store.attempt(store.lease(), "known", known_at=known_at)
    store.run(inventory.absent([(attempt_id, last_seen)]))
    assert store.row(attempt, attempt_id).vm_state_at == known_at


@pytest.mark.parametrize("state", ["gone", "absent"])
def test_what_is_gone_is_not_made_absent(store: Store, state: str) -> None:
    attempt_id = store.attempt(store.lease(), "known", vm_state=state)
    assert store.first(inventory.absent([(attempt_id, None)])) is None


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
