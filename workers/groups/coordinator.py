"""The coordinator of a worker process: moves groups from state to state.

It calls no cloud. The leases of a group launch and end as others do; the coordinator says where, and when to give up.
Each step is one transaction: lock the members and the group, load, decide, write. So a step that was decided on old facts
is never written, and a worker that dies in the middle leaves nothing half done.
"""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.groups import coordination, writes
from app.db.groups.members import lock_members
from app.db.tenancy import commitments
from app.domain.groups.lifecycle import decide_group
from app.domain.groups.steps import Elect, GroupRest, GroupStep, Member, Replace
from app.domain.ids import GroupId, TenantId
from workers.groups.election import Election, elect
from workers.groups.replacements import BudgetsChangedError
from workers.groups.steps import GroupStepContext, execute
from workers.runtime.brakes import HELD_PAUSE, is_on_hold
from workers.runtime.database import failure_name
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_AT_ONCE = 4
"""Few: a group of another tenant that becomes due meanwhile waits until these are moved."""
_MOST_STEPS = 16
"""A bound against a step that makes no progress. What is left follows in the next pass."""
_TAKEN = timedelta(seconds=10)
"""After how long another worker takes over a group whose worker died."""
_AFTER_A_BUG = timedelta(seconds=30)
_STOPPED_PAUSE = timedelta(seconds=5)


class Coordinator:
    """Moves groups. Any number of workers may run it at the same time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def start(self) -> threading.Thread:
        """Starts the thread; it ends soon after `runtime.stopping` is set."""
        pause = self._runtime.settings.sweep_interval
        return Loop("groups", self.sweep, stopping=self._runtime.stopping, pause=pause).start()

    def sweep(self) -> float | None:
        """Moves the groups that are due. Returns 0 when there may be more."""
        rows = self._runtime.database.all(coordination.take_due(_MOST_AT_ONCE, _TAKEN))
        for row in rows:
            if self._runtime.stopping.is_set():
                return None
            self._move(GroupId(row.id))
        return 0 if len(rows) == _MOST_AT_ONCE else None

    def _move(self, group_id: GroupId) -> None:
        """The outermost handler for one group: a step that fails delays this group, and no other."""
        with structlog.contextvars.bound_contextvars(group_id=group_id):
            try:
                for _ in range(_MOST_STEPS):
                    if self._runtime.stopping.is_set() or self._step(group_id):
                        return
            except DBAPIError as error:
                log.warning(failure_name(error), error=str(error.orig))
                self._runtime.metrics.step_failed("database")
            except Exception:
                log.exception("group step failed")
                self._runtime.metrics.step_failed("bug")
                self._runtime.database.run(coordination.postpone(group_id, _AFTER_A_BUG))

    def _step(self, group_id: GroupId) -> bool:
        """Decides on what is stored now, and executes a step under the locks when it is still the one to do. True: the group rests."""
        row = self._runtime.database.first(coordination.read(group_id, locked=False))
        if row is None:
            return True
        step: GroupStep = GroupRest(row.now + HELD_PAUSE)
        if not is_on_hold(self._runtime.database, row):
            members = self._runtime.database.all(coordination.members(group_id))
            step = _decide(row, members)
        election = self._election(row, step)
        if election is not None and election.look_again is not None:
            step = GroupRest(election.look_again)
        if isinstance(step, GroupRest):
            self._runtime.database.run(coordination.rest(group_id, row.next_due, step.until))
            return True
        try:
            until = self._execute(row, step, election)
        except BudgetsChangedError as changed:
            self._roll_budgets(row.tenant_id, due=changed.due)
            return False
        if until is not None:
            self._runtime.database.run(coordination.rest(group_id, row.next_due, until))
        return until is not None

    def _execute(self, row: Any, step: GroupStep, election: Election | None) -> datetime | None:
        """Returns when to try again a step that could not be made."""
        group_id = GroupId(row.id)
        with self._runtime.database.begin() as connection:
            if isinstance(step, Replace):
                connection.execute(writes.share_tenant(row.tenant_id))
            connection.execute(*lock_members(group_id))
            row = connection.execute(*coordination.read(group_id, locked=True)).one()
            members = connection.execute(*coordination.members(group_id)).all()
            if is_on_hold(self._runtime.database, row) or _decide(row, members) != step:
                return None
            facts = coordination.group_from_row(row)
            ctx = GroupStepContext(self._runtime, connection, facts, _members(members), row.now, election)
            until = execute(ctx, step)
        log.info("group step", step=type(step).__name__, state=str(facts.state))
        self._runtime.nudge.set()
        return until

    def _roll_budgets(self, tenant_id: TenantId, *, due: bool) -> None:
        """In a transaction of its own: it locks the tenant, and then leases of other groups as well."""
        if due:
            with self._runtime.database.begin() as connection:
                commitments.roll(connection, tenant_id)

    def _election(self, row: Any, step: GroupStep) -> Election | None:
        """The pool to try next, chosen before the transaction. While launches are stopped none is tried."""
        if not isinstance(step, Elect):
            return None
        if row.launches_stopped is not None:
            return Election(look_again=row.now + _STOPPED_PAUSE)
        return elect(self._runtime, row)


def _decide(row: Any, members: Sequence[Any]) -> GroupStep:
    return decide_group(coordination.group_from_row(row), _members(members), row.now)


def _members(rows: Sequence[Any]) -> list[Member]:
    return [coordination.member_from_row(row) for row in rows]
