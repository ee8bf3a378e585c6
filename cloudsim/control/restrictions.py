"""The control endpoints that take rights, images and subnets away."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cloudsim.control import models, places
from cloudsim.control.clouds import Cloud
from cloudsim.control.reading import guarded, read
from cloudsim.world import World

_AZURE = "azure"


class RestrictionsApi:
    """Endpoints over one world; `clouds` by provider name."""

    def __init__(self, world: World, clouds: Mapping[str, Cloud]) -> None:
        self._world = world
        self._clouds = clouds

    def routes(self) -> list[Route]:
        """Everything below /_sim that restricts."""
        table = [
            ("denied", self.denied),
            ("images", self.images),
            ("launch-refusals", self.launch_refusals),
            ("subnets", self.subnets),
            ("subscriptions", self.subscriptions),
        ]
        return [Route(f"/_sim/{name}", guarded(endpoint), methods=["PUT"]) for name, endpoint in table]

    async def denied(self, request: Request) -> Response:
        """Deny these actions, and no others."""
        body = await read(request, models.DeniedBody)
        places.catalog(self._world, body.provider)
        for action in body.actions:
            places.check("action", action, self._clouds[body.provider].actions)
        self._world.restrictions.deny(body.provider, body.actions)
        self._world.touch_facts()
        return JSONResponse(body.model_dump())

    async def launch_refusals(self, request: Request) -> Response:
        """Refuse every launch of an account, or none."""
        body = await read(request, models.LaunchesBody)
        places.catalog(self._world, body.provider)
        account = body.account or self._clouds[body.provider].default_account
        self._world.restrictions.refuse_launches(body.provider, account, body.code)
        self._world.touch_facts()
        return JSONResponse(body.model_dump())

    async def images(self, request: Request) -> Response:
        """Remove an image, or put it back."""
        body = await read(request, models.ImageBody)
        places.catalog(self._world, body.provider)
        self._world.restrictions.set_image(body.provider, body.image, available=body.available)
        self._world.touch_facts()
        return JSONResponse(body.model_dump())

    async def subnets(self, request: Request) -> Response:
        """Close a subnet or take its addresses, or open it again."""
        body = await read(request, models.SubnetBody)
        places.catalog(self._world, body.provider)
        self._world.restrictions.set_subnet(
            body.provider, body.subnet, is_open=body.open, free_addresses=body.free_addresses
        )
        self._world.touch_facts()
        return JSONResponse(body.model_dump())

    async def subscriptions(self, request: Request) -> Response:
        """Put an Azure subscription into a state, with the registrations that it lacks."""
        body = await read(request, models.SubscriptionBody)
        places.catalog(self._world, _AZURE)
        account = body.account or self._clouds[_AZURE].default_account
        self._world.restrictions.set_subscription(account, body.state, body.unregistered)
        self._world.touch_facts()
        return JSONResponse(body.model_dump() | {"account": account})
