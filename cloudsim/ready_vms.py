"""VMs that have become ready since the last look, for what cloudsim does in their place."""

from __future__ import annotations

from cloudsim.world import Vm, World


class ReadyVms:
    """`seen`: the last VM that is left out, by `Vm.seq`."""

    def __init__(self, world: World, seen: int = 0) -> None:
        self._world = world
        self._seen = seen
        self._waiting: dict[str, Vm] = {}

    def new(self) -> list[Vm]:
        """Each VM once, after it has become ready. VMs are in the order of their launches."""
        newest = next(reversed(self._world.vms.values()), None)
        if newest is None or newest.seq < self._seen:
            self._seen, self._waiting = 0, {}  # the world was reset
        for vm in reversed(self._world.vms.values()):
            if vm.seq <= self._seen:
                break
            self._waiting[vm.id] = vm
        self._seen = max((vm.seq for vm in self._waiting.values()), default=self._seen)
        now = self._world.advance() if self._waiting else 0.0
        ready = [vm for vm in self._waiting.values() if vm.is_ready(now)]
        self._waiting = {vm.id: vm for vm in self._waiting.values() if vm.alive and not vm.is_ready(now)}
        return ready
