"""The watch: bulk observation of changing VMs: those that start, boot, end, or were lost. One get per hundred VMs.

The watch writes facts and wakes leases. The reconciler decides.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import Row

from app.db.fleet import inventory
from app.db.leases import attempts, release_obstacles
from app.db.leases.transitions import locked
from app.domain.billing import ran_until
from app.domain.gpus.proofs import ProofRecord
from app.domain.ids import LeaseId
from app.domain.leases import AttemptState, VmState
from app.domain.reasons import in_use_obstacle, leftover_obstacle
from app.domain.tags import SHARED, attempt_key
from workers.observation.slot_labels import note_left
from workers.observation.vm_reasons import reason_json
from workers.providers.errors import ProviderError, Throttled
from workers.providers.ports import Provider
from workers.providers.types import Leftover, Vm
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_SEEN = frozenset({VmState.RUNNING, VmState.ENDING, VmState.STOPPED})
"""States that an observation after the launch's own answer has reported."""

_OBSTACLE_SECONDS = 60.0
_ASKED_AT_ONCE = 50
"""VMs whose readiness is stored together. At some clouds each of them needs a call of its own."""
_REPORT_SECONDS, _REPORT_SHARE = 60.0, 0.25
"""How long a running VM may owe its host keys, and the largest share of the boot time-out. It may not reach the API."""


def watch(runtime: Runtime, account: str, region: str) -> int:
    """Observes the changing VMs of one account and region. Returns their number.

    The failure of one query does not discard the answers of the others. Raises the first ProviderError after all
    answers are stored.
    """
    rows = runtime.database.all(attempts.watched(account, region))
    if not rows:
        return 0
    provider = runtime.accounts.provider(account)
    known = [row for row in rows if row.state == AttemptState.KNOWN]
    errors = _Errors()
    vms: Mapping[str, Vm | None] = {}
    leftovers = _Leftovers()
    with errors.collecting():
        vms = provider.get(region, [row.instance_id for row in known]) if known else {}
    # somebody else's credentials show none of the VMs
    seen = not errors.first and (not known or any(vm is not None for vm in vms.values()))
    with errors.collecting():
        leftovers = _remove_leftovers(runtime, provider, region, rows, vms)
    _store(runtime, known, vms, frozenset(), leftovers.clean)
    booting, at_once = _booting(runtime, provider, known, vms), max(_ASKED_AT_ONCE, provider.limits.readiness)
    for asked in (booting[start : start + at_once] for start in range(0, len(booting), at_once)):
        with errors.collecting() as caught:
            ready = provider.ready(region, [row.instance_id for row in asked])
            _store(runtime, [row for row in asked if row.instance_id in ready], vms, ready, leftovers.clean)
        if any(isinstance(error, Throttled) or not error.answered for error in caught):
            break
    if seen:
        runtime.database.run(inventory.watched(account, region, rows[0].now))
    _store_clean_ends(runtime, rows, leftovers.clean)
    note_left(runtime, account, region, (vm for vm in vms.values() if vm is not None), rows[0].now)
    _store_obstacles(runtime, leftovers.obstacles)
    for error in (*errors.first, *leftovers.throttled):
        raise error
    return len(rows)


class _Errors:
    """The first ProviderError of several independent queries."""

    def __init__(self) -> None:
        self.first: list[ProviderError] = []

    @contextmanager
    def collecting(self) -> Iterator[list[ProviderError]]:
        """A ProviderError inside the block ends only the block, and is in the list afterwards."""
        caught: list[ProviderError] = []
        try:
            yield caught
        except ProviderError as error:
            caught.append(error)
            if not self.first:
                self.first.append(error)


def _booting(
    runtime: Runtime, provider: Provider, rows: Sequence[Row[Any]], vms: Mapping[str, Vm | None]
) -> list[Row[Any]]:
    """The attempts whose VMs may have become ready. A VM whose agent has reported needs no call."""
    each_alone = provider.limits.readiness == 1
    patience = timedelta(seconds=min(_REPORT_SECONDS, _REPORT_SHARE * runtime.timing.boot_timeout))
    return [
        row
        for row in rows
        if not row.ready
        and not (row.proof and ProofRecord.from_json(row.proof).shows_boot(row.n))
        and row.lease_state != "releasing"
        and _state(vms.get(row.instance_id)) is VmState.RUNNING
        and not (each_alone and _boots_still(row, patience))
    ]


def _boots_still(row: Row[Any], patience: timedelta) -> bool:
    """Whether the VM has just started and owes its host keys, which it reports early in its boot. It needs no call yet."""
    is_new = row.vm_state != VmState.RUNNING or row.now < row.vm_state_at + patience
    return bool(row.owes_host_keys) and is_new


def _state(vm: Vm | None) -> VmState | None:
    return vm.state if vm is not None else None


@dataclass(slots=True)
class _Leftovers:
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


