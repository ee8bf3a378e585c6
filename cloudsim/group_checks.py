"""What the group's program in the user data of a VM does, done for the VM by cloudsim.

It asks the API for the members of its group, and reports which of them it reaches. Here a member is reached once its VM
is ready: no firewall stands between simulated VMs. They have no GPUs for an all-reduce either.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from typing import Any

import httpx

from cloudsim.ready_vms import ReadyVms
from cloudsim.user_data import files, is_near
from cloudsim.world import Vm, VmState, World

CONFIG = "/etc/gpulease/group.json"
PROGRAM = "/usr/local/sbin/gpulease-group"
_LOOK_SECONDS = 0.25
_CALL_SECONDS = 10.0
_AT_ONCE = 8
_PAUSES = (0.8, 1.2)
"""Of the seconds between two questions: VMs of one launch do not all ask at once."""


@dataclass(eq=False, slots=True)
class _Member:
    """The program of one VM. `ask_at`: when it asks next. `reported`: what it has sent to the API. `began`: its first check."""

    vm: Vm
    config: dict[str, Any]
    ask_at: float = 0.0
    began: float | None = None
    reported: dict[str, Any] | None = None


class GroupChecks:
    """Runs over a world until it is cancelled. The VMs of an earlier run check their groups again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ready = ReadyVms(world)
        self._members: dict[str, _Member] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Asks and reports for each VM that is ready."""
        async with httpx.AsyncClient(timeout=_CALL_SECONDS, trust_env=False) as http, asyncio.TaskGroup() as asking:
            while True:
                for member in self._due():
                    asking.create_task(self._check(member, http))
                await asyncio.sleep(_LOOK_SECONDS)

    def _due(self) -> list[_Member]:
        members = {vm.id: _member(vm) for vm in self._ready.new()}
        self._members |= {vm_id: member for vm_id, member in members.items() if member is not None}
        self._members = {vm_id: member for vm_id, member in self._members.items() if self._runs(member.vm)}
        now = self._world.clock()
        due = [member for member in self._members.values() if member.ask_at <= now]
        for member in due:
            seconds = float(member.config["fast_seconds" if member.reported is None else "slow_seconds"])
            member.ask_at = now + seconds * random.uniform(*_PAUSES)  # noqa: S311 - a pause, no secret
        return due

    def _runs(self, vm: Vm) -> bool:
        return vm.state is VmState.RUNNING and self._world.vms.get(vm.id) is vm

    async def _check(self, member: _Member, http: httpx.AsyncClient) -> None:
        headers = {"Authorization": f"Bearer {member.config['token']}"}
        url = member.config["url"]
        async with self._limit:
            try:
                answer = await http.get(url, headers=headers)
                group = answer.raise_for_status().json()
                report = self._report(member, group) if group["complete"] and group["rank"] is not None else None
                if report is not None and report != member.reported:
                    (await http.post(url, json=report, headers=headers)).raise_for_status()
                    member.reported = report
            except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
                return  # asks again later, as the program does

    def _report(self, member: _Member, group: dict[str, Any]) -> dict[str, Any] | None:
        """None: a member is not reached yet, and may be soon."""
        now = self._world.clock()
        member.began = member.began or now
        reached = {other.vm.private_ip for other in self._members.values() if self._runs(other.vm)}
        lost = [host["rank"] for host in group["hosts"] if host["private_ip"] not in reached]
        if lost and member.reported is None and now < member.began + member.config["mesh_seconds"]:
            return None
        return {
            "nodes": len(group["hosts"]),
            "mesh": "failed" if lost else "ok",
            "unreachable": lost,
            "all_reduce": "unavailable" if member.config.get("all_reduce") else None,
            "all_reduce_gbps": None,
        }


def _member(vm: Vm) -> _Member | None:
    """None for a VM without a group, and where its reports would leave this machine."""
    try:
        vm_files = files(vm)
        config = json.loads(vm_files[CONFIG])
        complete = (
            PROGRAM in vm_files and {"url", "token", "fast_seconds", "slow_seconds", "mesh_seconds"} <= config.keys()
        )
        return _Member(vm, config) if complete and is_near(config) else None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
