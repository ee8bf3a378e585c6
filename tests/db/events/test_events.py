"""The sequencer: one order for all readers, without a gap, whatever commits when."""

import threading
from typing import Any

from sqlalchemy import func, select, update

from app.db.events import events, reads
from app.db.leases.transitions import write
from app.db.operations import brakes
from app.db.schema.tables import event, installation
from app.domain.events import LeaseRebooted, LeaseRebooting
from tests.db.store import Store, together

TOLD = events.NewEvent(LeaseRebooting())


def sequence(store: Store, batch: int = 1000) -> int:
    """One round of a sequencer; how many it numbered, or 0 when another one is at work."""
    with store.database.begin() as connection:
        counter = connection.execute(*events.LOCK_COUNTER).first()
        if counter is None:
            return 0
        count = connection.execute(*events.number_new(counter.event_sequence, batch)).rowcount
        connection.execute(*events.move_counter(count))
    return count


def numbers(store: Store) -> list[int]:
    return [row.sequence for row in store.all(reads.numbered(after=0, limit=10_000))]


def test_a_reader_who_goes_on_from_the_last_number_misses_nothing(store: Store) -> None:
    leases = [store.lease() for _ in range(4)]
    told = threading.Barrier(5)
    done = threading.Event()

    def work(number: int) -> list[Any]:
        match number:
            case 0:
                return _read_until(store, done)
            case 1 | 2:
                _sequence_until(store, done)
            case _:
                _tell(store, leases[number % 4])
                if told.wait(timeout=60) == 0:
                    done.set()
        return []

    read = together(8, work)[0]
    everything = store.all(select(event).order_by(event.c.sequence))
    assert [row.sequence for row in everything] == list(range(1, len(everything) + 1))
    assert read
    assert [row.id for row in read] == [row.id for row in everything][: len(read)]
    for lease_id in leases:
        own = [row.lease_sequence for row in everything if row.lease_id == lease_id]
        assert own == list(range(1, len(own) + 1))


def _tell(store: Store, lease_id: Any) -> None:
    for _ in range(40):
        with store.database.begin() as connection:
            connection.execute(*write(lease_id, TOLD))
            connection.execute(select(func.pg_sleep(0.002)))
            connection.execute(events.append(store.tenant_id, TOLD))


def _sequence_until(store: Store, done: threading.Event) -> None:
    while not (done.is_set() and store.first(events.ANY_UNNUMBERED) is None):
        sequence(store, batch=7)


def _read_until(store: Store, done: threading.Event) -> list[Any]:
    """What a client sees that asks for more after the last number it has seen."""
    read: list[Any] = []
    while True:
        finished = done.is_set() and store.first(events.ANY_UNNUMBERED) is None
        rows = store.all(reads.numbered(after=read[-1].sequence if read else 0, limit=50))
        read.extend(rows)
        if finished and not rows:
            return read


def test_what_is_not_committed_is_numbered_later_and_higher(store: Store) -> None:
    with store.database.begin() as slow:
        slow.execute(events.append(store.tenant_id, TOLD))
        store.run(events.append(store.tenant_id, events.NewEvent(LeaseRebooted(n=1))))
        assert sequence(store) == 1
    assert sequence(store) == 1
    order = [row.type for row in store.all(reads.numbered(after=0, limit=10))]
    assert order == ["lease.rebooted", "lease.rebooting"]


def test_what_is_rolled_back_leaves_no_gap(store: Store) -> None:
    with store.database.begin() as connection:
        connection.execute(events.append(store.tenant_id, TOLD))
        connection.rollback()
    store.run(events.append(store.tenant_id, TOLD))
    sequence(store)
    assert numbers(store) == [1]


def test_two_sequencers_never_work_at_once(store: Store) -> None:
    store.run(events.append(store.tenant_id, TOLD))
    with store.database.begin() as first:
        assert first.execute(*events.LOCK_COUNTER).first() is not None
        assert store.first(events.LOCK_COUNTER) is None
    assert sequence(store) == 1


def test_the_counter_moves_with_the_numbers(store: Store) -> None:
    for _ in range(5):
        store.run(events.append(store.tenant_id, TOLD))
    assert [sequence(store, batch=2) for _ in range(4)] == [2, 2, 1, 0]
    assert store.first(select(installation.c.event_sequence)) == (5,)
    assert store.first(events.ANY_UNNUMBERED) is None
    assert numbers(store) == [1, 2, 3, 4, 5]


def test_unnumbered_events_are_shown_to_nobody(store: Store) -> None:
    store.run(events.append(store.tenant_id, TOLD))
    assert numbers(store) == []


def test_after_a_restore_nothing_is_numbered_until_the_hold_moves_the_counter(store: Store) -> None:
    store.run(update(installation).values(event_sequence=5, system_identifier="another", timeline=1))
    assert store.first(events.LOCK_COUNTER) is None
    store.run(brakes.set_hold("restored"))
    assert store.first(events.LOCK_COUNTER) == (5 + brakes.LOST_NUMBERS,)
    store.run(brakes.set_hold("once more"))
    assert store.first(events.LOCK_COUNTER) == (5 + brakes.LOST_NUMBERS,)
