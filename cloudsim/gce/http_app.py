"""`/compute/v1/projects/…` and the price list: reads one request, lets it through the gate, does the work, writes the answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from cloudsim.admission import DroppedConnection, Gate
from cloudsim.gce.call import Call, RenderCache, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.credentials import caller, token
from cloudsim.gce.errors import FRONT_END, THROTTLED, TROUBLE, GceError, is_operation_code, not_found
from cloudsim.gce.names import Names
from cloudsim.gce.permissions import check
from cloudsim.gce.table import OPERATIONS, OTHERS, Operation
from cloudsim.world import FaultMode, World
from cloudsim.world.faults import TOKEN

_LAUNCHES = frozenset({"instances.insert", "instances.bulkInsert"})
ROOT = "/compute/v1/projects/{project}"


class GceFront:
    """All projects and zones. `bad` returns the service accounts that are refused."""

    def __init__(self, world: World, gate: Gate, bad: Callable[[], Collection[str]]) -> None:
        self.world = world
        self._gate = gate
        self._bad = bad
        self._names = Names(world)
        self._cache = RenderCache()

    def routes(self) -> list[Route]:
        """One for each operation, and the token endpoint."""
        table = [
            Route(ROOT + operation.path, self._endpoint(operation), methods=[operation.method])
            for operation in OPERATIONS
        ]
        others = [Route(operation.path, self._endpoint(operation), methods=[operation.method]) for operation in OTHERS]
        return [Route("/gce/token", self._token, methods=["POST"]), *table, *others]

    def _endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return await self._answer(request, operation)
            except GceError as error:
                if error.page is not None:
                    return HTMLResponse(error.page, status_code=error.status)
                return JSONResponse(error.body(), status_code=error.status)

        return endpoint

    async def _token(self, request: Request) -> Response:
        """The token endpoint, which faults meet as operation `token`."""
        verdict = await self._gate.admit(request, PROVIDER, TOKEN, "")
        if verdict.fault is not None:
            return JSONResponse({"error": verdict.fault.code or "internal_failure"}, status_code=500)
        answer = await token(request)
        return DroppedConnection() if verdict.drop_before or verdict.drop_after else answer

    async def _answer(self, request: Request, operation: Operation) -> Response:
        body = await request.body()
        zone, region = self._place(request)
        who = caller(request.headers.get("authorization"), self._bad())
        verdict = await self._gate.admit(request, PROVIDER, operation.name, self._stricken(zone, region))
        if verdict.drop_before:
            return DroppedConnection()
        code = None
        if verdict.fault is not None:
            code = self._operation_code(operation, verdict.fault.mode, verdict.fault.code)
        call = Call(
            world=self.world,
            names=self._names,
            cache=self._cache,
            caller=who,
            project=request.path_params.get("project", ""),
            zone=zone,
            region=region,
            path=request.path_params,
            query=request.query_params,
            body=_read(body),
            fault=code,
            change=verdict.change,
        )
        answer = JSONResponse(self._work(operation, call))
        return DroppedConnection() if verdict.drop_after else answer

    def _place(self, request: Request) -> tuple[str, str]:
        """(zone, region) of the path. Raises GceError notFound for a zone that does not exist."""
        zone = request.path_params.get("zone", "")
        region = self.world.catalogs[PROVIDER].region_of(zone) if zone else request.path_params.get("region", "")
        if region is None:
            raise not_found(f"projects/{request.path_params['project']}/zones/{zone}")
        return zone, region

    def _stricken(self, zone: str, region: str) -> str:
        """The place that a fault may name: the zone itself when one does."""
        return zone if any(fault.region == zone for fault in self.world.faults) else region

    def _work(self, operation: Operation, call: Call) -> Result:
        now = self.world.advance()
        if self.world.settings.rate_limits:
            bucket, rate = operation.bucket
            if not self.world.buckets.take((PROVIDER, call.project, call.region, bucket), rate, now):
                raise GceError(THROTTLED, "Rate Limit Exceeded")
        check(call, operation.name)
        return operation.handler(call)

    @staticmethod
    def _operation_code(operation: Operation, mode: FaultMode, code: str | None) -> str | None:
        """The code to end the operation with. Raises GceError for a fault of the HTTP answer."""
        if mode is FaultMode.THROTTLE:
            raise GceError(code or THROTTLED, "Rate Limit Exceeded")
        is_late = code is not None and is_operation_code(code) and not code.startswith(FRONT_END)
        if operation.name in _LAUNCHES and code is not None and is_late:
            return code
        raise GceError(code or TROUBLE, "A fault was put upon this call by the simulator.")


def _read(body: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(body or b"{}")
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise GceError("badRequest", "Invalid JSON payload received.")
    return decoded
