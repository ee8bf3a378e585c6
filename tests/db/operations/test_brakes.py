"""The statements of the hold: what it stops, and which terms are in doubt after it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update

from app.db.core.prepared import Bound
from app.db.events.events import NewEvent
from app.db.leases import claims
from app.db.leases.loaded_leases import lease_from_row
from app.db.leases.transitions import write
from app.db.operations import brakes
from app.db.operations.ops import LIFT_HOLD
from app.db.schema import cluster
from app.db.schema.tables import installation, lease
from app.domain.events import LeaseExtended, LeaseRebooting
from app.domain.ids import LeaseId
from tests.db.store import ENDED, Store
from workers.runtime.brakes import set_hold

PROMISED = datetime(2100, 1, 1, tzinfo=UTC)


def in_doubt(store: Store, lease_id: LeaseId) -> bool:
    """As a worker that has claimed the lease loads it."""
    row = store.first(claims.load(lease_id, store.claimed(lease_id)))
    assert row is not None
    store.write(lease, lease_id, claim_id=None, held_until=None)
    return lease_from_row(row).term_in_doubt


def restore_term(store: Store, lease_id: LeaseId, expires_at: datetime = PROMISED) -> bool:
    event, values = NewEvent(LeaseExtended(expires_at=expires_at)), {"expires_at": expires_at}
    guards, given = [brakes.MAY_RESTORE_TERM], {"promised": expires_at}
    return store.first(write(lease_id, event, where=guards, bindings=given, values=values)) is not None


def test_a_hold_puts_the_terms_of_live_leases_in_doubt_until_their_tags_were_read(store: Store) -> None:
    read, unread, ended = store.lease(), store.lease(), store.lease(**ENDED)
    assert not in_doubt(store, read)
    set_hold(store.database, "test")
    later = store.lease()
    store.run(LIFT_HOLD)
    assert [row.id for row in store.all(brakes.terms_read([read, later, ended]))] == [read]
    assert [in_doubt(store, one) for one in (read, unread, later)] == [False, True, False]
    assert not store.row(lease, ended).term_in_doubt


def test_only_a_new_hold_puts_terms_in_doubt(store: Store) -> None:
    lease_id = store.lease()
    set_hold(store.database, "first")
    store.run(brakes.terms_read([lease_id]))
    set_hold(store.database, "second")
    assert not in_doubt(store, lease_id)
    store.run(LIFT_HOLD)
    set_hold(store.database, "third")
    assert in_doubt(store, lease_id)


def test_only_a_term_in_doubt_is_restored_and_never_a_shorter_one(store: Store) -> None:
    doubted, longer = store.lease(), store.lease(expires_at=PROMISED)
    set_hold(store.database, "test")
    sure = store.lease()
    assert restore_term(store, doubted)
    assert not restore_term(store, sure)
    for earlier in (PROMISED, PROMISED - timedelta(hours=1)):
        assert not restore_term(store, longer, earlier)


def test_the_first_reason_of_a_hold_stays(store: Store) -> None:
    store.run(brakes.set_hold("first"))
    store.run(brakes.set_hold("second"))
    assert store.rows(installation)[0].hold["reason"] == "first"


def test_a_comparison_from_before_a_resume_sets_no_hold_after_it(store: Store) -> None:
    def hold() -> Any:
        set_hold(store.database, "another cluster", ~cluster.IS_KNOWN)
        return store.rows(installation)[0].hold

    store.run(update(installation).values(system_identifier="of another cluster"))
    assert hold()["reason"] == "another cluster"
    store.run(LIFT_HOLD)
    assert hold() is None


def test_not_held_guards_a_write(store: Store) -> None:
    lease_id = store.lease()

    def guarded() -> Bound[Any]:
        return write(lease_id, NewEvent(LeaseRebooting()), where=[brakes.NOT_HELD])

    assert store.first(guarded()) is not None
    store.run(brakes.set_hold("test"))
    assert store.first(guarded()) is None
    assert store.first(brakes.IS_HELD) is not None
    store.run(LIFT_HOLD)
    assert store.first(guarded()) is not None
    assert store.first(brakes.IS_HELD) is None
