"""Reports of host keys: what the program in the user data of a VM does at its first boot, done for the VM by cloudsim."""

from __future__ import annotations

import asyncio

import httpx

from cloudsim.ssh.guest import guest
from cloudsim.ssh.host_keys import public_line
from cloudsim.world import Vm, World

_LOOK_SECONDS = 0.25
_TRIES = 5
_PAUSE_SECONDS = 3.0
_CALL_SECONDS = 10.0
_AT_ONCE = 8


class HostKeyReports:
    """Reports the host key of each new VM once it is ready. `seen`: the last VM of an earlier run, which has reported."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = max((vm.seq for vm in world.vms.values()), default=0)
        self._waiting: dict[str, Vm] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def report(self) -> None:
        """Looks for new VMs until it is cancelled."""
        async with httpx.AsyncClient(timeout=_CALL_SECONDS, trust_env=False) as http, asyncio.TaskGroup() as sending:
            while True:
                for vm in self._due():
                    sending.create_task(self._send(http, vm))
                await asyncio.sleep(_LOOK_SECONDS)

    def _due(self) -> list[Vm]:
        """The VMs that have become ready. VMs are in the order of their launches."""
        newest = next(reversed(self._world.vms.values()), None)
        if newest is None or newest.seq < self._seen:
            self._seen, self._waiting = 0, {}  # the world was reset
        for vm in reversed(self._world.vms.values()):
            if vm.seq <= self._seen:
                break
            self._waiting[vm.id] = vm
        self._seen = max((vm.seq for vm in self._waiting.values()), default=self._seen)
        now = self._world.advance() if self._waiting else 0.0
        due = [vm for vm in self._waiting.values() if vm.is_ready(now)]
        self._waiting = {vm.id: vm for vm in self._waiting.values() if vm.alive and not vm.is_ready(now)}
        return due

    async def _send(self, http: httpx.AsyncClient, vm: Vm) -> None:
        target = guest(vm).report
        if target is None or vm.public_ip is None:
            return
        url, token = target
        body = {"keys": [public_line(vm.public_ip)]}
        async with self._limit:
            for _ in range(_TRIES):
                try:
                    answer = await http.post(url, json=body, headers={"Authorization": f"Bearer {token}"})
                except (httpx.HTTPError, httpx.InvalidURL):
                    answer = None
                if not vm.alive or (answer is not None and not answer.is_server_error):
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
