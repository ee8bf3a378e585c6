"""Users who create, extend and release leases, through the services of the API, and operators who change limits."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from random import Random
from typing import Any

from sqlalchemy import func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.core.prepared import execute
from app.db.events.events import NewEvent
from app.db.leases.billing import accrued
from app.db.leases.transitions import request_end, write
from app.db.operations.ops import stop_launches
from app.db.schema.tables import installation, lease, quota, tenant
from app.db.tenancy.quota_limits import set_limits
from app.domain.events import LeaseKept
from app.domain.ids import LeaseId, TenantId
from app.domain.lease_actions import LaterExpiry
from app.domain.lease_requests import LeaseRequest
from app.domain.reasons import Origin, Reason, ReasonCode
from app.services.errors import NoOffering, ServiceError
from app.services.leases.changes import LeaseChanges
from app.services.leases.creation import LeaseCreation
from app.services.leases.requests import CreateLease
from app.services.offering_cache import OfferingCache
from app.services.preconditions import IfMatch
from app.services.principal import Principal, Role
from tests.simulation.budget_people import BudgetPeople
from tests.simulation.processes import Grounds
from tests.simulation.services import attempt, context, principal
from tests.simulation.suspension import Suspension

_TENANTS = 2
_MOST_TRIES = 6
_TRY_AGAIN = 20.0
_KEEPS = 0.15
"""The share of leases with an agent whose users hold idleness off once."""
_MOST_LIMIT_CHANGES = 60
_MOST_AT_ONCE = 5
_GPU_TYPES: tuple[tuple[str | None, list[str] | None], ...] = (
    ("A10G", ["one"]),
    ("A10G", ["four"]),
    ("A10G", ["one", "four"]),
    ("A10G", None),
    (None, ["one", "two"]),
    (None, ["two", "four"]),
    (None, None),
)
"""GPU model and instance types of a request. Types of two models have no claim of a model in common."""
_RELABELS = 0.3
"""The share of leases that users move to another team, where budgets change."""
_COUNTS: tuple[dict[str, int | None], ...] = ({"count": 1, "min_count": None}, {"count": None, "min_count": 1})


_WANTED = (lease.c.desired == "run", lease.c.expires_at > text("now()"))


def _id(row: Any) -> bytes:
    return str(row.id).encode()


class People:
    """Everything they will do within `seconds` is arranged at once."""

    def __init__(self, grounds: Grounds, seed: int, seconds: float) -> None:
        self._grounds = grounds
        self._random: Random = grounds.scheduler.random
        self.tenants = [TenantId(new_id("tenant")) for _ in range(_TENANTS)]
        self._caps = Random(self.tenants[0])
        self._caps_share = self._caps.choice([0.0, 0.8])
        self._gpu_random = Random(self.tenants[1])
        self.first_terms: dict[LeaseId, datetime] = {}
        """When each lease would end if nobody extended it."""
        for tenant_id in self.tenants:
            self._make_tenant(tenant_id)
        self.budgets = BudgetPeople(grounds, seed, self.tenants, seconds)
        self.suspension = Suspension(grounds, seed, self.tenants, seconds)
        for _ in range(self._random.randint(3, 8)):
            count = self._random.randint(2, _MOST_AT_ONCE) if self._random.random() < grounds.weather.bursts else 1
            grounds.scheduler.at(self._random.uniform(10, seconds * 0.8), partial(self.create, count))
        for _ in range(self._random.randint(0, 3) + int(_MOST_LIMIT_CHANGES * grounds.weather.limits_change)):
            grounds.scheduler.at(self._random.uniform(10, seconds), self._change_limit)
        if self._random.random() < 0.3:
            grounds.scheduler.at(self._random.uniform(60, seconds), self._stop_launches)

    @cached_property
    def _creation(self) -> LeaseCreation:
        services = context(self._grounds)
        return LeaseCreation(services, OfferingCache(services.database, cache_seconds=0))

    @cached_property
    def _changes(self) -> LeaseChanges:
        return LeaseChanges(context(self._grounds))

    def do(self, *statements: Any) -> list[Any]:
        """One transaction."""
        grounds = self._grounds
        connection = grounds.clocked.begin(grounds.scheduler)
        results = [execute(connection, statement) for statement in statements]
        grounds.clocked.commit()
        grounds.scheduler.changed = True
        return results

    def _make_tenant(self, tenant_id: TenantId) -> None:
        terms = {"max_ttl_seconds": 86400, "max_total_seconds": 864000}
        self.do(insert(tenant).values(id=tenant_id, name=tenant_id, **terms))
        self.do(set_limits(tenant_id, dict(self._first_limits())))

    # --- limits -------------------------------------------------------------------------------------------

    def _first_limits(self) -> Iterator[tuple[str, Decimal | None]]:
        random = self._random
        yield "gpus", Decimal(random.randint(8, 64))
        yield "leases", Decimal(random.randint(4, 40))
        for resource in ("gpus:A10G", "gpus:L4", "spend_per_hour"):
            if random.random() < 0.5:
                yield resource, self._limit(resource, Decimal(4))

    def _limit(self, resource: str, used: Decimal) -> Decimal | None:
        """Most times about what is used, where it matters; at times none, except for GPUs, which need one."""
        random = self._random
        if resource != "gpus" and random.random() < 0.1:
            return None
        if resource == "spend_per_hour":
            around = (used * Decimal(random.choice([0.7, 1.0, 1.0, 1.2]))).quantize(Decimal("0.01"))
        else:
            around = used + random.randint(-2, 6)
        return max(Decimal(0), around) if random.random() < 0.6 else Decimal(random.randint(0, 40))

    def _change_limit(self) -> None:
        """An operator raises, lowers or lifts a limit. One below what is used ends nothing."""
        tenant_id = self._random.choice(self.tenants)
        resource = self._random.choice(["gpus", "gpus:A10G", "gpus:L4", "leases", *["spend_per_hour"] * 4])
        used = self.do(select(quota.c.used).where(quota.c.tenant_id == tenant_id, quota.c.resource == resource))[0]
        limit = self._limit(resource, used.scalar() or Decimal(0))
        self._grounds.scheduler.count("people: limit changed")
        self._grounds.trace.tell(f"the limit of {resource} of {tenant_id} becomes {limit}")
        self.do(set_limits(tenant_id, {resource: limit}))

    # --- leases -------------------------------------------------------------------------------------------

    def create(self, count: int = 1) -> None:
        """Equal requests for leases."""
        random = self._random
        member, wish = principal(Role.MEMBER, random.choice(self.tenants)), self.wish()
        ttl = int(random.choice([120, 600, 1500]) * random.uniform(0.5, 1.5) * self._grounds.weather.lasting)
        waits = random.choice([0, 120, 900])
        request = replace(LeaseRequest.from_json(wish), name=None, ttl_seconds=ttl, wait_seconds=waits)
        new = CreateLease(tenant_id=None, request=request, max_cost=self._cap(), startup_script=None)
        self.send(member, new, count)

    def send(self, member: Principal, new: CreateLease, count: int, tries: int = 1) -> None:
        """Without an offering at present the requests are sent again a little later."""
        without_offering = sum(not self._create(member, new) for _ in range(count))
        if without_offering and tries < _MOST_TRIES:
            again = partial(self.send, member, new, without_offering, tries + 1)
            self._grounds.scheduler.after(_TRY_AGAIN * self._random.random(), again)

    def _create(self, member: Principal, new: CreateLease) -> bool:
        """False: no offering fits at present."""
        grounds, ttl = self._grounds, new.request.ttl_seconds
        answer = attempt(grounds, "lease", "created", self._creation.create(member, new, None, _id))
        if isinstance(answer, ServiceError):
            return not isinstance(answer, NoOffering)
        lease_id = LeaseId(answer.content.decode())
        self.first_terms[lease_id] = grounds.scheduler.time + timedelta(seconds=ttl)
        grounds.trace.tell(f"{lease_id} is created for {ttl} s")
        self._plan_changes(lease_id, member, ttl)
        return True

    def _cap(self) -> Decimal | None:
        """A spend cap that lasts some minutes at most prices, in half of the runs."""
        if self._caps.random() >= self._caps_share:
            return None
        self._grounds.scheduler.count("people: lease with a spend cap")
        return Decimal(f"{self._caps.uniform(0.01, 0.2):.6f}")

    def _plan_changes(self, lease_id: LeaseId, member: Principal, ttl: float) -> None:
        random, scheduler, weather = self._random, self._grounds.scheduler, self._grounds.weather
        if random.random() < weather.extended:
            scheduler.after(random.uniform(0, ttl * 1.1), partial(self.extend, lease_id, member))
        if random.random() < weather.released:
            scheduler.after(random.choice([5.0, 60.0, ttl]) * random.random(), partial(self.release, lease_id))
        if self._grounds.settings.agent == "on" and self._gpu_random.random() < _KEEPS:
            scheduler.after(self._gpu_random.uniform(0, ttl), partial(self._keep, lease_id))
        if self._caps.random() < self._caps_share / 2:
            scheduler.after(self._caps.uniform(0, ttl), partial(self._change_cap, lease_id, member))
        if self.budgets.relabels and self._caps.random() < _RELABELS:
            scheduler.after(self._caps.uniform(0, ttl), partial(self._relabel, lease_id, member))

    def _keep(self, lease_id: LeaseId) -> None:
        """As the call `keep` does: its lease does not count as idle for a while."""
        until = self._grounds.scheduler.time + timedelta(seconds=self._gpu_random.uniform(60, 600))
        self._grounds.scheduler.count("people: lease kept")
        self._grounds.trace.tell(f"{lease_id} is kept until {until:%H:%M:%S}")
        self.do(write(lease_id, NewEvent(LeaseKept(keep_until=until)), where=_WANTED, values={"keep_until": until}))

    def wish(self) -> dict[str, Any]:
        """The request of a lease."""
        random = self._random
        model, types = random.choice(_GPU_TYPES)
        return {
            "name": "simulated",
            "ttl_seconds": 600,
            "gpu": None if model is None else {"model": model, "memory_gib": None, **random.choice(_COUNTS)},
            "instance_types": types,
            "market": random.choice(["on_demand", "spot", "spot_first"]),
            "providers": None,
            "regions": None,
            "max_price_per_hour": random.choice([None, None, None, "1.5"]),
            "ssh_public_keys": [],
            "disk_gib": 100,
            "public_ip": True,
            "labels": self.budgets.labels(),
            "on_interruption": random.choice(["end", "replace"]),
            **self._gpu_wishes(),
        }

    def _gpu_wishes(self) -> dict[str, Any]:
        if self._grounds.settings.agent == "off":
            return {}
        random = self._gpu_random
        action = random.choice(["notify", "end", "end", "end"])
        return {
            "proof": random.choice(["auto", "auto", "required", "off"]),
            "on_gpu_failure": random.choice(["notify", "reboot", "replace", "end"]),
            "idle": random.choice([None, *[{"after_seconds": seconds, "action": action} for seconds in (60, 60, 100)]]),
        }

    def _change_cap(self, lease_id: LeaseId, member: Principal) -> None:
        """Higher, lower but not below what the lease has cost, or none."""
        [found] = self.do(select(accrued(lease, func.now())).where(lease.c.id == lease_id, *_WANTED))
        spent = found.scalar()
        if spent is not None:
            cap = self._caps.choice([None, spent, spent + Decimal("0.1"), spent + 1])
            self._update(lease_id, member, "spend cap changed", {"max_cost": cap})

    def _relabel(self, lease_id: LeaseId, member: Principal) -> None:
        self._update(lease_id, member, "moved to another team", {"labels": self.budgets.labels()})

    def _update(self, lease_id: LeaseId, member: Principal, what: str, changes: dict[str, Any]) -> None:
        update = self._changes.update(member, lease_id, changes, IfMatch())
        if not isinstance(attempt(self._grounds, "lease", what, update), ServiceError):
            self._grounds.trace.tell(f"{lease_id} has {changes}")

    def _hint(self, lease_id: LeaseId) -> None:
        if self._random.random() < 0.5:
            self._grounds.hints.append(lease_id)

    def extend(self, lease_id: LeaseId, member: Principal) -> None:
        until = self._grounds.scheduler.time + timedelta(seconds=self._random.uniform(60, 900))
        answer = attempt(self._grounds, "lease", "extended", self.extended(lease_id, member, until))
        if not isinstance(answer, ServiceError):
            self._grounds.trace.tell(f"{lease_id} is extended to {until:%H:%M:%S}")

    async def extended(self, lease_id: LeaseId, member: Principal, until: datetime) -> Any:
        """The lease with its later end. Raises ServiceError."""
        later = LaterExpiry(to=until)
        async with self._changes.extend(member, lease_id, later, if_match=IfMatch(), key=None) as reply:
            return reply.row

    def release(self, lease_id: LeaseId) -> None:
        self._grounds.scheduler.count("people: lease released")
        self._grounds.trace.tell(f"{lease_id} is released")
        reason = Reason(ReasonCode.RELEASED_BY_USER, "released", Origin.USER)
        self.do(request_end(lease_id, reason, None))
        self._hint(lease_id)

    # --- brakes -------------------------------------------------------------------------------------------

    def _stop_launches(self) -> None:
        self._grounds.scheduler.count("people: launches stopped")
        self.do(stop_launches({"by": "operator"}))
        self._grounds.scheduler.after(self._random.uniform(10, 300), self.let_launch)

    def end_most(self, within: float) -> None:
        """Most of what still runs is released within so many seconds; the rest comes to its own end."""
        running = select(lease.c.id).where(lease.c.ended_at.is_(None), lease.c.group_id.is_(None)).order_by(lease.c.id)
        for row in self.do(running)[0]:
            if self._random.random() < 0.7:
                when = self._random.uniform(0, within)
                self._grounds.scheduler.after(when, partial(self.release, LeaseId(row.id)))

    def let_launch(self) -> None:
        self.do(update(installation).values(launches_stopped=None))
