"""Events on idle leases: two warnings, and that a lease counts as idle. A lease that must end for it is woken."""

from typing import Any

from sqlalchemy import Row

from app.db.events.events import NewEvent
from app.db.leases import idleness
from app.domain.event_parts import EventData
from app.domain.events import LeaseIdleSoon
from app.domain.idleness import LAST_NOTICE, Idleness
from app.domain.ids import LeaseId
from app.domain.lease_requests import IdleAction, IdleRule
from workers.jobs.parts import apart
from workers.observation.idleness import evidence_of, idle_event
from workers.runtime.runtime import Runtime

_LEASES = 500


def tell_idle(runtime: Runtime) -> int:
    """Writes the due notices and wakes the leases that must end. Returns the number of events.

    The end itself is a decision of the lease's worker, which loads the newest samples. A lease that is not ended is woken
    again in the next round.
    """
    period = runtime.timing.sample
    count = 0
    for row in runtime.database.all(idleness.due(period, _LEASES)):
        run = idleness.idleness_from_row(row, IdleRule.from_json(row.rule) if row.rule else None)
        notice = 0 if run is None else run.notice(row.now, period)
        if run is None or not notice:
            continue
        if notice == LAST_NOTICE and run.rule.action is IdleAction.END:
            runtime.database.run(idleness.wake(LeaseId(row.id)))
        else:
            with apart(runtime, "notices", lease_id=row.id):
                count += _tell(runtime, row, run, notice)
    return count


def _tell(runtime: Runtime, row: Row[Any], run: Idleness, notice: int) -> int:
    lease_id, period = LeaseId(row.id), runtime.timing.sample
    with runtime.database.begin() as connection:
        is_idle = notice == LAST_NOTICE
        evidence = evidence_of(connection, lease_id, run) if is_idle else None
        data: EventData = idle_event(run, row.gpu_count, row.rate_per_hour) if is_idle else _soon(run, notice)
        statement = idleness.tell(lease_id, NewEvent(data), run, notice, period, evidence)
        return connection.execute(*statement).rowcount


def _soon(run: Idleness, notice: int) -> LeaseIdleSoon:
    lead = run.warnings[notice - 1]
    return LeaseIdleSoon(idle_since=run.since, ends_at=run.ends_at, seconds=int(lead.total_seconds()))
