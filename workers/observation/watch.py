"""The watch: bulk observation of changing VMs: those that start, boot, end, or were lost. One get per hundred VMs.

The watch writes facts and wakes leases. The reconciler decides. A VM that runs and has its addresses is read every few
seconds; each pass asks only whether it is ready.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app.db.fleet import inventory
from app.db.leases import attempts
from app.db.leases.transitions import locked
from app.domain.leases import AttemptState, VmState
from workers.observation.attempt_leftovers import AttemptLeftovers, remove_leftovers, store_obstacles
from workers.observation.slot_labels import unlabelled
from workers.observation.vm_reasons import reason_json
from workers.providers.errors import ProviderError, Throttled
from workers.providers.interfaces import Provider
from workers.providers.types import Vm
from workers.runtime import Runtime

_SEEN = frozenset({VmState.RUNNING, VmState.ENDING, VmState.STOPPED})
"""States that an observation after the launch's own answer has reported."""

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
    steady = _steady(runtime, known)
    errors = _Errors()
    vms: Mapping[str, Vm | None] = {}
    leftovers = AttemptLeftovers()
    with errors.kept():
        asked = [row.instance_id for row in known if row.instance_id not in steady]
        vms = provider.get(region, asked) if asked else {}
    seen = not errors.first
    with errors.kept():
        leftovers = remove_leftovers(runtime, provider, region, rows, _in_state(vms, VmState.GONE))
    _store(runtime, known, vms, frozenset(), leftovers.clean)
    running = _in_state(vms, VmState.RUNNING)
    runtime.steady.read(running)
    for portion in _portions(_booting(runtime, provider, known, running | steady), provider.limits.readiness):
        with errors.kept() as caught:
            ready = provider.ready(region, [row.instance_id for row in portion])
            _store(runtime, [row for row in portion if row.instance_id in ready], vms, ready, leftovers.clean)
        if any(isinstance(error, Throttled) or not error.answered for error in caught):
            break
    if seen:
        runtime.database.run(inventory.watched(account, region, rows[0].now))
    _store_clean_ends(runtime, rows, leftovers.clean)
    runtime.unlabelled.note(account, region, unlabelled(vm for vm in vms.values() if vm is not None))
    store_obstacles(runtime, leftovers.obstacles)
    for error in (*errors.first, *leftovers.throttled):
        raise error
    return len(rows)


class _Errors:
    """The first ProviderError of several independent queries."""

    def __init__(self) -> None:
        self.first: list[ProviderError] = []

    @contextmanager
    def kept(self) -> Iterator[list[ProviderError]]:
        """A ProviderError inside the block ends only the block, and is in the list afterwards."""
        caught: list[ProviderError] = []
        try:
            yield caught
        except ProviderError as error:
            caught.append(error)
            if not self.first:
                self.first.append(error)


def _steady(runtime: Runtime, rows: Sequence[Row[Any]]) -> frozenset[str]:
    """The VMs that need no look of their own: they ran a moment ago, nobody ends them, and their addresses are stored."""
    recent = runtime.steady.recent()
    return frozenset(
        row.instance_id
        for row in rows
        if row.instance_id in recent
        and row.vm_state == VmState.RUNNING
        and row.public_ip is not None
        and row.private_ip is not None
        and row.lease_state != "releasing"
        and row.terminate_sent_at is None
    )


def _in_state(vms: Mapping[str, Vm | None], state: VmState) -> frozenset[str]:
    return frozenset(vm_id for vm_id, vm in vms.items() if vm is not None and vm.state is state)


def _booting(
    runtime: Runtime, provider: Provider, rows: Sequence[Row[Any]], running: Collection[str]
) -> list[Row[Any]]:
    """The attempts whose VMs may have become ready."""
    each_alone = provider.limits.readiness == 1
    patience = timedelta(seconds=min(_REPORT_SECONDS, _REPORT_SHARE * runtime.timing.boot_timeout))
    return [
        row
        for row in rows
        if not row.ready
        and row.lease_state != "releasing"
        and row.instance_id in running
        and not (each_alone and _boots_still(row, patience))
    ]


def _boots_still(row: Row[Any], patience: timedelta) -> bool:
    """Whether the VM has just started and owes its host keys, which it reports early in its boot. It needs no call yet."""
    is_new = row.vm_state != VmState.RUNNING or row.now < row.vm_state_at + patience
    return bool(row.owes_host_keys) and is_new


def _portions(rows: Sequence[Row[Any]], at_once: int) -> Iterator[Sequence[Row[Any]]]:
    size = max(_ASKED_AT_ONCE, at_once)
    return (rows[start : start + size] for start in range(0, len(rows), size))


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
        elif row.instance_id in ready:
            observed.add(row.id, VmState.RUNNING, at=row.now, addresses=(row.public_ip, row.private_ip), ready=True)
        elif row.id in clean:
            observed.add(row.id, VmState.GONE, at=None, clean=True)
        elif row.instance_id in vms and row.terminate_sent_at is not None and row.vm_state in _SEEN:
            # Some clouds forget a VM at once. Then the second query need not wait for a listing.
            observed.add(row.id, VmState.ABSENT, at=_last_seen(row))
    seen = observed.attempts
    if seen:
        _write(runtime, {row.lease_id for row in rows if row.id in seen}, observed)


def _last_seen(row: Row[Any]) -> datetime:
    """When the VM was last observed alive.

    A later accepted termination proves nothing: providers also accept the termination of a VM that is already gone.
    """
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
            lease_ids = list(connection.execute(attempts.cleaned([row.id for row in ended])).scalars())
            connection.execute(inventory.wake(lease_ids))


def _write(runtime: Runtime, about: Iterable[str], observed: inventory.Observed) -> None:
    with runtime.database.begin() as connection:
        connection.execute(*locked(about))
        lease_ids = list(connection.execute(observed.statement()).scalars())
        connection.execute(inventory.wake(lease_ids))
    runtime.nudge.set()
