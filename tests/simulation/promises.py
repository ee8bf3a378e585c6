"""What must hold: judged by the truth of the clouds and the rows, whenever a listing is complete, and at the end."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select, text

from app.db.leases.billing import cost, price_segments
from app.db.operations.invariants import violations
from app.db.schema.tables import attempt, lease
from app.domain.billing import SECONDS_PER_HOUR
from app.domain.budgets import is_budget
from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import DEADLINE, deadline
from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.gpu_promises import GpuPromises
from tests.simulation.processes import Grounds
from tests.simulation.restore import Restore
from tests.simulation.scheduler import EPOCH

_HONEST_LISTINGS = 6
"""So many complete listings that show a VM of an ended attempt must have led to a call that ends it."""
_GHOST_LISTINGS = 12
"""So many without the VM of an active lease must have ended that; a verification may fail some times."""

_STALE_LISTINGS = 12
"""So many that show an active lease's VM with an earlier deadline than the lease's must have led to a new tag."""

_ROWS = text(
    """
    SELECT a.lease_id, a.n, a.state, a.instance_id, l.state AS lease_state, l.ended_at IS NOT NULL AS over,
           floor(extract(epoch FROM l.deadline_applied))::bigint AS deadline
    FROM attempt a JOIN lease l ON l.id = a.lease_id WHERE a.account = :account
    """
)
_HOLD = text("SELECT hold FROM installation WHERE hold IS NOT NULL")
_QUOTAS = """
    SELECT json_agg(json_build_array(q.tenant_id, q.resource, q."limit"::text, q.used::text, coalesce(c.amount, 0)::text)
                    ORDER BY q.tenant_id, q.resource)
    FROM quota q LEFT JOIN (
        SELECT tenant_id, resource, sum(amount) AS amount FROM quota_claim GROUP BY 1, 2
        UNION ALL SELECT tenant_id, 'volume_gib', sum(size_gib) FROM volume WHERE ended_at IS NULL GROUP BY 1) c USING (tenant_id, resource)
    """
_OPEN = text(
    """
    SELECT 'lease ' || id || ' is ' || state || ', ' || coalesce(reason::text, '') AS what FROM lease WHERE ended_at IS NULL
    UNION ALL SELECT 'group ' || id || ' is ' || state || ', ' || coalesce(reason::text, '') FROM lease_group WHERE ended_at IS NULL
    UNION ALL SELECT 'a hold: ' || hold::text FROM installation WHERE hold IS NOT NULL
    UNION ALL SELECT 'orphan ' || instance_id || ' is ' || state FROM orphan WHERE state IN ('seen', 'ending')
    """
)
_BILLED = text(
    """
    SELECT account, instance_id, billing_started_at, billing_ended_at FROM attempt
    WHERE instance_id IS NOT NULL AND billing_started_at IS NOT NULL
    """
)


_KNOWN = text(
    """
    SELECT a.lease_id, l.tenant_id, l.desired = 'run' AND NOT l.group_retreat AS wanted, l.expires_at, a.vm_state, l.request, a.n = l.attempts_count AS is_newest,
           (l.proof->>'n')::int = a.n AND (l.proof->>'rejected')::bool AS proof_rejected,
           (l.gpu_health->>'n')::int = a.n AND (l.gpu_health->>'rejected')::bool AS health_rejected
    FROM attempt a JOIN lease l ON l.id = a.lease_id
    WHERE a.account = :account AND a.instance_id = :instance AND a.state = 'known'
    """
)
_RELEASED = lease.c.release_requested_at
_ROUNDING = Decimal("0.00001")
_EXPIRED = text("SELECT id, release_requested_at FROM lease WHERE reason->>'code' = 'expired'")


_segment = price_segments()
_SPENT = (
    select(
        lease.c.id,
        lease.c.max_cost,
        func.max(_segment.c.rate_per_hour).label("rate"),
        func.sum(cost(_segment.c.rate_per_hour, _segment.c.starts_at, func.least(_segment.c.ends_at, _RELEASED))).label(
            "spent"
        ),
    )
    .join(attempt, attempt.c.lease_id == lease.c.id)
    .join(_segment, _segment.c.attempt_id == attempt.c.id)
    .where(lease.c.max_cost.is_not(None))
    .group_by(lease.c.id)
)
"""What capped leases had cost when their end began. How long their VMs then take to end is up to the clouds."""
_STEP_SECONDS = 90.0
"""The longest time for which no process comes to a lease that is due, while none of them stalls: several are killed in a row."""


class Promises:
    """`check` after every complete listing; `check_ending` before a call that ends VMs; `check_quotas` after every
    transaction; `open` while the run comes to its end; `settle_accounts` at the end.
    """

    def __init__(self, grounds: Grounds, restore: Restore) -> None:
        self._grounds = grounds
        self._restore = restore
        self._gpus = GpuPromises(grounds, restore)
        self._used: dict[tuple[str, str], Decimal] = {}

    def _rows(self, statement: Any, **parameters: Any) -> list[Any]:
        self._grounds.clocked.set_time(self._grounds.scheduler)
        return list(self._grounds.clocked.connection.execute(statement, parameters).all())

    def check(self, cloud: Cloud, honest: bool, started: float) -> None:
        """`honest`: the listing that is complete now, and began at `started`, has left nothing out."""
        rows = {(row.lease_id, row.n): row for row in self._rows(_ROWS, account=cloud.name)}
        for machine in cloud.machines.values():
            row = rows.get(machine.key)
            if machine.copied:
                _copied(machine, row)
                continue
            if row is None and machine.key[0] in self._restore.lost:
                continue
            if row is None:
                raise Violation(f"orphan: {machine.id} has no row of {machine.key}")
            if machine.alive:
                counts = honest and machine.lists_from <= started
                self._alive(machine, row, counts=counts)
                self._tagged(machine, row, counts=counts)
            elif row.lease_state == "active" and row.state == "known" and row.instance_id == machine.id and honest:
                self._ghost(machine, row, started)
        if not self._restore.happened:
            _check_owners(cloud, rows.values())
            self._undisturbed()
            self._gpus.check(cloud)

    def check_ending(self, cloud: Cloud, vm_ids: Sequence[str]) -> None:
        """Nobody ends a VM that runs for a lease that is wanted, nor one whose row is lost before its tagged deadline."""
        for machine in (cloud.machines[vm_id] for vm_id in vm_ids):
            if machine.copied or machine.state is not VmState.RUNNING:
                continue
            owner = next(iter(self._rows(_KNOWN, account=cloud.name, instance=machine.id)), None)
            if owner is not None and owner.wanted and owner.vm_state == "running":
                self._gpus.check_rejected(machine, owner)
            known = (row for row in self._rows(_ROWS, account=cloud.name) if (row.lease_id, row.n) == machine.key)
            deadline_at = deadline(machine.tags)
            lost = owner is None and next(known, None) is None
            if lost and (deadline_at is None or self._grounds.scheduler.time < deadline_at):
                raise Violation(
                    f"{machine.id} is ended before its deadline, although the rows of {machine.key} are lost"
                )

    def _undisturbed(self) -> None:
        """What holds as long as no lease was lost: adoption asks for no quota."""
        for row in self._rows(_HOLD):
            raise Violation(f"a hold without a cause: {row.hold}")

    def check_quotas(self) -> None:
        """After each transaction: what is used is what leases claim, and it grows within the limit alone.

        A limit below what is used ends nothing. Adoption asks for no quota: it takes what runs.
        """
        [found] = self._grounds.clocked.texts(_QUOTAS)
        used_now: dict[tuple[str, str], Decimal] = {}
        for tenant_id, resource, limit, used, claimed in json.loads(found or "[]"):
            now, before = Decimal(used), self._used.get((tenant_id, resource), Decimal(0))
            if now != Decimal(claimed):
                raise Violation(f"quota drift: {used} {resource} used, {claimed} claimed")
            follows_prices = is_budget(resource)  # what a budget holds may grow by prices, labels and late ends
            if (
                limit is not None
                and not follows_prices
                and now > max(before, Decimal(limit))
                and not self._restore.happened
            ):
                raise Violation(f"overshoot: {resource} used grows from {before} to {used}, {limit} allowed")
            used_now[tenant_id, resource] = now
        self._used = used_now

    @staticmethod
    def _alive(machine: Machine, row: Any, *, counts: bool) -> None:
        if row.state == "planned":
            raise Violation(f"{machine.id} was made for {machine.key} before that was marked as sent")
        if row.state not in ("dead", "refused"):
            return
        if not machine.late:
            raise Violation(f"orphan: {machine.id} lives, and attempt {machine.key} is {row.state}")
        machine.shown += counts
        if machine.shown > _HONEST_LISTINGS and not machine.end_asked:
            raise Violation(f"orphan: {machine.id} was listed {machine.shown} times without being ended")

    @staticmethod
    def _tagged(machine: Machine, row: Any, *, counts: bool) -> None:
        """The dead-man switch ends a VM at the deadline of its tag: that is not before the lease's."""
        current = row.lease_state == "active" and row.state == "known" and row.instance_id == machine.id
        if not current or int(machine.tags[DEADLINE]) >= row.deadline:
            machine.stale = 0
            return
        machine.stale += counts
        if machine.stale > _STALE_LISTINGS:
            raise Violation(f"deadline: {machine.id} is tagged {machine.tags[DEADLINE]}, its lease {row.deadline}")

    @staticmethod
    def _ghost(machine: Machine, row: Any, started: float) -> None:
        machine.shown += (machine.gone_at or 0.0) < started
        if machine.shown > _GHOST_LISTINGS:
            raise Violation(f"ghost: {row.lease_id} is {row.lease_state}, {machine.id} is gone since {machine.gone_at}")

    def open(self) -> list[str]:
        """What is not over yet, in the database and in the clouds."""
        clouds = self._grounds.clouds.values()
        found = [row.what for row in self._rows(_OPEN)]
        found += [f"{machine.id} is {machine.state}" for cloud in clouds for machine in cloud.living()]
        return found + [f"{thing.id} costs money" for cloud in clouds for thing in cloud.costing()]

    def settle_accounts(self) -> None:
        """Everything is over: the program's own invariants, and that nobody paid for what was not there."""
        found = violations(self._grounds.clocked.connection)
        if found:
            raise Violation("; ".join(found))
        self._check_caps()
        self._gpus.settle()
        for row in self._rows(_EXPIRED):
            promised, machine = self._restore.promised.get(row.id, (EPOCH, None))
            ended = row.release_requested_at
            if machine is not None and ended < promised and _seconds(ended) < (machine.gone_at or float("inf")):
                raise Violation(f"{row.id} expired at {ended}, the tag of {machine.id} promised {promised}")
        for row in self._rows(_BILLED):
            machine = self._grounds.clouds[row.account].machines[row.instance_id]
            begun, ended = _seconds(row.billing_started_at), _seconds(row.billing_ended_at)
            by_tag = machine.market != Market.SPOT and row.billing_ended_at == deadline(machine.tags)
            if begun < machine.born - 0.001 or (ended > max(begun, machine.gone_at or 0.0) + 0.001 and not by_tag):
                raise Violation(f"{machine.id} ({machine.born}–{machine.gone_at}) is billed for {begun}–{ended}")

    def _check_caps(self) -> None:
        """No ended lease cost more than its cap plus one step interval at its rate. A restore may lose a cap or a price."""
        late = Decimal(_STEP_SECONDS + self._grounds.longest_standstill)
        for row in self._rows(_SPENT) if not self._restore.happened else ():
            over = row.spent - row.max_cost
            if over > row.rate * late / SECONDS_PER_HOUR + _ROUNDING:
                raise Violation(f"{row.id} cost {row.spent:.6f} at {row.rate} an hour, its cap is {row.max_cost}")


def _check_owners(cloud: Cloud, rows: Iterable[Any]) -> None:
    """A VM is known as that of the attempt that it was made for, and as no other one's."""
    for row in rows:
        machine = cloud.machines.get(row.instance_id)
        if machine is not None and machine.key != (row.lease_id, row.n):
            raise Violation(f"{machine.id} of {machine.key} is known as the VM of {row.lease_id}/{row.n}")


def _copied(machine: Machine, row: Any) -> None:
    if row is not None and row.instance_id == machine.id:
        raise Violation(f"{machine.id} has copied tags and is taken for the VM of {machine.key}")


def _seconds(when: datetime) -> float:
    return (when - EPOCH).total_seconds()
