"""What comes with time or with use is told once."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import update

from app.db.events import notices
from app.db.schema.tables import event, lease, quota
from tests.db.store import ENDED, Store, ago, ahead

SOON = timedelta(minutes=10)


def told(store: Store) -> list[str]:
    """Ids of the leases that are told by one round."""
    rows = store.all(notices.expiring(SOON, 10))
    return [row.id for row in rows if store.changed(notices.tell_expiring(row.id, row.expires_at))]


def nearly_used(store: Store) -> list[Any]:
    """What one round tells."""
    store.run(notices.USED_LESS)
    return [(row.tenant_id, row.resource) for row in store.all(notices.NEARLY_USED)]


def test_a_lease_that_ends_soon_is_told_once(store: Store) -> None:
    soon = store.lease(expires_at=ahead("9 minutes"))
    past = store.lease(expires_at=ago("1 minute"))
    store.lease(expires_at=ahead("11 minutes"))
    assert told(store) == [past, soon]
    assert told(store) == []
    assert [(row.type, row.lease_id) for row in store.rows(event)] == [
        ("lease.expiring_soon", past),
        ("lease.expiring_soon", soon),
    ]


def test_a_lease_that_was_extended_is_told_again_before_its_new_end(store: Store) -> None:
    lease_id = store.lease(expires_at=ahead("9 minutes"))
    assert told(store) == [lease_id]
    store.write(lease, lease_id, expires_at=ahead("1 hour"))
    assert told(store) == []
    store.write(lease, lease_id, expires_at=ahead("5 minutes"), expiry_told_for=ago("1 hour"))
    assert told(store) == [lease_id]


def test_a_lease_that_ends_or_has_ended_is_not_warned(store: Store) -> None:
    store.lease(expires_at=ahead("1 minute"), **ENDED)
    store.lease(expires_at=ahead("1 minute"), state="releasing", desired="end")
    assert told(store) == []


def test_one_that_was_extended_between_look_and_word_is_not_told(store: Store) -> None:
    lease_id = store.lease(expires_at=ahead("9 minutes"))
    (row,) = store.all(notices.expiring(SOON, 10))
    store.write(lease, lease_id, expires_at=ahead("1 hour"))
    assert store.changed(notices.tell_expiring(lease_id, row.expires_at)) == 0
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
