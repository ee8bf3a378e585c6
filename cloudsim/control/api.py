"""The control endpoints: thin, each one call into the world."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cloudsim.control import models, places, views
from cloudsim.control.clouds import Cloud
from cloudsim.control.reading import Endpoint, guarded, read
from cloudsim.credentials import Credentials
from cloudsim.world import Fault, FaultMode, World, WorldError
from cloudsim.world.faults import ANY_OPERATION, BOOT, TOKEN

PLANTED_AT_ONCE = 500
"""Other calls are served in between."""
_CHANGES = TypeAdapter(dict[str, Any])
_BOOT_MODES = (FaultMode.ERROR, FaultMode.HANG, FaultMode.DELAY)


class ControlApi:
    """Endpoints over one world; `clouds` by provider name, one for each of the world's."""

    def __init__(self, world: World, clouds: Mapping[str, Cloud], credentials: Credentials) -> None:
        self._world = world
        self._clouds = clouds
        self._credentials = credentials

    def routes(self) -> list[Route]:
        """Everything below /_sim."""
        table: list[tuple[str, str, Endpoint]] = [
            ("GET", "/_sim/health", self.health),
            ("GET", "/_sim/instances", self.instances),
            ("POST", "/_sim/instances", self.plant),
            ("GET", "/_sim/launches", self.launches),
            ("GET", "/_sim/resources", self.resources),
            ("PUT", "/_sim/capacity", self.capacity),
            ("PUT", "/_sim/offered", self.offered),
            ("PUT", "/_sim/quota", self.quota),
            ("PUT", "/_sim/reservations", self.reservations),
            ("PUT", "/_sim/spot-prices", self.spot_prices),
            ("POST", "/_sim/forward", self.forward),
            ("PUT", "/_sim/credentials", self.credentials),
            ("GET", "/_sim/settings", self.read_settings),
            ("PUT", "/_sim/settings", self.settings),
            ("GET", "/_sim/faults", self.faults),
            ("POST", "/_sim/faults", self.add_fault),
            ("DELETE", "/_sim/faults", self.clear_faults),
            ("DELETE", "/_sim/faults/{id:int}", self.clear_faults),
            ("POST", "/_sim/interrupt", self.interrupt),
            ("POST", "/_sim/stop", self.stop),
            ("PUT", "/_sim/protection", self.protection),
            ("GET", "/_sim/calls", self.calls),
            ("POST", "/_sim/reset", self.reset),
        ]
        return [Route(path, guarded(endpoint), methods=[method]) for method, path, endpoint in table]

    async def health(self, _request: Request) -> Response:
        """Alive, and how much there is."""
        self._world.advance()
        alive = sum(vm.alive for vm in self._world.vms.values())
        return JSONResponse({"status": "ok", "instances": len(self._world.vms), "alive": alive})

    async def instances(self, request: Request) -> Response:
        """Ground truth. Query: provider, account, region, alive=true|false, id, tag=key:value (repeatable)."""
        now = self._world.advance()
        filters = _QueryFilters(request)
        items = [
            views.vm(vm, now)
            for vm in self._world.vms.values()
            if filters.matches(vm) and filters.alive in (None, vm.alive)
        ]
        return JSONResponse({"items": items})

    async def launches(self, request: Request) -> Response:
        """What VMs were launched with, user data among it. Query as for instances."""
        self._world.advance()
        filters = _QueryFilters(request)
        vms = (vm for vm in self._world.vms.values() if filters.matches(vm) and filters.alive in (None, vm.alive))
        return JSONResponse({"items": [views.launch(vm) for vm in vms]})

    async def plant(self, request: Request) -> Response:
        """VMs that no API call made."""
        body = await read(request, models.PlantBody)
        places.catalog(self._world, body.provider)
        self._world.advance()
        cloud = self._clouds[body.provider]
        account = body.account or cloud.default_account
        ids = []
        for planted in cloud.plant(self._world, body.model_copy(update={"account": account})):
            ids.append(planted)
            if len(ids) % PLANTED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return JSONResponse({"ids": ids}, status_code=201)

    async def resources(self, request: Request) -> Response:
        """Disks, network interfaces, addresses and firewall groups that exist. Query as for instances."""
        self._world.advance()
        filters = _QueryFilters(request)
        items = [views.resource(item) for item in self._world.resources.values() if filters.matches(item)]
        return JSONResponse({"items": items})

    async def capacity(self, request: Request) -> Response:
        """How many VMs can still start where."""
        body = await read(request, models.CapacityBody)
        cells = list(places.cells(self._world, body))
        if not cells:
            raise WorldError("no place matches")
        self._world.capacity.put(cells, body.available)
        self._world.touch_facts()
        return JSONResponse({"places": len(cells)})

    async def offered(self, request: Request) -> Response:
        """Begin or cease to sell a type in a zone."""
        body = await read(request, models.OfferedBody)
        facts = places.catalog(self._world, body.provider)
        places.check("zone", body.zone, facts.zones)
        places.check("instance type", body.instance_type, facts.machines)
        sold = self._world.offered[body.provider]
        (sold.add if body.offered else sold.discard)((body.zone, body.instance_type))
        self._world.touch_facts()
        return JSONResponse(body.model_dump())

    async def quota(self, request: Request) -> Response:
        """Set one vCPU quota, in one region or in all."""
        body = await read(request, models.QuotaBody)
        facts = places.catalog(self._world, body.provider)
        places.check("region", body.region, facts.regions)
        cloud = self._clouds[body.provider]
        places.check("quota", body.code, cloud.quotas)
        account = body.account or cloud.default_account
        for region in [body.region] if body.region else facts.regions:
            key = (body.provider, account, region, body.code)
            if body.value is None:
                self._world.quotas.limits.pop(key, None)
            else:
                self._world.quotas.limits[key] = body.value
        self._world.touch_facts()
        return JSONResponse(body.model_dump() | {"account": account})

    async def reservations(self, request: Request) -> Response:
        """Buy capacity ahead, or change what was bought."""
        body = await read(request, models.ReservationBody)
        places.catalog(self._world, body.provider)
        account = body.account or self._clouds[body.provider].default_account
        self._world.advance()
        reservation = places.reservation(self._world, body, account)
        self._world.reservations[reservation.key] = reservation
        self._world.touch_facts()
        return JSONResponse(body.model_dump() | {"account": account})

    async def spot_prices(self, request: Request) -> Response:
        """Move the spot prices of a provider."""
        body = await read(request, models.SpotPricesBody)
        facts = places.catalog(self._world, body.provider)
        places.check("region", body.region, facts.regions)
        for region in [body.region] if body.region else facts.regions:
            self._world.spot_factors[body.provider, region] = body.factor
        self._world.touch_facts()
        return JSONResponse(body.model_dump(mode="json"))

    async def forward(self, request: Request) -> Response:
        """Move the time of all clouds forward. What is due meanwhile happens at once."""
        body = await read(request, models.ForwardBody)
        self._world.ahead += body.seconds
        return JSONResponse({"now": self._world.advance()})

    async def credentials(self, request: Request) -> Response:
        """Which access keys are refused, and whose the others are."""
        body = await read(request, models.CredentialsBody)
        if body.bad is not None:
            self._credentials.bad = frozenset(body.bad)
        if body.accounts is not None:
            self._credentials.accounts = body.accounts
        self._world.touch_facts()
        return JSONResponse({"bad": sorted(self._credentials.bad), "accounts": dict(self._credentials.accounts)})

    async def read_settings(self, _request: Request) -> Response:
        """Settings in force."""
        return JSONResponse(self._world.settings.model_dump())

    async def settings(self, request: Request) -> Response:
        """Change the settings that are given."""
        changes = _CHANGES.validate_json(await request.body())
        self._world.advance()
        self._world.apply_settings(self._world.settings.changed(**changes))
        return JSONResponse(self._world.settings.model_dump())

    async def faults(self, _request: Request) -> Response:
        """Faults that still stand."""
        return JSONResponse({"items": [views.fault(fault) for fault in self._world.faults]})

    async def add_fault(self, request: Request) -> Response:
        """Put a fault upon an operation."""
        body = await read(request, models.FaultBody)
        facts = places.catalog(self._world, body.provider)
        places.check("region or zone", body.region, {*facts.regions, *facts.zones})
        known = {*self._clouds[body.provider].operations, ANY_OPERATION, BOOT, TOKEN}
        places.check("operation", body.operation, known)
        if body.operation == BOOT and body.mode not in _BOOT_MODES:
            raise WorldError(f"a boot knows no {body.mode}")
        if body.mode is FaultMode.DELAY and body.delay_seconds is None:
            raise WorldError("delay needs delay_seconds")
        fault = Fault(id=self._world.faults.next_id(), **body.model_dump())
        self._world.faults.put(fault)
        self._world.touch_facts()
        return JSONResponse(views.fault(fault), status_code=201)

    async def clear_faults(self, request: Request) -> Response:
        """Forget one fault, or all."""
        if not self._world.faults.clear(request.path_params.get("id")):
            return JSONResponse({"detail": "no such fault", "errors": []}, status_code=404)
        self._world.touch_facts()
        return Response(status_code=204)

    async def interrupt(self, request: Request) -> Response:
        """The cloud wants a spot VM back."""
        body = await read(request, models.InterruptBody)
        now = self._world.advance()
        vm = places.vm(self._world, body.provider, body.instance_id)
        self._world.interrupt(vm, body.notice_seconds, body.cause)
        return JSONResponse(views.vm(vm, now))

    async def stop(self, request: Request) -> Response:
        """Somebody ends a VM behind our back."""
        body = await read(request, models.StopBody)
        now = self._world.advance()
        vm = places.vm(self._world, body.provider, body.instance_id)
        self._world.end(vm, body.initiator)
        return JSONResponse(views.vm(vm, now))

    async def protection(self, request: Request) -> Response:
        """Protect a VM or a resource against deletion through the API, or lift the protection."""
        body = await read(request, models.ProtectionBody)
        self._world.advance()
        places.protectable(self._world, body.provider, body.id)
        self._world.protect(body.id, protected=body.protected)
        return JSONResponse(body.model_dump())

    async def calls(self, request: Request) -> Response:
        """API calls since the start or the last reset, by provider and operation: all, or those of a `region`."""
        region_filter = request.query_params.get("region")
        counts: dict[str, Counter[str]] = {provider: Counter() for provider in self._world.catalogs}
        for (provider, operation, region), count in self._world.calls.items():
            if region_filter in (None, region):
                counts[provider][operation] += count
        return JSONResponse(counts)

    async def reset(self, _request: Request) -> Response:
        """Start over."""
        self._world.reset()
        fresh = Credentials()
        self._credentials.bad, self._credentials.accounts = fresh.bad, fresh.accounts
        self._credentials.sessions.clear()
        return Response(status_code=204)


class _QueryFilters:
    """Query filters shared by instances and resources."""

    def __init__(self, request: Request) -> None:
        query = request.query_params
        unknown = set(query) - {"provider", "account", "region", "alive", "id", "tag"}
        if unknown:
            raise WorldError(f"unknown filter {', '.join(sorted(unknown))}")
        if query.get("alive") not in (None, "true", "false"):
            raise WorldError("alive is true or false")
        self.alive = None if "alive" not in query else query["alive"] == "true"
        self._fields = {name: query[name] for name in ("provider", "account", "region", "id") if query.get(name)}
        self._tags = {name: value for name, _, value in (tag.partition(":") for tag in query.getlist("tag"))}

    def matches(self, item: Any) -> bool:
        """Every filter but `alive`."""
        return all(getattr(item, name) == value for name, value in self._fields.items()) and all(
            item.tags.get(key) == value for key, value in self._tags.items()
        )
