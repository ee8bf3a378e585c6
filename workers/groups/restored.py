"""A member gets back a VM that the database had lost: its group forms where the VM runs."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func

from app.db.events.events import NewEvent, append
from app.db.groups import coordination
from app.domain.groups.events import EventPool, GroupForming
from app.domain.groups.groups import GroupFacts, GroupPlacement, GroupState, Pool
from app.domain.ids import GroupId
from app.domain.offerings import Market


class OtherPoolError(Exception):
    """The group forms, or runs, in another pool than the VM."""


def rejoin_pool(connection: Connection, group_id: GroupId, place: Mapping[str, Any]) -> Pool | None:
    """The pool of the group, for a member with a VM at `place`: account, region, zone, instance_type, market.

    A group without a pool begins to form in that of the VM, in this transaction. A group that forms gets its form time
    anew: it may have passed while the rows were lost. None: the group ends. The caller has locked the member. Raises
    OtherPoolError.
    """
    group = coordination.group_from_row(connection.execute(*coordination.read(group_id, locked=True)).one())
    if group.ends or group.state in (GroupState.RELEASING, GroupState.ENDED):
        return None
    pool = _pool_at(place, group.placement)
    if group.pool is None:
        _form(connection, group, pool)
    elif group.pool != pool:
        raise OtherPoolError
    elif group.formed_at is None:
        connection.execute(coordination.move(group.id, {"pool_started_at": func.now()}))
    return pool


def _pool_at(place: Mapping[str, Any], placement: GroupPlacement) -> Pool:
    return Pool(
        account=place["account"],
        region=place["region"],
        zone=None if placement is GroupPlacement.ANY else place["zone"],
        instance_type=place["instance_type"],
        market=Market(place["market"]),
    )


def _form(connection: Connection, group: GroupFacts, pool: Pool) -> None:
    values = {"state": str(GroupState.FORMING), "pool": pool.as_json(), "pool_started_at": func.now(), "reason": None}
    connection.execute(coordination.move(group.id, values))
    connection.execute(append(group.tenant_id, NewEvent(GroupForming(group_id=group.id, pool=EventPool.of(pool)))))
