"""The bulk look at VMs in change: those that start, boot, end, or were lost. One get per hundred VMs, not per lease.

It writes facts and wakes leases; deciding is the reconciler's.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Row

from app.db import attempts, inventory
from app.db.transitions import locked
from app.domain.leases import AttemptState, VmState
from app.domain.tags import ATTEMPT, LEASE
from workers.observing import reason_json
from workers.providers.base import Leftover, OutcomeUnknown, Provider, Vm
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_SEEN = frozenset({VmState.RUNNING, VmState.ENDING, VmState.STOPPED})
"""States that somebody has seen since the launch itself answered."""


def watch(runtime: Runtime, account: str, region: str) -> int:
    """Looks at the VMs in change of one account and region. Answers how many there were. Raises ProviderError."""
    rows = runtime.database.all(attempts.watched(account, region))
    if not rows:
        return 0
    provider = runtime.accounts.provider(account)
    known = [row for row in rows if row.state == AttemptState.KNOWN]
    vms = provider.get(region, [row.instance_id for row in known]) if known else {}
    ready: frozenset[str] = frozenset()
    clean: frozenset[str] = frozenset()
    try:
        ready = _ready(provider, region, known, vms)
        clean = _clean(runtime, provider, region, rows, vms)
    finally:
        # what was seen counts, also where the questions that follow fail: from here on time-outs may be judged by it
        _store(runtime, known, vms, ready, clean)
        runtime.database.run(inventory.watched(account, region, rows[0].now))
    _store_clean_ends(runtime, rows, clean)
    return len(rows)


def _ready(provider: Provider, region: str, rows: Sequence[Row[Any]], vms: Mapping[str, Vm | None]) -> frozenset[str]:
    booting = [
        row.instance_id
        for row in rows
        if not row.ready and row.lease_state != "releasing" and _state(vms.get(row.instance_id)) is VmState.RUNNING
    ]
    return provider.ready(region, booting) if booting else frozenset()


def _state(vm: Vm | None) -> VmState | None:
    return vm.state if vm is not None else None


def _clean(
    runtime: Runtime, provider: Provider, region: str, rows: Sequence[Row[Any]], vms: Mapping[str, Vm | None]
) -> frozenset[str]:
    """Ids of the attempts that are over and of which nothing is left; removes what is left of the others."""
    over = [row for row in rows if not row.clean and _is_over(row, vms)]
    if not over:
        return frozenset()
    keys = {(row.lease_id, str(row.n)): row.id for row in over}
    dirty = set()
    for leftover in provider.leftovers(region, runtime.installation.id, sorted({row.lease_id for row in over})):
        attempt_id = keys.get((leftover.tags.get(LEASE, ""), leftover.tags.get(ATTEMPT, "")))
        if attempt_id is not None:
            remove(provider, leftover)
            if not leftover.free:
                dirty.add(attempt_id)
    return frozenset(keys.values()) - dirty


def _is_over(row: Row[Any], vms: Mapping[str, Vm | None]) -> bool:
    if row.state != AttemptState.KNOWN or row.vm_state == VmState.GONE:
        return True
    return _state(vms.get(row.instance_id)) is VmState.GONE


def remove(provider: Provider, leftover: Leftover) -> bool:
    """Removes what nothing uses. False: it stays for now. Raises ProviderError when the provider refuses altogether."""
    if leftover.in_use:
        return False
    try:
        provider.remove_leftover(leftover)
    except OutcomeUnknown as error:
        log.warning("leftover stays", kind=leftover.kind, id=leftover.id, code=error.code, error=error.message)
        return False
    log.info("leftover removed", kind=leftover.kind, id=leftover.id)
    return True


def _store(
    runtime: Runtime,
    rows: Sequence[Row[Any]],
    vms: Mapping[str, Vm | None],
    ready: frozenset[str],
    clean: frozenset[str],
) -> None:
    observed = inventory.Observed()
    for row in rows:
        vm = vms.get(row.instance_id)
        if vm is not None:
            _observe(observed, row, vm, ready=row.instance_id in ready, clean=row.id in clean)
        elif row.id in clean:
            observed.add(row.id, VmState.GONE, at=None, clean=True)
        elif row.instance_id in vms and row.terminate_sent_at is not None and row.vm_state in _SEEN:
            # a cloud that forgets at once: no listing need be waited for to ask a second time
            observed.add(row.id, VmState.ABSENT, at=_last_seen(row))
    seen = observed.attempts
    if seen:
        _write(runtime, {row.lease_id for row in rows if row.id in seen}, observed)


def _last_seen(row: Row[Any]) -> datetime:
    """When the VM was last observed alive. That its end was accepted later proves nothing: one already gone is accepted too."""
    seen_at: datetime = row.vm_state_at
    return max(seen_at, row.listed_at or seen_at)


def _observe(observed: inventory.Observed, row: Row[Any], vm: Vm, *, ready: bool, clean: bool) -> None:
    public, private = vm.public_ip or row.public_ip, vm.private_ip or row.private_ip
    before = (row.vm_state, row.public_ip, row.private_ip, row.ready, row.clean)
    after = (vm.state, public, private, row.ready or ready, row.clean or clean)
    if before == after:
        return
    observed.add(
        row.id,
        vm.state,
        at=vm.ended_at or (_last_seen(row) if vm.state is VmState.GONE else row.now),
        reason=reason_json(vm),
        addresses=(public, private),
        ready=ready,
        clean=clean,
    )


def _store_clean_ends(runtime: Runtime, rows: Sequence[Row[Any]], clean: frozenset[str]) -> None:
    ended = [row for row in rows if row.state != AttemptState.KNOWN and row.id in clean]
    if ended:
        with runtime.database.begin() as connection:
            connection.execute(*locked({row.lease_id for row in ended}))
            lease_ids = list(connection.execute(attempts.cleaned([row.id for row in ended])).scalars())
            connection.execute(inventory.wake(lease_ids))


def _write(runtime: Runtime, about: Iterable[str], observed: inventory.Observed) -> None:
    with runtime.database.begin() as connection:
        connection.execute(*locked(about))
        lease_ids = list(connection.execute(observed.statement()).scalars())
        connection.execute(inventory.wake(lease_ids))
    runtime.nudge.set()
