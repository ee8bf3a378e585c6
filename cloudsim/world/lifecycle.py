"""When a VM changes by itself, and into what. Pure: the world asks, then acts."""

from __future__ import annotations

from enum import Enum, auto

from cloudsim.settings import Settings
from cloudsim.world.entities import Vm, VmState

RUNNING_SHARE = 0.25
"""Part of the boot time after which a VM shows `running`."""


class Step(Enum):
    """What is due for a VM."""

    LEAVE_QUEUE = auto()
    RUN = auto()
    FAIL_BOOT = auto()
    RECLAIM = auto()
    TERMINATE = auto()
    CLEAN = auto()
    UNLIST = auto()
    FORGET = auto()


def _due_alive(vm: Vm, settings: Settings) -> tuple[float, Step] | None:
    if vm.state is VmState.SHUTTING_DOWN:
        return (vm.ending_at or vm.launched_at) + settings.shutdown_seconds, Step.TERMINATE
    changes = []
    if vm.queued_until is not None:
        changes.append((vm.queued_until, Step.LEAVE_QUEUE))
    if vm.state is VmState.PENDING:
        changes.append((vm.running_at, Step.RUN if vm.boot_failure is None else Step.FAIL_BOOT))
    if vm.reclaim_at is not None:
        changes.append((vm.reclaim_at, Step.RECLAIM))
    return min(changes, key=lambda change: change[0], default=None)


def _due_ended(vm: Vm, settings: Settings, *, listed: bool) -> tuple[float, Step]:
    ended_at = vm.ended_at or vm.launched_at
    if not vm.cleaned:
        return ended_at + settings.cleanup_seconds, Step.CLEAN
    if listed:
        return ended_at + settings.terminated_visible_seconds, Step.UNLIST
    return ended_at + max(settings.history_seconds, settings.terminated_visible_seconds), Step.FORGET


def due(vm: Vm, settings: Settings, *, listed: bool) -> tuple[float, Step] | None:
    """The next change of `vm` and its time, None when it stays as it is."""
    if vm.alive:
        return _due_alive(vm, settings)
    return _due_ended(vm, settings, listed=listed)
