"""What comes with time or with use is told once."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import update

from app.db.events.events import NewEvent
from app.db.leases import notices
from app.db.leases.transitions import write
from app.db.schema.tables import event, lease, quota
from app.domain.events import LeaseExpiringSoon, LeaseExtended
from tests.db.store import ENDED, Store, ago, ahead

SOON = (600, 60)


def told(store: Store) -> list[tuple[str, int]]:
    """Leases and warnings that are told by one round."""
    return [(row.id, row.seconds) for row in store.all(notices.expiring(SOON, 10)) if tell(store, row)]


def tell(store: Store, row: Any) -> int:
    event = LeaseExpiringSoon(expires_at=row.expires_at, ends_at=row.ends_at, seconds=row.seconds)
    return store.changed(notices.tell_expiring(row.id, event))


def nearly_used(store: Store) -> list[Any]:
    """What one round tells."""
    store.run(notices.USED_LESS)
    found = [
        row
        for tenant in store.all(notices.NEARLY_USED)
        for row in store.all(notices.mark_nearly_used(tenant.tenant_id))
    ]
    return [(row.tenant_id, row.resource) for row in found]


def test_a_lease_that_ends_soon_is_told_once(store: Store) -> None:
    soon = store.lease(expires_at=ahead("9 minutes"), created_at=ago("1 hour"))
    past = store.lease(expires_at=ago("1 minute"), created_at=ago("1 hour"))
    store.lease(expires_at=ahead("11 minutes"), created_at=ago("1 hour"))
    assert told(store) == [(past, 60), (soon, 600)]
    assert told(store) == []
    assert [(row.type, row.lease_id, row.data["seconds"]) for row in store.rows(event)] == [
        ("lease.expiring_soon", past, 60),
        ("lease.expiring_soon", soon, 600),
    ]


def test_each_warning_is_told_once_and_only_those_that_fit_into_the_lease(store: Store) -> None:
    lease_id = store.lease(expires_at=ahead("9 minutes"), created_at=ago("30 seconds"))
    own = store.lease(expires_at=ahead("9 minutes"), created_at=ago("1 hour"), expiry_warnings=[7200, 1800, 540])
    none = store.lease(expires_at=ahead("9 minutes"), created_at=ago("1 hour"), expiry_warnings=[])
    assert told(store) == [(own, 540)]
    for made in (lease_id, own, none):
        store.write(lease, made, expires_at=ahead("50 seconds"))
    assert told(store) == [(lease_id, 60)]


def test_the_end_by_the_maximum_cost_is_warned_of(store: Store) -> None:
    lease_id = store.lease(expires_at=ahead("1 hour"), created_at=ago("1 hour"), cost_reached_at=ahead("9 minutes"))
    assert told(store) == [(lease_id, 600)]
    (data,) = [row.data for row in store.rows(event)]
    assert data["ends_at"] < data["expires_at"]
    store.write(lease, lease_id, cost_reached_at=ahead("8 minutes"))
    assert told(store) == [], "an earlier end repeats no warning"


def test_a_lease_that_was_extended_is_told_again_before_its_new_end(store: Store) -> None:
    lease_id = store.lease(expires_at=ahead("9 minutes"), created_at=ago("1 hour"))
    assert told(store) == [(lease_id, 600)]
    store.write(lease, lease_id, expires_at=ahead("1 hour"))
    assert told(store) == []
    store.write(lease, lease_id, expires_at=ahead("5 minutes"), expiry_told_for=ago("1 hour"))
    assert told(store) == [(lease_id, 600)]


def test_an_extension_that_does_not_move_the_end_repeats_no_warning(store: Store) -> None:
    given = {"created_at": ago("1 hour"), "expiry_warnings": [600, 120, 60]}
    capped = store.lease(expires_at=ahead("1 hour"), cost_reached_at=ahead("9 minutes"), **given)
    later = store.lease(expires_at=ahead("9 minutes"), cost_reached_at=ahead("20 minutes"), **given)
    assert sorted(told(store)) == sorted([(capped, 600), (later, 600)])
    for lease_id in (capped, later):
        extend(store, lease_id)
    assert told(store) == []
    store.write(lease, capped, cost_reached_at=ahead("110 seconds"))
    assert told(store) == [(capped, 120)]
    store.write(lease, later, cost_reached_at=ahead("19 minutes"))
    assert told(store) == [], "the end became earlier, and no warning before it is due"


def extend(store: Store, lease_id: Any) -> None:
    until = store.now() + timedelta(hours=2)
    data = NewEvent(LeaseExtended(expires_at=until))
    values = {"expires_at": until, **notices.EXTENDED}
    store.run(write(lease_id, data, bindings={"until": until}, values=values))


def test_a_lease_that_ends_or_has_ended_is_not_warned(store: Store) -> None:
    store.lease(expires_at=ahead("1 minute"), created_at=ago("1 hour"), **ENDED)
    store.lease(expires_at=ahead("1 minute"), created_at=ago("1 hour"), state="releasing", desired="end")
    assert told(store) == []


def test_one_that_was_extended_between_look_and_word_is_not_told(store: Store) -> None:
    lease_id = store.lease(expires_at=ahead("9 minutes"), created_at=ago("1 hour"))
    (row,) = store.all(notices.expiring(SOON, 10))
    store.write(lease, lease_id, expires_at=ahead("1 hour"))
    assert tell(store, row) == 0
    assert store.rows(event) == []


def test_a_quota_is_told_at_nine_tenths_and_again_only_after_it_fell_below_eight(store: Store) -> None:
    tenant = store.tenant(gpus=10, leases=10)
    one = {"gpus": Decimal(1)}
    held = [store.admit(tenant, one) for _ in range(8)]
    assert nearly_used(store) == []
    held.append(store.admit(tenant, one))
    assert nearly_used(store) == [(tenant, "gpus")]
    assert nearly_used(store) == []
    first, second, last = held[0], held[1], held[2]
    assert first is not None
    assert second is not None
    assert last is not None
    store.hold(tenant, first, {"leases": Decimal(1)})
    assert nearly_used(store) == []
    held.append(store.admit(tenant, one))
    assert nearly_used(store) == []
    store.hold(tenant, second, {"leases": Decimal(1)})
    store.hold(tenant, last, {"leases": Decimal(1)})
    assert nearly_used(store) == []
    for _ in range(2):
        store.admit(tenant, one)
    assert nearly_used(store) == [(tenant, "gpus")]


def test_a_limit_that_is_lifted_or_zero_is_not_nearly_used(store: Store) -> None:
    tenant = store.tenant(gpus=1, leases=0)
    store.admit(tenant, {"gpus": Decimal(1)})
    assert nearly_used(store) == [(tenant, "gpus")]
    store.run(update(quota).where(quota.c.resource == "gpus").values(limit=100))
    assert nearly_used(store) == []
    store.run(update(quota).where(quota.c.resource == "gpus").values(limit=1))
    assert nearly_used(store) == [(tenant, "gpus")]
