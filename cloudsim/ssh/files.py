"""The control endpoints by which a program in a VM reads and writes files, as over SSH."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cloudsim.control import models, places
from cloudsim.control.reading import guarded, read
from cloudsim.ssh.mounts import Mounts
from cloudsim.world import VmState, World, WorldError

_PATH = "/_sim/files"


class FilesApi:
    """Endpoints over one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """`/_sim/files`."""
        return [
            Route(_PATH, guarded(self.read), methods=["GET"]),
            Route(_PATH, guarded(self.write), methods=["PUT"]),
        ]

    async def read(self, request: Request) -> Response:
        """Query: provider, instance_id, path. `text` null: there is no such file."""
        query = request.query_params
        mounts = self._mounts(query.get("provider", ""), query.get("instance_id", ""))
        return JSONResponse({"text": mounts.read(query.get("path", ""))})

    async def write(self, request: Request) -> Response:
        """`written` false: the path is on no volume."""
        body = await read(request, models.FileBody)
        written = self._mounts(body.provider, body.instance_id).write(body.path, body.text)
        return JSONResponse({"written": written})

    def _mounts(self, provider: str, vm_id: str) -> Mounts:
        self._world.advance()
        vm = places.vm(self._world, provider, vm_id)
        if vm.state is not VmState.RUNNING:
            raise WorldError(f"{vm.id} is {vm.state}: nothing runs in it")
        return Mounts(self._world, vm)
