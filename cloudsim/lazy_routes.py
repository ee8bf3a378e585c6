"""The routes below some prefixes, made when a request for one of them arrives: most simulations of tests serve one cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

_ROUTE = "cloudsim.route"


class LazyRoutes(BaseRoute):
    """One route to those that ask for it. The path of each of `routes` begins with one of `prefixes`."""

    def __init__(self, prefixes: tuple[str, ...], routes: Callable[[], Sequence[Route]]) -> None:
        self._prefixes = prefixes
        self._make = routes

    @cached_property
    def _routes(self) -> Sequence[Route]:
        routes = self._make()
        for route in routes:
            if not route.path.startswith(self._prefixes):
                msg = f"{route.path} would never be found: it begins with none of {self._prefixes}"
                raise ValueError(msg)
        return routes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The first route that serves the request, else the first one with its path."""
        partial: tuple[Match, Scope] = (Match.NONE, {})
        if scope["type"] != "http" or not scope["path"].startswith(self._prefixes):
            return partial
        for route in self._routes:
            match, child = route.matches(scope)
            found = (match, {**child, _ROUTE: route})
            if match is Match.FULL:
                return found
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = found
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request with the route that was found."""
        await scope[_ROUTE].handle(scope, receive, send)
