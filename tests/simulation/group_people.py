"""Users who create, resize and release groups, through the services of the API."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cached_property, partial
from random import Random
from typing import Any

from sqlalchemy import select

from app.db.schema.tables import lease, lease_group
from app.domain.groups.groups import GroupInterconnect, GroupPlacement, OnMemberLoss
from app.domain.ids import GroupId, LeaseId, TenantId
from app.domain.lease_actions import LaterExpiry
from app.domain.lease_requests import LeaseRequest
from app.services.errors import ServiceError
from app.services.groups.changes import GroupChanges
from app.services.groups.creation import GroupCreation
from app.services.groups.requests import CreateGroup
from app.services.leases.requests import CreateLease
from app.services.offering_cache import OfferingCache
from app.services.preconditions import IfMatch
from app.services.principal import Principal, Role
from tests.simulation.people import People
from tests.simulation.processes import Grounds
from tests.simulation.services import attempt, context, principal

_MOST_GROUPS = 2
_SIZES = (2, 2, 2, 3, 3, 4, 4, 5, 8)
_LARGE_SIZES = (12, 16, 24, 32)
_LARGE = 0.04
"""The share of groups that are large: each of their members takes as much CPU as a lease."""
_MOST_TRIES = 6
_TRY_AGAIN = 20.0


class GroupPeople:
    """Everything they will do within `seconds` is arranged at once. The random numbers are their own.

    `coordinators`: how many processes move groups. A seed without groups has none.
    """

    def __init__(self, grounds: Grounds, people: People, seed: int, seconds: float) -> None:
        self._grounds = grounds
        self._people = people
        self._random = Random(f"groups of {seed}")
        self.coordinators = self._random.randint(1, 2) if self._random.random() < grounds.weather.groups else 0
        self._names = 0
        for _ in range(self._random.randint(1, _MOST_GROUPS) if self.coordinators else 0):
            grounds.scheduler.at(self._random.uniform(10, 0.7 * seconds), self.create)

    @cached_property
    def _creation(self) -> GroupCreation:
        services = context(self._grounds)
        return GroupCreation(services, OfferingCache(services.database, cache_seconds=0))

    @cached_property
    def _changes(self) -> GroupChanges:
        services = context(self._grounds)
        return GroupChanges(services, OfferingCache(services.database, cache_seconds=0))

    # --- creation -----------------------------------------------------------------------------------------

    def create(self, by: Principal | None = None, max_cost: Decimal | None = None, tries: int = 1) -> None:
        """`by`: None draws a tenant. A request that is refused is sent again a little later: another one may have taken the room."""
        principal, new = by or self._principal(), self._request()
        new = replace(new, lease=replace(new.lease, max_cost=max_cost))
        group = self._attempt("created", self._created(principal, new))
        if group is not None:
            self._grounds.trace.tell(
                f"{group.id} of {new.size} is created: at least {new.min_size} in {new.placement}, "
                f"{new.on_member_loss} on loss, {new.form_seconds} s to form"
            )
            self._plan_changes(GroupId(group.id), principal, new)
        elif tries < _MOST_TRIES:
            self._after(_TRY_AGAIN * self._random.random(), partial(self.create, by, max_cost, tries + 1))

    async def _created(self, principal: Principal, new: CreateGroup) -> Any:
        async with self._creation.create(principal, new, None) as reply:
            return reply.row

    def _request(self) -> CreateGroup:
        random = self._random
        size = random.choice(_LARGE_SIZES if random.random() < _LARGE else _SIZES)
        self._names += 1
        return CreateGroup(
            tenant_id=None,
            name=f"group{self._names}",
            size=size,
            min_size=size if random.random() < 0.4 else random.randint(1, size),
            lease=self._lease(),
            placement=random.choice(list(GroupPlacement)),
            interconnect=random.choice([GroupInterconnect.NONE, GroupInterconnect.NONE, GroupInterconnect.PREFERRED]),
            form_seconds=int(self._grounds.settings.boot_timeout * random.uniform(0.5, 2)),
            on_member_loss=random.choice(list(OnMemberLoss)),
        )

    def _lease(self) -> CreateLease:
        """Half of the requests fit every instance type: a group then has several pools to try."""
        random = self._random
        wish = {**self._people.wish(), "ttl_seconds": random.randint(300, 1500)}
        request = replace(LeaseRequest.from_json(wish), name=None, wait_seconds=random.choice([0, 120, 900]))
        if random.random() < 0.5:
            request = replace(request, gpu=None, instance_types=None, max_price_per_hour=None)
        return CreateLease(tenant_id=None, request=request, startup_script="true" if random.random() < 0.3 else None)

    def _principal(self) -> Principal:
        return principal(Role.MEMBER, self._random.choice(self._people.tenants))

    # --- changes ------------------------------------------------------------------------------------------

    def _plan_changes(self, group_id: GroupId, principal: Principal, new: CreateGroup) -> None:
        random, ttl = self._random, new.lease.request.ttl_seconds
        for _ in range(random.choice([0, 0, 1, 2])):
            self._after(random.uniform(0, 0.8 * ttl), partial(self._resize, group_id, principal, new.size))
        if random.random() < 0.3:
            self._after(random.uniform(0, 0.8 * ttl), partial(self._release_member, group_id))
        for extend in (self._extend, self._extend_member):
            if random.random() < 0.3:
                self._after(random.uniform(0, 0.9 * ttl), partial(extend, group_id, principal))
        if random.random() < 0.3:
            self._after(random.choice([5.0, 60.0, ttl]) * random.random(), partial(self.release, group_id, principal))

    def _resize(self, group_id: GroupId, principal: Principal, size: int) -> None:
        size = max(1, size + self._random.choice([-3, -2, -1, -1, 1, 1, 2, 3]))
        group = self._attempt("resized", self._changes.resize(principal, group_id, size, IfMatch()))
        if group is not None:
            self._grounds.trace.tell(f"{group_id} has {size} members now")

    def _extend(self, group_id: GroupId, principal: Principal) -> None:
        later = LaterExpiry(by=timedelta(seconds=self._random.randint(60, 900)))

        async def extended() -> Any:
            async with self._changes.extend(principal, group_id, later, if_match=IfMatch(), key=None) as reply:
                return reply.row

        if self._attempt("extended", extended()) is not None:
            self._grounds.trace.tell(f"{group_id} is extended")

    def _extend_member(self, group_id: GroupId, principal: Principal) -> None:
        """One member gets a later end than the others."""
        lease_id = self._some_member(group_id)
        if lease_id is not None:
            self._people.extend(lease_id, principal)

    def release(self, group_id: GroupId, principal: Principal) -> None:
        """Ends the group."""
        if self._attempt("released", self._changes.release(principal, group_id, IfMatch())) is not None:
            self._grounds.trace.tell(f"{group_id} is released")

    def _release_member(self, group_id: GroupId) -> None:
        lease_id = self._some_member(group_id)
        if lease_id is not None:
            self._grounds.scheduler.count("group: member released")
            self._people.release(lease_id)

    def _some_member(self, group_id: GroupId) -> LeaseId | None:
        members = (
            select(lease.c.id).where(lease.c.group_id == group_id, lease.c.ended_at.is_(None)).order_by(lease.c.id)
        )
        rows = self._people.do(members)[0].all()
        return LeaseId(self._random.choice(rows).id) if rows else None

    def end_most(self, within: float) -> None:
        """Most groups are released within so many seconds. The others come to their own end."""
        running = select(lease_group.c.id, lease_group.c.tenant_id).where(lease_group.c.ended_at.is_(None))
        for row in self._people.do(running.order_by(lease_group.c.id))[0].all() if self.coordinators else ():
            principal = replace(self._principal(), tenant_id=TenantId(row.tenant_id))
            if self._random.random() < 0.7:
                self._after(self._random.uniform(0, within), partial(self.release, GroupId(row.id), principal))

    # --- calls --------------------------------------------------------------------------------------------

    def _attempt(self, what: str, call: Coroutine[Any, Any, Any]) -> Any:
        """The group after a call. None: it was refused."""
        answer = attempt(self._grounds, "group", what, call)
        return None if isinstance(answer, ServiceError) else answer

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._grounds.scheduler.after(seconds, act)
