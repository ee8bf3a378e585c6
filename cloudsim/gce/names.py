"""Which VM has which name: unique among the living of a project and zone."""

from __future__ import annotations

from cloudsim.gce.catalog import PROVIDER
from cloudsim.world import Vm, World


class Names:
    """An index that follows the world: it reads on from the newest VM that it knows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._vms: dict[str, Vm] = {}
        self._ids: dict[tuple[str, str, str], str] = {}
        self._newest = 0

    def find(self, project: str, zone: str, name_or_number: str) -> Vm | None:
        """The newest VM of that name, ended ones included, or the one with that number."""
        self._read_on()
        by_name = self._ids.get((project, zone, name_or_number))
        vm = self._world.vms.get(by_name or name_or_number)
        if vm is None or (vm.provider, vm.account, vm.zone) != (PROVIDER, project, zone):
            return None
        return vm

    def _read_on(self) -> None:
        if self._vms is not self._world.vms:  # the world started over
            self._vms, self._newest = self._world.vms, 0
            self._ids.clear()
        fresh = []
        for vm in reversed(self._vms.values()):
            if vm.seq <= self._newest:
                break
            fresh.append(vm)
        for vm in reversed(fresh):
            self._newest = vm.seq
            if vm.provider == PROVIDER:
                self._ids[vm.account, vm.zone, vm.name] = vm.id