def _remove_leftovers(
    runtime: Runtime, provider: Provider, region: str, rows: Sequence[Row[Any]], vms: Mapping[str, Vm | None]
) -> _Leftovers:
    """Removes the leftovers of the attempts that are over, each independently of the others.

    What the members of a group share stays: the infrequent sweep removes it once the group has ended.
    """
    result = _Leftovers()
    over = [row for row in rows if not row.clean and _is_over(row, vms)]
    if not over:
        return result
    keys = {(row.lease_id, row.n): row for row in over}
    left = provider.leftovers(region, runtime.installation.id, sorted({row.lease_id for row in over}))
    dirty = {row.id for row in over if row.zone in left.unreachable}
    for leftover in (resource for resource in left.resources if SHARED not in resource.tags):
        key = attempt_key(leftover.tags)
        row = keys.get(key) if key is not None else None
        if row is not None:
            result.remove(provider, leftover, row.lease_id)
            if not leftover.free:
                dirty.add(row.id)
    result.clean = frozenset(row.id for row in over) - dirty
    return result


def _is_over(row: Row[Any], vms: Mapping[str, Vm | None]) -> bool:
    if row.state != AttemptState.KNOWN or row.vm_state == VmState.GONE:
        return True
    return _state(vms.get(row.instance_id)) is VmState.GONE


def try_to_remove(provider: Provider, leftover: Leftover) -> ProviderError | None:
    """Requests the removal of an unused leftover. Returns the error with which the provider refused, or None."""
    try:
        provider.remove_leftover(leftover)
    except ProviderError as error:
        log.warning("leftover stays", kind=leftover.kind, id=leftover.id, code=error.code, error=error.message)
        return error
    log.info("leftover removed", kind=leftover.kind, id=leftover.id)
    return None


def _store_obstacles(runtime: Runtime, obstacles: Mapping[str, Collection[str]]) -> None:
    """Leases that have been releasing for a while show their obstacles.

    Right after the end of a VM many resources are still in use.
    """
    patience = min(_OBSTACLE_SECONDS, runtime.settings.release_alarm_seconds)
    for lease_id, causes in obstacles.items():
        statement = release_obstacles.blocked(LeaseId(lease_id), ", ".join(sorted(causes)), after_seconds=patience)
        runtime.database.run(statement)


def _store(
    runtime: Runtime,
    rows: Sequence[Row[Any]],
    vms: Mapping[str, Vm | None],
    ready: frozenset[str],
    clean: frozenset[str],
) -> None:
    observed = inventory.ObservationBatch()
    for row in rows:
        vm = vms.get(row.instance_id)
        if vm is not None:
            _observe(observed, row, vm, ready=row.instance_id in ready, clean=row.id in clean)
        elif row.id in clean:
            observed.add(row.id, VmState.GONE, at=None, clean=True)
        elif row.instance_id in vms and row.terminate_sent_at is not None and row.vm_state in _SEEN:
            # Some clouds forget a VM at once. Then the second query need not wait for a listing.
            observed.add(row.id, VmState.ABSENT, at=_ran_until(row))
    seen = observed.attempts
    if seen:
        _write(runtime, {row.lease_id for row in rows if row.id in seen}, observed)


def _ran_until(row: Row[Any]) -> datetime | None:
    """Until when a VM that is gone counts as running: see `app.domain.billing.ran_until`.

    A later accepted termination proves nothing: providers also accept the termination of a VM that is already gone.
    """
    return ran_until(
        max(row.vm_state_at, row.listed_at or row.vm_state_at),
        deadline=row.deadline_applied,
        term_in_doubt=row.term_in_doubt,
        market=row.market,
        terminate_sent_at=row.terminate_sent_at,
        looked_at=row.now,
    )


def _observe(observed: inventory.ObservationBatch, row: Row[Any], vm: Vm, *, ready: bool, clean: bool) -> None:
    public, private = vm.public_ip or row.public_ip, vm.private_ip or row.private_ip
    before = (row.vm_state, row.public_ip, row.private_ip, row.ready, row.clean)
    after = (vm.state, public, private, row.ready or ready, row.clean or clean)
    if before == after:
        return
    observed.add(
        row.id,
        vm.state,
        at=vm.ended_at or (_ran_until(row) if vm.state is VmState.GONE else row.now),
        reason=reason_json(vm, row.now),
        addresses=(public, private),
        ready=ready,
        clean=clean,
    )


def _store_clean_ends(runtime: Runtime, rows: Sequence[Row[Any]], clean: frozenset[str]) -> None:
    ended = [row for row in rows if row.state != AttemptState.KNOWN and row.id in clean]
    if ended:
        with runtime.database.begin() as connection:
            connection.execute(*locked({row.lease_id for row in ended}))
            lease_ids = list(connection.execute(*attempts.cleaned([row.id for row in ended])).scalars())
            connection.execute(*inventory.wake(lease_ids))


def _write(runtime: Runtime, about: Iterable[str], observed: inventory.ObservationBatch) -> None:
    with runtime.database.begin() as connection:
        connection.execute(*locked(about))
        lease_ids = list(connection.execute(*observed.statement()).scalars())
        connection.execute(*inventory.wake(lease_ids))
    runtime.nudge.set()
