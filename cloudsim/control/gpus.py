"""The control endpoint that breaks GPUs, and the agents that report them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cloudsim.control import models, places
from cloudsim.control.reading import guarded, read
from cloudsim.world import GpuCondition, World, WorldError


class GpusApi:
    """One endpoint over one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """`/_sim/gpus`."""
        return [Route("/_sim/gpus", guarded(self.gpus), methods=["PUT"])]

    async def gpus(self, request: Request) -> Response:
        """Set the condition of the GPUs of one VM, or of VMs launched from now on."""
        body = await read(request, models.GpusBody)
        machines = places.catalog(self._world, body.provider).machines
        places.check("instance type", body.instance_type, machines)
        condition = GpuCondition(**body.model_dump(exclude={"provider", "instance_id", "instance_type"}))
        if body.instance_id is None:
            types = machines.values() if body.instance_type is None else (machines[body.instance_type],)
            _check_count(body, max(machine.gpu.count for machine in types))
            self._world.gpus.put(body.provider, body.instance_type, condition)
            self._world.touch_facts()
        elif body.instance_type is not None:
            raise WorldError("instance_id and instance_type exclude each other: a VM has one type")
        else:
            self._world.advance()
            vm = places.vm(self._world, body.provider, body.instance_id)
            if not vm.alive:
                raise WorldError(f"{vm.id} is {vm.state}: it has no GPUs any more")
            _check_count(body, machines[vm.instance_type].gpu.count)
            self._world.set_gpus(vm, condition)
        return JSONResponse(body.model_dump(mode="json"))


def _check_count(body: models.GpusBody, count: int) -> None:
    if body.visible is not None and body.visible > count:
        raise WorldError(f"visible is {body.visible}, and the largest such VM has {count} GPUs")
