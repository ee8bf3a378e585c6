"""Groups as the API stores them."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select, update

from app.db.core.ids import new_id
from app.db.events.events import NewEvent, append
from app.db.groups import writes
from app.db.groups.members import NewMembers, insert_members, lock_members, member_name
from app.db.leases.transitions import request_end
from app.db.schema.tables import attempt, event, lease, lease_group
from app.db.tenancy import quotas
from app.domain.group_events import GroupQueued
from app.domain.ids import GroupId, LeaseId
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.workers.fleet import REQUEST, Fleet

LEAST = {"gpus": Decimal(1), "leases": Decimal(1)}


class Groups:
    """Creates, changes and looks at groups of a fleet's tenant."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def create(
        self,
        size: int,
        *,
        min_size: int | None = None,
        placement: str = "same_zone",
        form_seconds: int = 900,
        on_member_loss: str = "end",
        wait: float = 60.0,
        ttl: float = 3600.0,
        **changes: Any,
    ) -> GroupId:
        """What POST /v1/groups does."""
        group_id, request = GroupId(new_id("group")), {**REQUEST, "wait_seconds": int(wait), **changes}
        values = {
            "id": group_id,
            "tenant_id": self.fleet.tenant_id,
            "name": "g",
            "size": size,
            "min_size": min_size or size,
            "lease": request,
            "placement": placement,
            "interconnect": "none",
            "form_seconds": form_seconds,
            "on_member_loss": on_member_loss,
            "wait_until": func.now() + timedelta(seconds=wait),
        }
        with self.fleet.runtime.database.begin() as connection:
            connection.execute(writes.add(values))
            self._add(connection, group_id, range(size), request, timedelta(seconds=wait), timedelta(seconds=ttl))
            queued = GroupQueued(group_id=group_id, name="g", size=size, min_size=min_size or size)
            connection.execute(append(self.fleet.tenant_id, NewEvent(queued)))
        return group_id

    def _add(
        self, connection: Any, group_id: GroupId, ranks: range, request: Any, wait: timedelta, ttl: timedelta
    ) -> None:
        tenant_id = self.fleet.tenant_id
        connection.execute(quotas.ensure_rows(tenant_id, LEAST))
        assert connection.execute(quotas.admit(tenant_id, LEAST, members=len(ranks))).one().fits
        pool = connection.execute(select(lease_group.c.pool).where(lease_group.c.id == group_id)).scalar_one()
        new = NewMembers(
            tenant_id=tenant_id,
            group_id=group_id,
            names={rank: member_name("g", rank) for rank in ranks},
            request=request,
            labels={},
            on_interruption="end",
            minimum={name: str(amount) for name, amount in LEAST.items()},
            claims=LEAST,
            minimum_rate=Decimal(0),
            estimated_price_per_hour=None,
            ttl=ttl,
            wait=wait,
        )
        connection.execute(*insert_members(new))
        if pool is not None:
            connection.execute(update(lease).where(lease.c.group_id == group_id).values(group_pool=pool))

    def resize(self, group_id: GroupId, size: int) -> None:
        """What PATCH does: new members in the group's pool, or the release of the last ranks."""
        with self.fleet.runtime.database.begin() as connection:
            connection.execute(*lock_members(group_id))
            group = connection.execute(select(lease_group).where(lease_group.c.id == group_id)).one()
            if size > group.size:
                minute = timedelta(seconds=60)
                self._add(connection, group_id, range(group.size, size), group.lease, minute, 60 * minute)
            for row in connection.execute(writes.running_members(group_id, first_rank=size)).all():
                connection.execute(*request_end(LeaseId(row.id), Reason(ReasonCode.GROUP_SHRUNK, "smaller"), None))
            connection.execute(writes.change(group_id, {"size": size, "min_size": min(size, group.min_size)}))

    def end(self, group_id: GroupId) -> None:
        """What DELETE does."""
        reason = Reason(ReasonCode.RELEASED_BY_USER, "released", Origin.USER)
        with self.fleet.runtime.database.begin() as connection:
            connection.execute(*lock_members(group_id))
            for row in connection.execute(writes.running_members(group_id)).all():
                connection.execute(*request_end(LeaseId(row.id), reason, None))
            values = {"desired": "end", "state": "releasing", "reason": reason.as_json()}
            connection.execute(writes.change(group_id, values))

    def row(self, group_id: GroupId) -> Any:
        return self.fleet.runtime.database.all(select(lease_group).where(lease_group.c.id == group_id))[0]

    def members(self, group_id: GroupId, *states: str) -> list[Any]:
        """By rank, then by age; all, or those in one of the states."""
        mine = select(lease).where(lease.c.group_id == group_id).order_by(lease.c.rank, lease.c.id)
        return [row for row in self.fleet.runtime.database.all(mine) if not states or row.state in states]

    def ranks(self, group_id: GroupId, *states: str) -> list[int]:
        return [row.rank for row in self.members(group_id, *states)]

    def zones(self, group_id: GroupId) -> set[str]:
        """Of the VMs that live."""
        live = (lease.c.group_id == group_id, attempt.c.ended_at.is_(None))
        joined = attempt.join(lease, lease.c.id == attempt.c.lease_id)
        return {
            row.zone for row in self.fleet.runtime.database.all(select(attempt.c.zone).select_from(joined).where(*live))
        }

    def events(self, group_id: GroupId) -> list[str]:
        """Types of the group's own events."""
        own = event.c.data["group_id"].astext == group_id
        rows = self.fleet.runtime.database.all(select(event.c.type).where(own).order_by(event.c.row_id))
        return [row.type.removeprefix("group.") for row in rows]

    def drive_to(self, group_id: GroupId, *states: str) -> Any:
        """Drives until the group is in one of the states; its row."""
        self.fleet.drive(lambda: self.row(group_id).state in states)
        return self.row(group_id)
