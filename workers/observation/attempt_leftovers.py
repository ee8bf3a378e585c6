"""What ended VMs leave behind, removed while the watch still observes their attempts: volumes, interfaces, addresses."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy import Row

from app.db.leases import release_obstacles
from app.domain.ids import LeaseId
from app.domain.leases import AttemptState, VmState
from app.domain.reasons import in_use_obstacle, leftover_obstacle
from app.domain.tags import SHARED, attempt_key
from workers.providers.errors import ProviderError, Throttled
from workers.providers.interfaces import Provider
from workers.providers.types import Leftover
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_OBSTACLE_SECONDS = 60.0


@dataclass(slots=True)
class AttemptLeftovers:
    """`clean`: ids of attempts without leftovers. `obstacles`: what keeps a lease from ending, by lease id."""

    clean: frozenset[str] = frozenset()
    obstacles: dict[str, set[str]] = field(default_factory=dict)
    throttled: list[ProviderError] = field(default_factory=list)

    def remove(self, provider: Provider, leftover: Leftover, lease_id: str) -> None:
        """Removes an unused leftover. An error affects no other leftover. After throttling the pass removes no more."""
        if leftover.in_use:
            obstacle = in_use_obstacle(leftover.kind)
        else:
            error = None if self.throttled else try_to_remove(provider, leftover)
            if isinstance(error, Throttled):
                self.throttled.append(error)
            if error is None or isinstance(error, Throttled):
                return
            obstacle = leftover_obstacle(leftover.kind, error.code or error.kind)
        if not leftover.free:
            self.obstacles.setdefault(lease_id, set()).add(obstacle)


def remove_leftovers(
    runtime: Runtime, provider: Provider, region: str, rows: Sequence[Row[Any]], gone: Collection[str]
) -> AttemptLeftovers:
    """Removes the leftovers of the attempts that are over, each independently of the others.

    `gone`: ids of VMs that the provider has just called ended. What the members of a group share stays: the infrequent
    sweep removes it once the group has ended.
    """
    result = AttemptLeftovers()
    over = [row for row in rows if not row.clean and _is_over(row, gone)]
    if not over:
        return result
    keys = {(row.lease_id, row.n): row for row in over}
    left = provider.leftovers(region, runtime.installation.id, sorted({row.lease_id for row in over}))
    dirty = {row.id for row in over if row.zone in left.unreachable}
    for leftover in (one for one in left.found if SHARED not in one.tags):
        key = attempt_key(leftover.tags)
        row = keys.get(key) if key is not None else None
        if row is not None:
            result.remove(provider, leftover, row.lease_id)
            if not leftover.free:
                dirty.add(row.id)
    result.clean = frozenset(row.id for row in over) - dirty
    return result


def _is_over(row: Row[Any], gone: Collection[str]) -> bool:
    if row.state != AttemptState.KNOWN or row.vm_state == VmState.GONE:
        return True
    return row.instance_id in gone


def try_to_remove(provider: Provider, leftover: Leftover) -> ProviderError | None:
    """Requests the removal of an unused leftover. Returns the error with which the provider refused, or None."""
    try:
        provider.remove_leftover(leftover)
    except ProviderError as error:
        log.warning("leftover stays", kind=leftover.kind, id=leftover.id, code=error.code, error=error.message)
        return error
    log.info("leftover removed", kind=leftover.kind, id=leftover.id)
    return None


def store_obstacles(runtime: Runtime, obstacles: Mapping[str, Collection[str]]) -> None:
    """Leases that have been releasing for a while show their obstacles.

    Right after the end of a VM many resources are still in use.
    """
    patience = min(_OBSTACLE_SECONDS, runtime.settings.release_alarm_seconds)
    for lease_id, causes in obstacles.items():
        statement = release_obstacles.blocked(LeaseId(lease_id), ", ".join(sorted(causes)), after_seconds=patience)
        runtime.database.run(statement)
