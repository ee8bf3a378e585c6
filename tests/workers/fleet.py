"""A worker process in one thread, for tests: real Postgres, the real AWS adapter, cloudsim behind it.

Nothing runs by itself. `drive` takes the place of sweeper, watch and inventory until a condition holds.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import boto3
import pytest
from sqlalchemy import ARRAY, Connection, Interval, Text, bindparam, delete, func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.core.prepared import Bound, plain, setting
from app.db.leases import claims
from app.db.leases.transitions import request_end
from app.db.operations.ops import LIFT_HOLD, adopt_orphans
from app.db.schema.tables import (
    account,
    account_region,
    attempt,
    event,
    installation,
    lease,
    lease_secret,
    offering,
    orphan,
    quota,
    tenant,
)
from app.db.tenancy import quotas
from app.domain.ids import LeaseId, TenantId
from app.domain.lease_requests import LeaseRequest
from app.domain.placement import Requirements
from app.domain.quotas import Amounts, minimum
from app.domain.reasons import Origin, Reason, ReasonCode
from app.domain.tags import LEASE
from cloudsim.testing import Control
from tests.workers.virtual_time import VirtualTime
from workers.groups.coordinator import Coordinator
from workers.jobs.refresh_offerings import refresh
from workers.lifecycle.batches.cohorts import Cohort
from workers.lifecycle.reconciler import Reconciler
from workers.observation.inventory import take_inventory
from workers.observation.slot_labels import label_noted
from workers.observation.watch import watch
from workers.providers.errors import ProviderError
from workers.runtime.brakes import set_hold
from workers.runtime.runtime import Runtime

NEVER = 600.0
"""Seconds that no test waits for."""
_SHORTEST = 0.04
_LONGEST = 1.0

ACCOUNT = "sim"
REGION = "us-east-1"
AT_LEAST_ONE = {"model": "A10G", "min_count": 1, "memory_gib": None}
REQUEST: dict[str, Any] = {
    "name": "t",
    "gpu": {"model": "A10G", "count": 1, "memory_gib": None},
    "instance_types": ["g5.xlarge"],
    "market": "on_demand",
    "providers": None,
    "regions": None,
    "max_price_per_hour": None,
    "ttl_seconds": 3600,
    "wait_seconds": 0,
    "ssh_public_keys": [],
    "disk_gib": 100,
    "public_ip": True,
    "labels": {},
}
LEAST: Amounts = {"gpus": Decimal(1), "leases": Decimal(1)}
"""What admission reserves where the catalogue has no candidate yet, or a test wants no more."""


_STORED = ("id", "tenant_id", "name", "labels", "request", "on_interruption", "minimum_claim")
_CREATE = insert(lease).values(
    **setting(lease, tuple((name, None) for name in _STORED)),
    expires_at=func.now() + bindparam("ttl", type_=Interval),
    wait_until=func.now() + bindparam("wait", type_=Interval),
)
_TENANT = insert(tenant).values(
    id=bindparam("of"), name=bindparam("of"), max_ttl_seconds=86400, max_total_seconds=864000
)
_QUOTA = text("""INSERT INTO quota (tenant_id, resource, "limit") VALUES (:of, 'gpus', 1000), (:of, 'leases', 1000)""")
_NOW = select(func.now())
_LEASE = select(lease).where(lease.c.id == bindparam("of"))
_IN_STATE = select(lease.c.id).where(
    lease.c.id == func.any(bindparam("among", type_=ARRAY(Text))),
    lease.c.state == func.any(bindparam("wanted", type_=ARRAY(Text))),
)
_ATTEMPTS = select(attempt).where(attempt.c.lease_id == bindparam("of")).order_by(attempt.c.n)


_FAILURES = "gpulease_step_failures_total"


class Fleet:
    """One worker, one tenant with ample quota, one simulated account."""

    def __init__(
        self,
        runtime: Runtime,
        sim: Control,
        *,
        observe: bool,
        account: str = ACCOUNT,
        region: str = REGION,
        virtual_time: VirtualTime,
    ) -> None:
        self.runtime = runtime
        self._virtual_time = virtual_time
        self.listed_account, self.listed_region = account, region
        self.sim = sim
        self.reconciler = Reconciler(runtime)
        self.coordinator = Coordinator(runtime)
        self.may_break_off = False
        """A step for a bug, or for want of the database. Its lease is tried again: a test would not notice."""
        self.tenant_id = TenantId(new_id("tenant"))
        self._make_tenant()
        if observe:
            refresh(runtime, account, region)
            take_inventory(runtime, account, region)

    def _make_tenant(self) -> None:
        with self.runtime.database.begin() as connection:
            connection.execute(_TENANT, {"of": self.tenant_id})
            connection.execute(_QUOTA, {"of": self.tenant_id})

    @contextmanager
    def other_tenant(self) -> Iterator[TenantId]:
        """Leases that are created inside belong to a new tenant."""
        first, self.tenant_id = self.tenant_id, TenantId(new_id("tenant"))
        self._make_tenant()
        yield self.tenant_id
        self.tenant_id = first

    def close(self) -> None:
        """Fails when a step broke off that should not have; the log tells why."""
        self.runtime.database.close()
        if not self.may_break_off:
            # of the whole registry, the process itself would be measured as well
            registry = self.runtime.metrics.registry.restricted_registry([_FAILURES])
            counted = {one.labels["reason"]: one.value for family in registry.collect() for one in family.samples}
            assert (counted["bug"], counted["database"]) == (0, 0)

    def create(
        self,
        *,
        ttl: float = 3600,
        script: str | None = None,
        reserved: Amounts | None = None,
        also: Callable[[Connection, LeaseId], None] = lambda _connection, _lease_id: None,
        **changes: Any,
    ) -> LeaseId:
        """A lease as the API stores it: admitted for the least that any candidate needs, or `reserved`; queued, due.

        `also`: what its admission does besides, in the same transaction.
        """
        lease_id = LeaseId(new_id("lease"))
        request = {**REQUEST, **changes}
        least = reserved or self._least(request)
        with self.runtime.database.begin() as connection:
            connection.execute(*quotas.ensure_rows(self.tenant_id, least))
            assert connection.execute(quotas.admit(self.tenant_id, least)).scalar_one(), "the quota leaves no room"
            row = {
                "id": lease_id,
                "tenant_id": self.tenant_id,
                "name": request["name"],
                "labels": request["labels"],
                "request": request,
                "on_interruption": request.get("on_interruption", "end"),
                "minimum_claim": {name: str(amount) for name, amount in least.items()},
            }
            spans = {"ttl": timedelta(seconds=ttl), "wait": timedelta(seconds=request["wait_seconds"])}
            connection.execute(_CREATE, {**plain(row), **spans})
            connection.execute(*quotas.remember(self.tenant_id, lease_id, least))
            if script is not None:
                values = {"lease_id": lease_id, "tenant_id": self.tenant_id, "startup_script": script}
                connection.execute(insert(lease_secret).values(**values))
            also(connection, lease_id)
        return lease_id

    def _least(self, request: dict[str, Any]) -> Amounts:
        requirements = Requirements.of(LeaseRequest.from_json(request))
        candidates = self.runtime.catalogue.ranking(requirements, self.now()).candidates
        return minimum(candidates, requirements.parts) or LEAST

    def end(self, lease_id: LeaseId) -> None:
        """What DELETE does."""
        reason = Reason(ReasonCode.RELEASED_BY_USER, "released", Origin.USER)
        self.runtime.database.run(request_end(lease_id, reason, None))

    def extend(self, lease_id: LeaseId, seconds: float) -> None:
        """What `extend` does."""
        later = text(f"now() + interval '{seconds} seconds'")
        self.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(expires_at=later))

    # --- driving ---------------------------------------------------------------------------------------

    def step(self) -> int:
        """Moves every group and every lease that is due, once."""
        self.coordinator.sweep()
        rows = self.runtime.database.all(claims.claim_due(100, self.runtime.settings.claim_seconds))
        Cohort(self.runtime, {LeaseId(row.id): row.claim_id for row in rows}, self.reconciler.run).move()
        return len(rows)

    def observe(self, *, inventory: bool = True) -> None:
        """One watch, and one inventory, which costs more; a provider's failure changes nothing."""
        for job in (watch, take_inventory) if inventory else (watch,):
            with suppress(ProviderError):
                job(self.runtime, self.listed_account, self.listed_region)
        label_noted(self.runtime)

    def drive(self, until: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Steps while anything is due, then observes and lets time pass, until the condition holds; more time while nothing moves.

        Takes an inventory when the watch alone has moved nothing. Fails after `seconds`.
        """
        deadline = self.runtime.monotonic() + seconds
        pause = _SHORTEST
        while not until():
            assert self.runtime.monotonic() < deadline, (
                f"not reached; leases: {self.states()}, VMs: {self.sim.instances()}"
            )
            if self.step():
                pause = _SHORTEST
            else:
                self.observe(inventory=pause > _SHORTEST)
                self.let_pass(pause)
                pause = min(_LONGEST, 2 * pause)

    def wait_for(self, condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Lets time pass, doing nothing, until the cloud has come so far."""
        deadline = self.runtime.monotonic() + seconds
        while not condition():
            assert self.runtime.monotonic() < deadline, "not reached"
            self.let_pass(_SHORTEST)

    def let_pass(self, seconds: float) -> None:
        """Time passes in which nothing is done."""
        self._virtual_time.forward(seconds)

    def drive_to(self, lease_id: LeaseId, *states: str, seconds: float = 60.0) -> Any:
        """Drives a lease into one of the states; its row."""
        self.drive_all_to([lease_id], *states, seconds=seconds)
        return self.lease(lease_id)

    def drive_all_to(self, lease_ids: Sequence[LeaseId], *states: str, seconds: float = 60.0) -> None:
        """Drives each of the leases into one of the states."""
        self.drive(lambda: self.are(lease_ids, *states), seconds=seconds)

    def drive_to_own_tags(self) -> None:
        """Drives until each VM has tags of its own: those of a batch get them a moment after their launch."""
        self.drive(lambda: all(LEASE in vm["tags"] for vm in self.vms()))

    def active(self, **changes: Any) -> LeaseId:
        """A new lease that is active."""
        lease_id = self.create(**changes)
        self.drive_to(lease_id, "active")
        return lease_id

    def pause(self, lease_id: LeaseId) -> Any:
        """Moves the lease once and answers what it rests for: equal to any number of seconds that it may have been."""
        self.make_due(lease_id)
        before = self.now()
        self.step()
        took = (self.now() - before) / 2
        rested = self.lease(lease_id).next_due - (before + took)
        return pytest.approx(rested.total_seconds(), abs=took.total_seconds() + 0.001)

    # --- looking ---------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """By the database's clock."""
        at: datetime = self.runtime.database.all(Bound(_NOW, {}))[0][0]
        return at

    def cooling(self) -> list[tuple[Any, ...]]:
        """Zone, reason, code and whole seconds of what is set aside."""
        left = func.ceil(func.extract("epoch", offering.c.cool_until - func.now()))
        columns = (offering.c.zone, offering.c.cool_reason, offering.c.cool_code, left)
        aside = select(*columns).where(offering.c.cool_until.is_not(None)).order_by(offering.c.zone)
        return [(*row[:-1], int(row[-1])) for row in self.runtime.database.all(aside)]

    def lease(self, lease_id: LeaseId) -> Any:
        return self.runtime.database.first(Bound(_LEASE, {"of": lease_id}))

    def are(self, lease_ids: Sequence[LeaseId], *states: str) -> bool:
        """Whether each of the leases is in one of the states."""
        found = self.runtime.database.all(Bound(_IN_STATE, {"among": list(lease_ids), "wanted": list(states)}))
        return len(found) == len(lease_ids)

    def rests(self, lease_id: LeaseId) -> float:
        """Seconds until it is due; not positive when it is."""
        left = func.extract("epoch", lease.c.next_due - func.now())
        return float(self.runtime.database.all(select(left).where(lease.c.id == lease_id))[0][0])

    def attempts(self, lease_id: LeaseId) -> list[Any]:
        return self.runtime.database.all(Bound(_ATTEMPTS, {"of": lease_id}))

    def events(self, lease_id: LeaseId) -> list[str]:
        rows = self.runtime.database.all(
            select(event.c.type).where(event.c.lease_id == lease_id).order_by(event.c.lease_sequence)
        )
        return [row.type for row in rows]

    def states(self) -> list[Any]:
        return [tuple(row) for row in self.runtime.database.all(select(lease.c.id, lease.c.state, lease.c.reason))]

    def used(self) -> dict[str, int]:
        rows = self.runtime.database.all(select(quota.c.resource, quota.c.used))
        return {row.resource: row.used for row in rows if row.used}

    def vms(self) -> list[dict[str, Any]]:
        """The VMs that run, as the cloud itself knows it."""
        return self.sim.instances(alive="true")

    def runs(self) -> int:
        """RunInstances calls that the cloud has seen."""
        return self.sim.calls().get("RunInstances", 0)

    def is_alive(self, instance_id: str) -> bool:
        return any(vm["id"] == instance_id for vm in self.sim.instances(alive="true"))

    def orphans(self) -> list[Any]:
        return self.runtime.database.all(select(orphan))

    def account(self) -> Any:
        return self.runtime.database.first(select(account).where(account.c.name == ACCOUNT))

    def region(self) -> Any:
        return self.runtime.database.first(select(account_region).where(account_region.c.account == ACCOUNT))

    def row_versions(self, lease_id: LeaseId) -> list[Any]:
        """Which versions of the rows are current: another one after any write."""
        rows = text("SELECT l.xmin, a.xmin FROM lease l JOIN attempt a ON a.lease_id = l.id WHERE l.id = :id")
        return [tuple(row) for row in self.runtime.database.all(Bound(rows, {"id": lease_id}))]

    def hold(self) -> Any:
        return self.runtime.database.all(select(installation.c.hold))[0].hold

    def put_on_hold(self) -> None:
        """As when the database turns out to be a restored one."""
        set_hold(self.runtime.database, "test")

    def change_timeline(self) -> None:
        """As when the server that answers now was promoted a moment ago."""
        self.runtime.database.run(text("UPDATE installation SET timeline = timeline + 1"))

    def resume(self) -> None:
        """What `gpulease ops resume` does."""
        self.runtime.database.run(LIFT_HOLD)

    def adopt(self) -> None:
        """What `gpulease ops adopt` does."""
        self.runtime.database.run(adopt_orphans())

    def lose(self, lease_id: LeaseId) -> None:
        """The database was restored from a time before this lease."""
        with self.runtime.database.begin() as connection:
            connection.execute(*quotas.release(lease_id))
            for table in (event, attempt, lease_secret):
                connection.execute(delete(table).where(table.c.lease_id == lease_id))
            connection.execute(delete(lease).where(lease.c.id == lease_id))

    def lose_attempts(self, lease_id: LeaseId, **changes: Any) -> None:
        """The database was restored from a time when this lease waited in the queue."""
        before = {"state": "queued", "attempts_count": 0, "next_due": func.now(), "rate_per_hour": None}
        unknown: tuple[str, ...]
        unknown = ("placement", "connection", "first_attempt_at", "launched_at", "running_at", "ready_at", "rate_since")
        unknown += ("provider", "account", "region", "gpu_model", "gpu_count", "billing_started_at", "pass_started_at")
        values = {**dict.fromkeys(unknown), **before, **changes}
        with self.runtime.database.begin() as connection:
            connection.execute(delete(attempt).where(attempt.c.lease_id == lease_id))
            connection.execute(
                *quotas.reserve(self.tenant_id, [lease_id], {"gpus": Decimal(1), "leases": Decimal(1)}, Decimal(0))
            )
            connection.execute(update(lease).where(lease.c.id == lease_id).values(**values))

    # --- the world -------------------------------------------------------------------------------------

    def plant(self, *, tags: dict[str, str], token: str | None = None) -> list[str]:
        """A VM that no lease in the database made. `token`: the client token of the launch that made it."""
        return self.sim.plant(region=REGION, zone=f"{REGION}a", instance_type="g5.xlarge", tags=tags, token=token)

    def make_address(self, tags: dict[str, str]) -> str:
        """An elastic address that costs money and belongs to no VM."""
        wanted: Any = [{"ResourceType": "elastic-ip", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=self.sim.url)
        return ec2.allocate_address(Domain="vpc", TagSpecifications=wanted)["AllocationId"]

    def refresh(self) -> None:
        refresh(self.runtime, ACCOUNT, REGION)

    def set_price(self, instance_type: str, per_hour: Decimal) -> None:
        """In every zone and market."""
        self.runtime.database.run(
            update(offering).where(offering.c.instance_type == instance_type).values(price_per_hour=per_hour)
        )
        self.runtime.catalogue.forget()

    def limit(self, resource: str, amount: Decimal | int) -> None:
        self.runtime.database.run(quotas.ensure_rows(self.tenant_id, [resource]))
        self.runtime.database.run(update(quota).where(quota.c.resource == resource).values(limit=amount))

    def stop_launches(self) -> None:
        self.runtime.database.run(update(installation).values(launches_stopped={"by": "test"}))

    def suspend(self) -> None:
        """As an operator does, without ending what runs."""
        self.runtime.database.run(update(tenant).values(status="suspended"))

    def activate(self) -> None:
        """Ends a suspension."""
        self.runtime.database.run(update(tenant).values(status="active"))

    def end_cool_offs(self) -> None:
        self.runtime.database.run(update(offering).values(cool_until=None))
        self.runtime.catalogue.forget()

    def end_claims(self, *lease_ids: LeaseId) -> None:
        """As if the worker that claimed these leases had been silent for as long as a claim lasts."""
        over = {"held_until": func.now() - timedelta(seconds=1), "next_due": func.now()}
        self.runtime.database.run(update(lease).where(lease.c.id.in_(lease_ids)).values(over))

    def make_due(self, lease_id: LeaseId) -> None:
        self.runtime.database.run(update(lease).where(lease.c.id == lease_id).values(next_due=text("now()")))
