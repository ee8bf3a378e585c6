"""Which groups the coordinator takes next."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, insert

from app.db.core.ids import new_id
from app.db.groups import coordination
from app.db.schema.tables import lease_group
from app.domain.ids import GroupId, TenantId
from tests.db.store import Store, ago

HOLD = timedelta(seconds=10)
GROUP: dict[str, Any] = {
    **dict.fromkeys(("size", "min_size", "form_seconds"), 1),
    "lease": {},
    "placement": "any",
    "interconnect": "none",
    "on_member_loss": "end",
    "wait_until": func.now(),
}


def group(store: Store, tenant_id: TenantId, due: str) -> GroupId:
    """A group of the tenant that is due since `due` ago."""
    group_id = GroupId(new_id("group"))
    own = {"id": group_id, "tenant_id": tenant_id, "name": group_id, "next_due": ago(due)}
    store.run(insert(lease_group).values(**{**GROUP, **own}))
    return group_id


def take(store: Store, most: int) -> list[str]:
    return [row.id for row in store.all(coordination.take_due(most, HOLD))]


def test_tenants_take_turns_however_many_groups_each_has_waiting(store: Store) -> None:
    many = [group(store, store.tenant_id, f"{100 - n} seconds") for n in range(20)]
    other = store.tenant()
    few = [group(store, other, f"{2 - n} seconds") for n in range(2)]
    assert take(store, 5) == [many[0], few[0], many[1], few[1], many[2]]


def test_a_group_is_taken_by_one_worker_until_its_time_is_over(store: Store) -> None:
    waiting = group(store, store.tenant_id, "1 second")
    group(store, store.tenant_id, "-1 hour")
    assert take(store, 5) == [waiting]
    assert take(store, 5) == []


def test_a_group_that_somebody_locks_keeps_no_other_from_its_turn(store: Store) -> None:
    locked, free = (group(store, store.tenant_id, f"{seconds} seconds") for seconds in (20, 10))
    with store.database.begin() as connection:
        connection.execute(*coordination.read(locked, locked=True)).one()
        assert take(store, 5) == [free]
