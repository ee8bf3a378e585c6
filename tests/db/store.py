"""Rows for tests of statements, made as the program makes them, and short ways to look at them."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Barrier, Event
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

from sqlalchemy import Connection, Executable, Table, TextClause, func, insert, select, text, update

from app.db.core.ids import new_id
from app.db.core.prepared import Bound
from app.db.leases import claims
from app.db.leases.loaded_leases import lease_from_row
from app.db.leases.transitions import locked
from app.db.schema.tables import attempt, lease, quota, tenant
from app.db.tenancy import budgets, commitments, quotas
from app.db.tenancy.quotas import NewCommitment
from app.domain.budgets import Period, WhenExceeded, limit_of, resource_of, span_at
from app.domain.ids import AttemptId, LeaseId, TenantId
from workers.lifecycle.steps.context import StepContext, reserve_minimum, reserve_quota
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

T = TypeVar("T")
LEASE: dict[str, Any] = {"name": "t", "request": {"ttl_seconds": 3600}, "minimum_claim": {}}
ATTEMPT: dict[str, Any] = {
    "provider": "aws",
    "account": "main",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "instance_type": "g5.xlarge",
    "market": "spot",
    "offering": {},
    "price_per_hour": Decimal("1.5"),
    "params": {"secret": "script"},
    "params_hash": "h",
}
ENDED: dict[str, Any] = {"state": "released", "desired": "end", "next_due": None, "ended_at": func.now()}


def ago(interval: str) -> TextClause:
    """`now() - interval`, by the database's clock."""
    return text(f"now() - interval '{interval}'")


