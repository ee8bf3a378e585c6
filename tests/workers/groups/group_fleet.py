"""Groups of a fleet, stored as the API stores them."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, text, update

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.groups import members, writes
from app.db.groups.members import NewMembers, insert_members, member_name
from app.db.operations.invariants import CHECKS
from app.db.schema.tables import attempt, event, lease, lease_group
from app.db.tenancy import quotas
from app.db.tenancy.quotas import NewCommitment
from app.domain.groups.groups import Pool
from app.domain.ids import GroupId, LeaseId
from tests.workers.fleet import LEAST, REQUEST, Fleet

LEAST_RATE = Decimal(1)
"""USD an hour of a member, before its first attempt."""
WANTED: dict[str, Any] = {"placement": "same_zone", "interconnect": "none", "form_seconds": 900}

_LIVE = (
    select(lease.c.group_id, attempt.c.zone, attempt.c.instance_type)
    .join(attempt, attempt.c.lease_id == lease.c.id)
    .where(attempt.c.ended_at.is_(None), lease.c.group_id.is_not(None))
    .distinct()
)
_OF_QUOTA = [rule for rule in CHECKS if "used equals" in rule.name]
_GROUP = select(lease_group).where(lease_group.c.id == bindparam("of"))
_MEMBERS = select(lease).where(lease.c.group_id == bindparam("of")).order_by(lease.c.rank, lease.c.id)


class GroupFleet:
    """A fleet whose leases are members of groups."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.database = fleet.runtime.database

    # --- changing --------------------------------------------------------------------------------------

    def create(self, size: int, *, ttl: float = 3600, script: str | None = None, **changes: Any) -> GroupId:
        """A group in the queue. `changes`: columns of the group, and `lease`: parts of its members' request."""
        group_id = GroupId(new_id("group"))
        request: dict[str, Any] = {**REQUEST, "name": "member", "ttl_seconds": int(ttl), **changes.pop("lease", {})}
        values = {**WANTED, "name": "g", "min_size": size, "on_member_loss": "end", **changes}
        wait = timedelta(seconds=request["wait_seconds"])
        with self.database.begin() as connection:
            own = {"id": group_id, "tenant_id": self.fleet.tenant_id, "lease": request, "size": size}
            connection.execute(writes.add({**own, **values, "wait_until": func.now() + wait}))
            self._insert(connection, group_id, range(size), request, ttl=ttl, script=script)
        return group_id

    def _insert(
        self, connection: Connection, group_id: GroupId, ranks: range, request: dict[str, Any], **terms: Any
    ) -> None:
        ttl = timedelta(seconds=terms.get("ttl", 3600))
        about = NewCommitment(rate=LEAST_RATE, ttl=ttl)
        room = connection.execute(quotas.admit(self.fleet.tenant_id, LEAST, about, members=len(ranks))).one()
        assert room.fits
        new = NewMembers(
            tenant_id=self.fleet.tenant_id,
            group_id=group_id,
            names={rank: member_name("g", rank) for rank in ranks},
            request=request,
            labels={},
            on_interruption="end",
            minimum={resource: str(amount) for resource, amount in LEAST.items()},
            claims={**LEAST, **dict(zip(room.budgets, room.budget_amounts, strict=True))},
            minimum_rate=LEAST_RATE,
            estimated_price_per_hour=None,
            ttl=ttl,
            wait=timedelta(seconds=request["wait_seconds"]),
            startup_script=terms.get("script"),
            pool=terms.get("pool"),
        )
        assert len(connection.execute(*insert_members(new)).all()) == len(ranks)

    def grow(self, group_id: GroupId, size: int) -> None:
        """What `PATCH` does."""
        row = self.group(group_id)
        with self.database.begin() as connection:
            connection.execute(*members.lock_members(group_id))
            self._insert(connection, group_id, range(row.size, size), row.lease, pool=Pool.from_json(row.pool))
            connection.execute(writes.change(group_id, {"size": size}))

    def shrink(self, group_id: GroupId, size: int) -> None:
        """What `PATCH` did, if it left the release of the last ranks to the coordinator."""
        with self.database.begin() as connection:
            connection.execute(*members.lock_members(group_id))
            connection.execute(writes.change(group_id, {"size": size, "min_size": size}))

    def set(self, group_id: GroupId, **values: Any) -> None:
        self.database.run(update(lease_group).where(lease_group.c.id == group_id).values(**values))

    def time_out(self, group_id: GroupId) -> None:
        """Its time to form in the present pool is over."""
        self.set(group_id, pool_started_at=text("now() - interval '10 days'"), next_due=func.now())

    def kill_vm(self, lease_id: LeaseId) -> None:
        """Somebody ends the VM at the cloud."""
        self.fleet.sim.stop(self.fleet.attempts(lease_id)[-1].instance_id)

    # --- driving ---------------------------------------------------------------------------------------

    def drive(self, until: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Drives the fleet until the condition holds. At each step no group is active with too few members."""

        def check() -> bool:
            self.check()
            return until()

        self.fleet.drive(check, seconds=seconds)

    def drive_to(self, group_id: GroupId, *states: str) -> Any:
        """Drives a group into one of the states; its row."""
        self.drive(lambda: self.group(group_id).state in states)
        return self.group(group_id)

    def check(self) -> None:
        """What holds at any time: nothing is in two pools, and quota agrees with the claims."""
        live = self.database.all(Bound(_LIVE, {}))
        assert len(live) == len({row.group_id for row in live}), live
        for rule in _OF_QUOTA:
            assert self.database.all(Bound(rule.statement, {})) == [], rule.name

    # --- looking ---------------------------------------------------------------------------------------

    def group(self, group_id: GroupId) -> Any:
        return self.database.first(Bound(_GROUP, {"of": group_id}))

    def members(self, group_id: GroupId) -> list[Any]:
        """The leases of the group, by rank and age."""
        return self.database.all(Bound(_MEMBERS, {"of": group_id}))

    def ids(self, group_id: GroupId) -> list[LeaseId]:
        return members.ids(self.members(group_id))

    def events(self, group_id: GroupId) -> list[str]:
        """The types of the group's own events."""
        query = select(event.c.type).where(event.c.data["group_id"].astext == group_id).order_by(event.c.row_id)
        return [row.type.removeprefix("group.") for row in self.database.all(query)]

    def counted(self) -> dict[str, int]:
        """The GPUs and leases that count against the quota."""
        return {name: used for name, used in self.fleet.used().items() if name in LEAST}

    def vms(self) -> int:
        return len(self.fleet.vms())
