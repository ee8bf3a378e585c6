"""Users who create, extend and release leases, and an operator: what the API does, as single transactions."""

from functools import partial
from random import Random
from typing import Any

from sqlalchemy import insert, select, text, update

from app.db import quotas
from app.db.bound import parts
from app.db.events import NewEvent
from app.db.ids import new_id
from app.db.ops import stop_launches
from app.db.tables import installation, lease, quota, tenant
from app.db.transitions import WAKE, request_end, write
from app.domain.ids import LeaseId, TenantId
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.simulation.processes import Grounds

_TENANTS = 2


class People:
    """Everything they will do within `seconds` is arranged at once."""

    def __init__(self, grounds: Grounds, seconds: float) -> None:
        self._grounds = grounds
        self._random: Random = grounds.scheduler.random
        self._tenants = [TenantId(new_id("tenant")) for _ in range(_TENANTS)]
        self.highest: dict[tuple[str, str], int] = {}
        for one in self._tenants:
            self._make_tenant(one)
        for _ in range(self._random.randint(4, 14)):
            grounds.scheduler.at(self._random.uniform(10, seconds * 0.8), self._create)
        for _ in range(self._random.randint(0, 3)):
            grounds.scheduler.at(self._random.uniform(10, seconds), self._limit)
        if self._random.random() < 0.3:
            grounds.scheduler.at(self._random.uniform(60, seconds), self._stop_launches)

    def do(self, *statements: Any) -> list[Any]:
        """One transaction."""
        grounds = self._grounds
        connection = grounds.clocked.begin(grounds.scheduler)
        results = [connection.execute(*parts(statement)) for statement in statements]
        connection.exec_driver_sql("COMMIT")
        grounds.scheduler.changed = True
        return results

    def _make_tenant(self, one: TenantId) -> None:
        limits = {"gpus": self._random.randint(2, 24), "leases": self._random.randint(2, 12)}
        rows = [{"tenant_id": one, "resource": name, "limit": limit} for name, limit in limits.items()]
        self.highest |= {(one, name): limit for name, limit in limits.items()}
        terms = {"max_ttl_seconds": 86400, "max_total_seconds": 864000}
        self.do(insert(tenant).values(id=one, name=one, **terms), insert(quota).values(rows))

    def _create(self) -> None:
        random, whose = self._random, self._random.choice(self._tenants)
        lease_id, wish = LeaseId(new_id("lease")), self._wish()
        minimum: Any = {"gpus": 4 if wish["instance_types"] == ["four"] else 1, "leases": 1}
        ttl, waits = random.choice([120, 600, 1500]) * random.uniform(0.5, 1.5), random.choice([0, 0, 120, 900])
        grounds = self._grounds
        connection = grounds.clocked.begin(grounds.scheduler)
        if not connection.execute(quotas.admit(whose, minimum)).scalar_one():
            connection.exec_driver_sql("ROLLBACK")
            return
        connection.execute(
            insert(lease).values(
                id=lease_id,
                tenant_id=whose,
                name="simulated",
                labels={},
                request={**wish, "wait_seconds": waits},
                on_interruption=wish["on_interruption"],
                minimum_claim={name: str(amount) for name, amount in minimum.items()},
                expires_at=text(f"now() + interval '{ttl} seconds'"),
                wait_until=text(f"now() + interval '{min(waits, ttl)} seconds'"),
            )
        )
        connection.execute(quotas.remember(whose, lease_id, minimum))
        connection.exec_driver_sql("COMMIT")
        grounds.scheduler.changed = True
        grounds.trace.tell(f"{lease_id} is created for {ttl:.0f} s")
        self._hint(lease_id)
        self._plan_changes(lease_id, ttl)

    def _plan_changes(self, lease_id: LeaseId, ttl: float) -> None:
        random, scheduler = self._random, self._grounds.scheduler
        if random.random() < 0.4:
            scheduler.after(random.uniform(0, ttl * 1.1), partial(self._extend, lease_id))
        if random.random() < 0.5:
            scheduler.after(random.choice([5.0, 60.0, ttl]) * random.random(), partial(self.release, lease_id))

    def _wish(self) -> dict[str, Any]:
        random = self._random
        return {
            "name": "simulated",
            "gpu": {"model": "A10G", "count": 1, "memory_gib": None},
            "instance_types": random.choice([["one"], ["four"], ["one", "four"], None]),
            "market": random.choice(["on_demand", "spot", "spot_first"]),
            "providers": None,
            "regions": None,
            "max_price_per_hour": None,
            "ssh_public_keys": [],
            "disk_gib": 100,
            "public_ip": True,
            "labels": {},
            "on_interruption": random.choice(["end", "replace"]),
        }

    def _hint(self, lease_id: LeaseId) -> None:
        if self._random.random() < 0.5:
            self._grounds.hints.append(lease_id)

    def _extend(self, lease_id: LeaseId) -> None:
        seconds = self._random.uniform(60, 900)
        self._grounds.trace.tell(f"{lease_id} is extended to {seconds:.0f} s from now")
        later = text(f"greatest(expires_at, now() + interval '{seconds} seconds')")
        guards = [lease.c.desired == "run", lease.c.expires_at > text("now()")]
        self.do(write(lease_id, NewEvent(type="lease.extended"), where=guards, values={"expires_at": later, **WAKE}))
        self._hint(lease_id)

    def release(self, lease_id: LeaseId) -> None:
        self._grounds.trace.tell(f"{lease_id} is released")
        reason = Reason(ReasonCode.RELEASED_BY_USER, "released", Origin.USER)
        self.do(request_end(lease_id, reason.as_json(), None))
        self._hint(lease_id)

    def _limit(self) -> None:
        whose, limit = self._random.choice(self._tenants), self._random.randint(0, 12)
        self.highest[whose, "gpus"] = max(self.highest[whose, "gpus"], limit)
        self.do(update(quota).where(quota.c.tenant_id == whose, quota.c.resource == "gpus").values(limit=limit))

    def _stop_launches(self) -> None:
        self.do(stop_launches({"by": "operator"}))
        self._grounds.scheduler.after(self._random.uniform(10, 300), self.let_launch)

    def end_most(self, within: float) -> None:
        """Most of what still runs is released within so many seconds; the rest comes to its own end."""
        for row in self.do(select(lease.c.id).where(lease.c.ended_at.is_(None)).order_by(lease.c.id))[0]:
            if self._random.random() < 0.7:
                when = self._random.uniform(0, within)
                self._grounds.scheduler.after(when, partial(self.release, LeaseId(row.id)))

    def let_launch(self) -> None:
        self.do(update(installation).values(launches_stopped=None))
