"""The control endpoints of disks that outlive VMs: their history, and their deletion by somebody."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cloudsim.control import models, views
from cloudsim.control.reading import guarded, read
from cloudsim.world import World, WorldError


class DisksApi:
    """Endpoints over one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """`/_sim/disks`."""
        return [
            Route("/_sim/disks", guarded(self.disks), methods=["GET"]),
            Route("/_sim/disks/delete", guarded(self.delete), methods=["POST"]),
        ]

    async def disks(self, _request: Request) -> Response:
        """Ground truth. Deleted disks are forgotten after a while, as ended VMs are."""
        self._world.advance()
        return JSONResponse({"items": [views.disk(disk) for disk in self._world.disks]})

    async def delete(self, request: Request) -> Response:
        """Somebody deletes a disk behind our back."""
        body = await read(request, models.DiskBody)
        self._world.advance()
        existing = (disk for disk in self._world.disks if self._world.resources.get(disk.id) is disk)
        disk = next((disk for disk in existing if (disk.provider, disk.id) == (body.provider, body.id)), None)
        if disk is None:
            raise WorldError(f"{body.provider} has no disk {body.id}")
        if disk.vm_id is not None:
            raise WorldError(f"{disk.id} is attached to {disk.vm_id}")
        self._world.remove_resource(disk.id)
        return JSONResponse(views.disk(disk))
