"""Users who create, extend and release leases, and operators who change limits: what the API does, as single transactions."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

from sqlalchemy import Connection, func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.core.prepared import execute
from app.db.events.events import NewEvent
from app.db.fleet import offerings
from app.db.fleet.offerings import offering_from_row
from app.db.leases.billing import accrued
from app.db.leases.spend_caps import CAP_CHANGES
from app.db.leases.transitions import WAKE, request_end, write
from app.db.operations.ops import stop_launches
from app.db.schema.tables import installation, lease, quota, tenant
from app.db.tenancy import quotas
from app.db.tenancy.quota_limits import set_limits
from app.domain import quotas as quota_rules
from app.domain.events import LeaseExtended, LeaseKept, LeaseUpdated
from app.domain.ids import LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest
from app.domain.offerings import Offering
from app.domain.placement import Requirements, rank
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.simulation.processes import Grounds

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
_COUNTS: tuple[dict[str, int | None], ...] = ({"count": 1, "min_count": None}, {"count": None, "min_count": 1})


_TOLD = datetime(2026, 11, 1, tzinfo=UTC)
"""No program of the simulation reads the times of events."""
_UPDATED = LeaseUpdated(name=None, labels=None, max_cost=None, expiry_warnings_seconds=None)
_LATER = text("greatest(expires_at, now() + make_interval(secs => :seconds))")
_WANTED = (lease.c.desired == "run", lease.c.expires_at > text("now()"))


class People:
    """Everything they will do within `seconds` is arranged at once."""

    def __init__(self, grounds: Grounds, seconds: float) -> None:
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
        for _ in range(self._random.randint(3, 8)):
            count = self._random.randint(2, _MOST_AT_ONCE) if self._random.random() < grounds.weather.bursts else 1
            grounds.scheduler.at(self._random.uniform(10, seconds * 0.8), partial(self.create, count))
        for _ in range(self._random.randint(0, 3) + int(_MOST_LIMIT_CHANGES * grounds.weather.limits_change)):
            grounds.scheduler.at(self._random.uniform(10, seconds), self._change_limit)
        if self._random.random() < 0.3:
            grounds.scheduler.at(self._random.uniform(60, seconds), self._stop_launches)

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

    def create(self, count: int = 1, tries: int = 1) -> None:
        """Equal requests for leases. Without an offering at present they are sent again a little later."""
        random, whose, wish = self._random, self._random.choice(self.tenants), self.wish()
        candidates = self._candidates(wish)
        if candidates:
            for _ in range(count):
                self._admit(whose, wish, quota_rules.minimum(candidates))
        elif tries < _MOST_TRIES:
            self._grounds.scheduler.after(_TRY_AGAIN * random.random(), partial(self.create, count, tries + 1))

    def _candidates(self, wish: dict[str, Any]) -> tuple[Offering, ...]:
        grounds = self._grounds
        rows = self.do(offerings.candidates())[0]
        found = [offering_from_row(row) for row in rows]
        return rank(Requirements.of(LeaseRequest.from_json(wish)), found, grounds.scheduler.time).candidates

    def _admit(self, whose: TenantId, wish: dict[str, Any], minimum: quota_rules.Amounts) -> None:
        random, grounds, lease_id = self._random, self._grounds, LeaseId(new_id("lease"))
        ttl, waits = random.choice([120, 600, 1500]) * random.uniform(0.5, 1.5), random.choice([0, 120, 900])
        self.do(quotas.ensure_rows(whose, minimum))
        connection = grounds.clocked.begin(grounds.scheduler)
        if not connection.execute(quotas.admit(whose, minimum)).scalar_one():
            grounds.clocked.roll_back()
            grounds.scheduler.count("people: lease refused by its quota")
            return
        wish = {**wish, "wait_seconds": waits}
        cap = self._cap()
        self._insert(connection, whose, lease_id, wish, minimum, ttl, cap)
        grounds.clocked.commit()
        grounds.scheduler.changed = True
        grounds.scheduler.count("people: lease created")
        self.first_terms[lease_id] = grounds.scheduler.time + timedelta(seconds=ttl)
        grounds.trace.tell(f"{lease_id} is created for {ttl:.0f} s")
        self._hint(lease_id)
        self._plan_changes(lease_id, ttl)

    def _cap(self) -> Decimal | None:
        """A spend cap that lasts some minutes at most prices, in half of the runs."""
        if self._caps.random() >= self._caps_share:
            return None
        self._grounds.scheduler.count("people: lease with a spend cap")
        return Decimal(f"{self._caps.uniform(0.01, 0.2):.6f}")

    @staticmethod
    def _insert(
        connection: Connection,
        whose: TenantId,
        lease_id: LeaseId,
        wish: dict[str, Any],
        minimum: quota_rules.Amounts,
        ttl: float,
        cap: Decimal | None,
    ) -> None:
        connection.execute(
            insert(lease).values(
                id=lease_id,
                tenant_id=whose,
                name="simulated",
                labels={},
                request=wish,
                on_interruption=wish["on_interruption"],
                minimum_claim={name: str(amount) for name, amount in minimum.items()},
                max_cost=cap,
                expires_at=func.now() + timedelta(seconds=ttl),
                wait_until=func.now() + timedelta(seconds=min(wish["wait_seconds"], ttl)),
            )
        )
        connection.execute(*quotas.remember(whose, lease_id, minimum))

    def _plan_changes(self, lease_id: LeaseId, ttl: float) -> None:
        random, scheduler = self._random, self._grounds.scheduler
        if random.random() < 0.4:
            scheduler.after(random.uniform(0, ttl * 1.1), partial(self._extend, lease_id))
        if random.random() < 0.5:
            scheduler.after(random.choice([5.0, 60.0, ttl]) * random.random(), partial(self.release, lease_id))
        if self._grounds.settings.agent == "on" and self._gpu_random.random() < _KEEPS:
            scheduler.after(self._gpu_random.uniform(0, ttl), partial(self._keep, lease_id))
        if self._caps.random() < self._caps_share / 2:
            scheduler.after(self._caps.uniform(0, ttl), partial(self._change_cap, lease_id))

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
            "labels": {},
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

    def _change_cap(self, lease_id: LeaseId) -> None:
        """As PATCH does: higher, lower but not below what the lease has cost, or none."""
        [found] = self.do(select(accrued(lease, func.now())).where(lease.c.id == lease_id, *_WANTED))
        spent = found.scalar()
        if spent is None:
            return
        cap = self._caps.choice([None, spent, spent + Decimal("0.1"), spent + 1])
        self._grounds.scheduler.count("people: spend cap changed")
        self._grounds.trace.tell(f"{lease_id} may cost {cap}")
        values = {"max_cost": cap, **CAP_CHANGES}
        self.do(write(lease_id, NewEvent(_UPDATED), where=_WANTED, given={"cap": cap}, values=values))
        self._hint(lease_id)

    def _hint(self, lease_id: LeaseId) -> None:
        if self._random.random() < 0.5:
            self._grounds.hints.append(lease_id)

    def _extend(self, lease_id: LeaseId) -> None:
        seconds = self._random.uniform(60, 900)
        self._grounds.scheduler.count("people: lease extended")
        self._grounds.trace.tell(f"{lease_id} is extended to {seconds:.0f} s from now")
        event, values = NewEvent(LeaseExtended(expires_at=_TOLD)), {"expires_at": _LATER, **WAKE}
        self.do(write(lease_id, event, where=_WANTED, given={"seconds": seconds}, values=values))
        self._hint(lease_id)

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
