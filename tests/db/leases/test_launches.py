"""Reserved launch slots are fair between tenants: who comes late with little need not queue behind who asked for much."""

from datetime import datetime
from itertools import count
from typing import Any

from sqlalchemy import select, text

from app.db.fleet import provider_rate_limits
from app.db.leases import launches
from app.db.schema.tables import lease
from app.domain.ids import LeaseId, TenantId
from tests.db.store import Store, together

BUCKET = "main/us-east-1/launch"


def reserve(store: Store, tenant_id: TenantId, name: str = BUCKET) -> LeaseId:
    """A lease that has asked for its slot, as placing does it."""
    lease_id = store.lease(tenant_id=tenant_id)
    claim_id = store.claimed(lease_id)
    asked: Any = store.first(provider_rate_limits.reserve(name, burst=1, per_second=0.1))
    if asked.wait_seconds > 0:
        traded = store.first(launches.trade_slot(tenant_id, name, asked.slot_at))
        slot = asked.slot_at if traded is None else traded.slot_at
        assert store.changed(launches.reserve_slot(lease_id, claim_id, name, slot)) == 1
    return lease_id


def in_order(store: Store) -> list[tuple[TenantId, datetime]]:
    """Who goes when, of those that wait."""
    rows = select(lease.c.tenant_id, lease.c.slot_at).where(lease.c.slot_at > text("now()")).order_by(lease.c.slot_at)
    return [(row.tenant_id, row.slot_at) for row in store.all(rows)]


def test_alone_a_tenant_keeps_the_order_of_asking(store: Store) -> None:
    asked = [reserve(store, store.tenant_id) for _ in range(4)]
    slots = [store.row(lease, lease_id).slot_at for lease_id in asked[1:]]
    assert slots == sorted(slots)


def test_a_late_tenant_with_one_lease_goes_next(store: Store) -> None:
    for _ in range(20):
        reserve(store, store.tenant_id)
    before = [slot for _, slot in in_order(store)]
    late = store.tenant()
    reserve(store, late)
    after = in_order(store)
    assert after[0][0] == late
    assert [slot for _, slot in after[:-1]] == before, "no slot is given twice, and none is lost"


def test_two_tenants_with_many_take_turns(store: Store) -> None:
    late = store.tenant()
    for _ in range(9):
        reserve(store, store.tenant_id)
    for _ in range(4):
        reserve(store, late)
    who = [tenant_id for tenant_id, _ in in_order(store)]
    assert who[:8] == [late, store.tenant_id] * 4


def test_slots_of_another_bucket_are_not_traded(store: Store) -> None:
    for _ in range(5):
        reserve(store, store.tenant_id, "main/eu-west-1/launch")
    before = in_order(store)
    late = store.tenant()
    reserve(store, late)
    assert in_order(store) == before


def test_many_who_trade_at_once_never_share_a_slot(store: Store) -> None:
    for _ in range(12):
        reserve(store, store.tenant_id)
    tenants = [store.tenant() for _ in range(6)]
    numbers = count()
    together(6, lambda n: [reserve(store, tenants[n]) for _ in range(2) if next(numbers) < 100])
    slots = [slot for _, slot in in_order(store)]
    assert len(slots) == 23
    assert len(set(slots)) == 23