def ahead(interval: str) -> TextClause:
    return text(f"now() + interval '{interval}'")


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Runs `work(0)` … at the same time, each in a thread; raises what any of them raises."""
    barrier = Barrier(count)

    def one(number: int) -> T:
        barrier.wait(timeout=30)
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def make_budget(database: WorkerDatabase, tenant_id: TenantId, amount: Decimal | str, **values: Any) -> str:
    """A new budget of the tenant, as the API makes it. Answers its id."""
    budget_id = new_id("budget")
    facts = {"kind": "tenant", "period": "lifetime", "when_exceeded": "refuse", **values}
    with database.begin() as connection:
        commitments.lock_tenant(connection, tenant_id)
        span = span_at(Period(facts["period"]), connection.execute(select(func.now())).scalar_one())
        period = {"period_started_at": span.starts_at, "period_ends_at": span.ends_at}
        own = {"thresholds": [50, 80, 100], "set_by": "operator", "amount": Decimal(amount), **period, **facts}
        connection.execute(budgets.add({"id": budget_id, "tenant_id": tenant_id, **own}))
        limit = limit_of(Decimal(amount), WhenExceeded(facts["when_exceeded"]))
        connection.execute(budgets.add_counter(tenant_id, budget_id, limit))
        commitments.begin_period(connection, tenant_id, [resource_of(budget_id)])
    return budget_id


_WAITING = text(
    "SELECT FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
)


class Store:
    """A tenant, and ways to make and read rows."""

    def __init__(self, database: WorkerDatabase) -> None:
        self.database = database
        self.run = database.run
        self.first = database.first
        self.all = database.all
        self.tenant_id = self.tenant()

    def tenant(self, **limits: int | None) -> TenantId:
        """A new tenant with these limits; `model_X` is `gpus:X`."""
        tenant_id = TenantId(new_id("tenant"))
        self.run(insert(tenant).values(id=tenant_id, name=tenant_id, max_ttl_seconds=3600, max_total_seconds=7200))
        for name, limit in limits.items():
            self.run(insert(quota).values(tenant_id=tenant_id, resource=name.replace("model_", "gpus:"), limit=limit))
        return tenant_id

    def lease(self, **values: Any) -> LeaseId:
        """A queued lease that is due, with an hour to go, unless `values` say otherwise."""
        lease_id = LeaseId(new_id("lease"))
        times = {"expires_at": ahead("1 hour"), "wait_until": ahead("10 minutes")}
        facts = {"id": lease_id, "tenant_id": self.tenant_id, **LEASE, **times, **values}
        self.run(insert(lease).values(**facts))
        return lease_id

    def claimed(self, lease_id: LeaseId, hold_seconds: float = 60) -> UUID:
        claim_id = uuid4()
        assert self.first(claims.claim(lease_id, claim_id, hold_seconds)) is not None
        return claim_id

    def attempt(self, lease_id: LeaseId, state: str = "planned", **values: Any) -> AttemptId:
        """The next attempt of a lease. Its token is its id."""
        attempt_id = AttemptId(new_id("attempt"))
        count = self.row(lease, lease_id).attempts_count + 1
        if state == "known":
            values = {"instance_id": f"i-{attempt_id}", "vm_state": "running", "known_at": ago("1 hour"), **values}
        facts = {"id": attempt_id, "lease_id": lease_id, "tenant_id": self.row(lease, lease_id).tenant_id, "n": count}
        with self.database.begin() as connection:
            connection.execute(
                insert(attempt).values(**{**facts, **ATTEMPT, "token": attempt_id, "state": state, **values})
            )
            connection.execute(update(lease).where(lease.c.id == lease_id).values(attempts_count=count))
        return attempt_id

    def row(self, table: Table, row_id: str) -> Any:
        return self.first(select(table).where(table.c.id == row_id))

    def write(self, table: Table, row_id: str, **values: Any) -> None:
        self.run(update(table).where(table.c.id == row_id).values(**values))

    def rows(self, table: Table) -> list[Any]:
        return self.all(select(table))

    def now(self) -> datetime:
        """The database's clock."""
        found: datetime = self.only(select(func.now()))[0]
        return found

    def only(self, statement: Executable) -> Any:
        """The first row of a statement that always has one."""
        row = self.first(statement)
        assert row is not None
        return row

    def changed(self, statement: Executable | Bound[Executable]) -> int:
        """How many rows a statement wrote."""
        return self.run(statement)

    def await_lock(self, deadline: float = 30.0) -> None:
        """Returns once another session of this database waits for a lock."""
        until = time.monotonic() + deadline
        while not self.all(_WAITING):
            assert time.monotonic() < until, "nobody waits for a lock"
            Event().wait(0.005)

    # --- quota -----------------------------------------------------------------------------------------------

    def admit(
        self, tenant_id: TenantId, amounts: Mapping[str, Decimal], new: NewCommitment | None = None
    ) -> LeaseId | None:
        """A new lease that holds `amounts` and budgets, as the API makes it; None when they do not fit."""
        new = new or NewCommitment(ttl=timedelta(hours=1))
        while True:
            with self.database.begin() as connection:
                room = connection.execute(quotas.admit(tenant_id, amounts, new)).one()
                if room.fits:
                    claims = {**amounts, **dict(zip(room.budgets, room.budget_amounts, strict=True))}
                    return self._admitted(connection, tenant_id, new, amounts, claims)
                connection.rollback()
            if not (room.outdated or room.due):
                return None
            if not room.due:
                continue
            with self.database.begin() as connection:
                commitments.roll(connection, tenant_id)

    @staticmethod
    def _admitted(
        connection: Connection,
        tenant_id: TenantId,
        new: NewCommitment,
        amounts: Mapping[str, Decimal],
        claims: Mapping[str, Decimal],
    ) -> LeaseId:
        lease_id = LeaseId(new_id("lease"))
        times = {"expires_at": func.now() + new.ttl, "wait_until": ahead("10 minutes")}
        minimum = {"minimum_claim": {name: str(amount) for name, amount in amounts.items()}, "minimum_rate": new.rate}
        owner = {"labels": dict(new.labels), "key_id": new.key_id}
        values = {**LEASE, **times, **minimum, **owner}
        connection.execute(insert(lease).values(id=lease_id, tenant_id=tenant_id, **values))
        connection.execute(*quotas.remember(tenant_id, lease_id, claims))
        return lease_id

    def budget(self, tenant_id: TenantId, amount: Decimal | str, **values: Any) -> str:
        """See `make_budget`."""
        return make_budget(self.database, tenant_id, amount, **values)

    def context(self, lease_id: LeaseId) -> StepContext:
        """What a step is given that writes quota: the lease, claimed and loaded as the reconciler does it."""
        claim_id = uuid4()
        self.write(lease, lease_id, claim_id=claim_id)
        row = self.first(claims.load(lease_id, claim_id))
        assert row is not None
        runtime = cast(Runtime, SimpleNamespace(database=self.database))
        return StepContext(runtime=runtime, lease=lease_from_row(row), claim_id=claim_id, now=row.now, row=row)

    def give_back(self, lease_id: LeaseId) -> None:
        """What a refused attempt does: the lease goes back to what admission reserved. The step commits in any case."""
        ctx = self.context(lease_id)
        with ctx.writing_attempts() as connection:
            reserve_minimum(connection, ctx)

    def hold(
        self, tenant_id: TenantId, lease_id: LeaseId, amounts: Mapping[str, Decimal], rate: Decimal = Decimal(0)
    ) -> bool:
        """`hold_each` of one lease."""
        return self.hold_each(tenant_id, [lease_id], amounts, rate)

    def hold_each(
        self, tenant_id: TenantId, lease_ids: Sequence[LeaseId], amounts: Mapping[str, Decimal], rate: Decimal
    ) -> bool:
        """Changes what leases hold, as placing does: under their row locks, all of it or nothing."""
        with self.database.begin() as connection:
            connection.execute(*locked(lease_ids))
            fits = reserve_quota(connection, tenant_id, lease_ids, amounts, rate=rate).fits
            if not fits:
                connection.rollback()
        return fits

    def relabel(self, tenant_id: TenantId, lease_id: LeaseId, labels: Mapping[str, str]) -> bool:
        """Changes a lease's labels and what it holds of budgets, as the API does; all of it or nothing."""
        with self.database.begin() as connection:
            connection.execute(*commitments.share_tenant(lease_id, within=tenant_id))
            connection.execute(update(lease).where(lease.c.id == lease_id).values(labels=dict(labels)))
            fits = bool(connection.execute(*quotas.recommit(tenant_id, [lease_id])).one().fits)
            if not fits:
                connection.rollback()
        return fits

    def used(self, tenant_id: TenantId) -> dict[str, Decimal]:
        """What counts as used, where it is not zero."""
        rows = self.all(select(quota.c.resource, quota.c.used).where(quota.c.tenant_id == tenant_id))
        return {row.resource: row.used for row in rows if row.used}
