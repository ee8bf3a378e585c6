"""What a hostile tenant's VMs cannot change for others (docs/trust.md): judged by the truth of the clouds."""

import json
from collections.abc import Callable

from sqlalchemy import text

from app.db.fleet import gpu_benchmarks
from app.domain.tags import TENANT
from tests.simulation.cloud import Machine, Violation
from tests.simulation.hostile import TFLOPS, Hostile
from tests.simulation.processes import Grounds
from tests.simulation.restore import Restore

_Place = tuple[str, ...]
"""Account, zone, instance type, market."""
_COOLING = """
    SELECT json_agg(json_build_array(account, zone, instance_type, market, cool_reason, refused_at::text, refusals)
                    ORDER BY account, zone, instance_type, market)
    FROM offering WHERE refusals > 0
    """
_NOT_READY = text(
    """
    SELECT a.account, a.zone, a.instance_type, a.market FROM attempt a JOIN lease l ON l.id = a.lease_id
    WHERE l.reason->>'code' = 'boot_timeout' AND l.tenant_id <> :tenant AND a.n = l.attempts_count
    """
)
_LATE = text(
    """
    SELECT name FROM periodic_job
    WHERE greatest(next_due, held_until) < now() - interval '120 seconds' AND kind <> ALL (CAST(:unsent AS text[]))
    """
)


class HostilePromises:
    """`check` after each transaction of a worker, `check_shown` after each complete listing, `settle` at the end.

    An offering is set aside for all, and counts a refusal, only for what the cloud did, or for what VMs of another
    tenant have shown. After a restore nobody knows whose word it was.
    """

    def __init__(self, grounds: Grounds, hostile: Hostile, restore: Restore) -> None:
        self._grounds = grounds
        self._hostile = hostile
        self._restore = restore
        self._known: dict[_Place, tuple[str | None, int]] = {}
        self._witnesses: dict[str, Callable[[_Place], bool]] = {
            "interrupted": lambda place: any(machine.interrupted for machine in self._machines(place)),
            "gpu_check_failed": lambda place: any(self._has_shown_failure(one) for one in self._machines(place)),
            "boot_timeout": lambda place: place in self._not_ready(),
        }

    @property
    def _judges(self) -> bool:
        return self._hostile.tenant_id is not None and not self._restore.happened

    def check(self) -> None:
        """Every refusal of an offering has a cause that the hostile tenant cannot make alone."""
        if not self._judges:
            return
        [found] = self._grounds.clocked.texts(_COOLING)
        for *where, reason, refused_at, refusals in json.loads(found or "[]"):
            place, now = tuple(where), (refused_at, refusals)
            before, self._known[place] = self._known.get(place), now
            witness = self._witnesses.get(reason)
            if now != before and witness is not None and not witness(place):
                raise Violation(f"{'/'.join(place)} is set aside for all ({reason}), which one tenant alone has shown")

    def check_shown(self) -> None:
        """Offerings show the benchmarks of the others."""
        if not self._judges:
            return
        for row in self._grounds.clocked.connection.execute(gpu_benchmarks.counted()):
            if row.driver_version != "580" or not min(TFLOPS) <= row.bf16_tflops_p50 <= max(TFLOPS):
                raise Violation(f"{row.instance_type} shows {row.bf16_tflops_p50} TFLOP/s of one tenant")

    def settle(self) -> None:
        """No job has fallen behind."""
        if self._hostile.tenant_id is None:
            return
        unsent = [] if self._grounds.settings.agent == "on" else ["notices"]
        self._grounds.clocked.set_time(self._grounds.scheduler)
        for row in self._grounds.clocked.connection.execute(_LATE, {"unsent": unsent}):
            raise Violation(f"the job {row.name} is late")

    def _machines(self, place: _Place) -> list[Machine]:
        account, *rest = place
        machines = self._grounds.clouds[account].machines.values()
        return [one for one in machines if [one.zone, one.kind, one.market] == rest and not one.copied]

    def _has_shown_failure(self, machine: Machine) -> bool:
        truth = machine.gpus
        if truth is None or machine.tags[TENANT] == self._hostile.tenant_id:
            return False
        return True in [fails for _, fails in [*truth.delivered, *truth.printed]]

    def _not_ready(self) -> set[_Place]:
        rows = self._grounds.clocked.connection.execute(_NOT_READY, {"tenant": self._hostile.tenant_id})
        return {tuple(row) for row in rows}
