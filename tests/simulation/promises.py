"""What must hold: judged by the truth of the clouds and the rows, whenever a listing is complete, and at the end."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import text

from app.db.invariants import violations
from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.people import People
from tests.simulation.processes import Grounds
from tests.simulation.scheduler import EPOCH

_HONEST_LISTINGS = 6
"""So many complete listings that show a VM of an ended attempt must have led to a call that ends it."""
_GHOST_LISTINGS = 12
"""So many without the VM of an active lease must have ended that; a verification may fail some times."""

_ROWS = text(
    """
    SELECT a.lease_id, a.n, a.state, a.instance_id, l.state AS lease_state, l.ended_at IS NOT NULL AS over
    FROM attempt a JOIN lease l ON l.id = a.lease_id WHERE a.account = :account
    """
)
_HOLD = text("SELECT hold FROM installation WHERE hold IS NOT NULL")
_OVER_QUOTA = text("SELECT tenant_id, resource, used FROM quota WHERE used > 0")
_OPEN = text(
    """
    SELECT 'lease ' || id || ' is ' || state || ', ' || coalesce(reason::text, '') AS what FROM lease WHERE ended_at IS NULL
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


class Promises:
    """`lost`: leases that a restore of the database has lost. `check` after every complete listing; `open` while the run comes to its end; `settle_accounts` at the end."""

    def __init__(self, grounds: Grounds, people: People, lost: Collection[str]) -> None:
        self._grounds = grounds
        self._people = people
        self._lost = lost

    def _rows(self, statement: Any, **parameters: Any) -> list[Any]:
        self._grounds.clocked.set_time(self._grounds.scheduler)
        return list(self._grounds.clocked.connection.execute(statement, parameters).all())

    def check(self, cloud: Cloud, honest: bool, started: float) -> None:
        """`honest`: the listing that is complete now, and began at `started`, has left nothing out."""
        rows = {(row.lease_id, row.n): row for row in self._rows(_ROWS, account=cloud.name)}
        for machine in cloud.machines.values():
            row = rows.get(machine.key)
            if row is None and machine.key[0] in self._lost:
                continue
            if row is None:
                raise Violation(f"orphan: {machine.id} has no row of {machine.key}")
            if machine.alive:
                self._alive(machine, row, counts=honest and machine.lists_from <= started)
            elif row.lease_state == "active" and row.state == "known" and row.instance_id == machine.id and honest:
                self._ghost(machine, row, started)
        if not self._lost:
            self._undisturbed()

    def _undisturbed(self) -> None:
        """What holds as long as no lease was lost: adoption asks for no quota."""
        for row in self._rows(_HOLD):
            raise Violation(f"a hold without a cause: {row.hold}")
        for row in self._rows(_OVER_QUOTA):
            limit = self._people.highest.get((row.tenant_id, row.resource))
            if limit is not None and row.used > limit:
                raise Violation(f"overshoot: {row.used} {row.resource} used, never more than {limit} allowed")

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
        for row in self._rows(_BILLED):
            machine = self._grounds.clouds[row.account].machines[row.instance_id]
            begun, ended = _seconds(row.billing_started_at), _seconds(row.billing_ended_at)
            if begun < machine.born - 0.001 or ended > max(begun, machine.gone_at or 0.0) + 0.001:
                raise Violation(f"{machine.id} ({machine.born}–{machine.gone_at}) is billed for {begun}–{ended}")


def _seconds(when: datetime) -> float:
    return (when - EPOCH).total_seconds()
