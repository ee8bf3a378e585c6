"""What must hold for GPUs: judged by the truth of the machines and by the samples that the program has accepted."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text

from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.gpus import GpuTruth
from tests.simulation.processes import Grounds
from tests.simulation.restore import Restore
from tests.simulation.scheduler import EPOCH

_IDLE_SECONDS = 120.0
"""The longest time for which nobody ends an idle lease, while a process does not stall: several are killed in a row."""
_ACTIVE = text(
    """
    SELECT l.id, l.request, l.ready_at, l.proof->>'status' AS proof_status, l.desired, l.keep_until, a.instance_id
    FROM lease l JOIN attempt a ON a.lease_id = l.id AND a.n = l.attempts_count
    WHERE l.state = 'active' AND a.account = :account AND a.agent_hash IS NOT NULL AND l.tenant_id <> ALL (:forgers)
      AND NOT EXISTS (SELECT FROM lease_group g WHERE g.id = l.group_id AND g.formed_at IS NULL)
    """
)
_ENDED_IDLE = text(
    """
    SELECT l.id, l.request, l.ready_at, l.keep_until, l.release_requested_at, a.account, a.instance_id
    FROM lease l JOIN attempt a ON a.lease_id = l.id AND a.n = l.attempts_count
    WHERE l.reason->>'code' = 'idle' AND l.tenant_id <> ALL (:forgers)
    """
)
_REJECTED = text(
    """
    SELECT e.lease_id, a.account, a.instance_id, next.n IS NOT NULL AS goes_on, l.reason->>'code' AS code,
           (a.region, a.zone, a.instance_type, a.market) = (next.region, next.zone, next.instance_type, next.market)
           AND l.group_id IS NULL AND a.account = next.account
           AND next.created_at < coalesce(a.vm_state_at, a.ended_at) + interval '5 seconds' AS again
    FROM event e JOIN lease l ON l.id = e.lease_id
    JOIN attempt a ON a.lease_id = e.lease_id AND a.n = (e.data->>'n')::int
    LEFT JOIN attempt next ON next.lease_id = a.lease_id AND next.n = a.n + 1
    WHERE e.type = 'attempt.gpu_check_failed'
    """
)
_NOT_GONE_ON = frozenset({"active", "queued", "running"})


class _Run(NamedTuple):
    """Idle samples in a row. `due`: when they were enough for a rule; None: not yet. Seconds since the start."""

    since: float
    samples: int
    last: float
    due: float | None


class GpuPromises:
    """`check` after each complete listing, `check_rejected` before a call that ends a wanted VM, `settle` at the end."""

    def __init__(self, grounds: Grounds, restore: Restore) -> None:
        self._grounds = grounds
        self._restore = restore
        self._period = float(grounds.settings.sample_seconds)
        self._grace = float(grounds.settings.idle_grace_seconds)

    @property
    def _forgers(self) -> list[str]:
        return sorted(self._grounds.forgers)

    def _rows(self, statement: Any, **parameters: Any) -> list[Any]:
        self._grounds.clocked.set_time(self._grounds.scheduler)
        return list(self._grounds.clocked.connection.execute(statement, parameters).all())

    def check(self, cloud: Cloud) -> None:
        """Active leases have the proof that they ask for, and none that is idle by its rule goes on for long."""
        if self._grounds.settings.agent == "off":
            return
        for row in self._rows(_ACTIVE, account=cloud.name, forgers=self._forgers):
            truth = cloud.machines[row.instance_id].gpus if row.instance_id in cloud.machines else None
            if truth is not None:
                self._check_proof(row, truth)
                self._check_not_idle(row, truth)

    @staticmethod
    def _check_proof(row: Any, truth: GpuTruth) -> None:
        active_at, wish = _seconds(row.ready_at), row.request.get("proof")
        if wish == "off":
            return
        if row.proof_status == "failed" or _last(truth.delivered, active_at) is True:
            raise Violation(f"{row.id} became active with a failing proof of {row.instance_id} ({truth.fault})")
        known = [fails for at, fails in [*truth.delivered, *truth.printed] if at <= active_at]
        if wish == "required" and False not in known:
            raise Violation(f"{row.id} requires a proof and became active without one of {row.instance_id}")

    def _check_not_idle(self, row: Any, truth: GpuTruth) -> None:
        rule = row.request.get("idle")
        if rule is None or rule["action"] != "end" or row.desired != "run" or row.keep_until is not None:
            return
        run = self._idle_run(truth, row.ready_at, rule["after_seconds"])
        now = self._grounds.scheduler.now
        late = _IDLE_SECONDS + self._grounds.longest_standstill
        if run is not None and run.due is not None and run.last > run.due + late and run.last > now - 30:
            raise Violation(f"{row.id} is idle since {run.since:.0f}, could end at {run.due:.0f}, and is active")

    def check_rejected(self, machine: Machine, owner: Any) -> None:
        """A wanted VM that runs is ended for its GPUs alone: because they fail, or for the proof that must not be missing.

        Those of a hostile tenant are ended for what it reports of them.
        """
        if owner.tenant_id in self._forgers and (owner.proof_rejected or owner.health_rejected):
            return
        truth, wish = machine.gpus, owner.request.get("proof")
        if truth is not None and owner.proof_rejected:
            missing = wish == "required" and False not in [fails for _, fails in truth.delivered]
            if missing or True in [fails for _, fails in [*truth.delivered, *truth.printed]]:
                return
        if truth is not None and owner.health_rejected and truth.fails:
            return
        raise Violation(f"{machine.id} is ended while {owner.lease_id} wants it")

    def settle(self) -> None:
        """Leases that ended for idleness were idle; those whose VM was rejected went on elsewhere, or had come to an end.

        A member of a group has no other place than its group's pool: it goes on there once the cool-off is over.
        """
        for row in self._rows(_ENDED_IDLE, forgers=self._forgers):
            self._check_idle_end(row)
        for row in self._rows(_REJECTED):
            self._grounds.scheduler.count("lease: VM rejected for its GPUs")
            if row.goes_on:
                self._grounds.scheduler.count("lease: next VM after broken GPUs")
            if row.again and not self._restore.happened:
                raise Violation(f"{row.lease_id} was launched at once where its GPUs had just failed")
            if not row.goes_on and row.code in _NOT_GONE_ON:
                raise Violation(f"{row.lease_id} had broken GPUs, and nothing followed")

    def _check_idle_end(self, row: Any) -> None:
        self._grounds.scheduler.count("lease: ended for idleness")
        machine = self._grounds.clouds[row.account].machines[row.instance_id]
        truth, ended = machine.gpus, _seconds(row.release_requested_at)
        rule = row.request["idle"]
        if truth is None or rule is None or rule["action"] != "end":
            raise Violation(f"{row.id} ended for idleness without such a rule")
        run = self._idle_run(truth, row.ready_at, rule["after_seconds"], until=ended)
        if run is None or run.due is None or run.due > ended:
            raise Violation(f"{row.id} ended at {ended:.0f} for idleness, which its samples do not show: {run}")
        if ended - run.last > 2 * self._period + 1:
            raise Violation(f"{row.id} ended at {ended:.0f} for idleness, and its last sample is of {run.last:.0f}")
        if row.keep_until is not None and _seconds(row.keep_until) > ended:
            raise Violation(f"{row.id} ended for idleness while it was kept")

    def _idle_run(self, truth: GpuTruth, ready_at: datetime, after: float, until: float = float("inf")) -> _Run | None:
        """The run of idle samples up to the newest one, counted from the samples alone."""
        run, last = None, None
        for at, idle in self._samples(truth, until):
            if not idle or at < _seconds(ready_at) + self._grace:
                run = None
            elif run is None or last is None or at - last > 1.5 * self._period:
                run = _Run(at, 1, at, None)
            else:
                samples = run.samples + (at - last >= 0.5 * self._period)
                enough = samples * self._period >= after
                due = run.due if run.due is not None or not enough else max(at, run.since + after)
                run = _Run(run.since, samples, at, due)
            last = at
        return run

    @staticmethod
    def _samples(truth: GpuTruth, until: float) -> Iterator[tuple[float, bool]]:
        start = EPOCH.timestamp()
        return ((at - start, idle) for at, idle in truth.accepted if at - start <= until)


def _last(known: list[tuple[float, bool]], until: float) -> bool | None:
    return next((fails for at, fails in reversed(known) if at <= until), None)


def _seconds(when: datetime) -> float:
    return (when - EPOCH).total_seconds()
