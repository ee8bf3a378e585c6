"""Reports of host keys: what the program in the user data of a VM does at its first boot, done for the VM by cloudsim."""

from __future__ import annotations

import asyncio

import httpx

from cloudsim.host_keys import public_line
from cloudsim.ready_vms import ReadyVms
from cloudsim.ssh.guest import guest
from cloudsim.world import Vm, World

_LOOK_SECONDS = 0.25
_TRIES = 5
_PAUSE_SECONDS = 3.0
_CALL_SECONDS = 10.0
_AT_ONCE = 8


class HostKeyReports:
    """Reports the host key of each new VM once it is ready. VMs of an earlier run have reported."""

    def __init__(self, world: World) -> None:
        self._ready = ReadyVms(world, max((vm.seq for vm in world.vms.values()), default=0))
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def report(self) -> None:
        """Looks for new VMs until it is cancelled."""
        async with httpx.AsyncClient(timeout=_CALL_SECONDS, trust_env=False) as http, asyncio.TaskGroup() as sending:
            while True:
                for vm in self._ready.new():
                    sending.create_task(self._send(http, vm))
                await asyncio.sleep(_LOOK_SECONDS)

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
