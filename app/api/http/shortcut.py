"""Calls an endpoint with the arguments that FastAPI would find, without asking it each time.

FastAPI works out the arguments of every request anew, which costs more than reading a row. Here it does so once for each
query string; what depends on the request itself is filled in every time.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant

_REMEMBERED = 256
_LONGEST = 512
"""Query strings that are remembered for a route, and bytes of one."""

Sources = Mapping[Callable[..., Any] | None, Callable[[Request], Any]]
"""How to get the value of a dependency from the request."""


class Shortcut:
    """For endpoints that ask for the request, path parameters of text, known dependencies, and query parameters.

    Dependencies other than the known ones must be pure functions of the query string.
    """

    def __init__(self, dependant: Dependant, sources: Sources) -> None:
        assert dependant.call is not None
        self._endpoint = dependant.call
        self._fresh = dict(_fresh(dependant, sources))
        self._request_name = dependant.request_param_name or ""
        self._solved: dict[bytes, dict[str, Any]] = {}
        self._asks_query = any(_asks_query(one) for one in (dependant, *dependant.dependencies))
        if not self._asks_query:
            self._solved[b""] = {}

    @classmethod
    def of(cls, dependant: Dependant, sources: Sources) -> Self | None:
        """None when the endpoint asks for anything else."""
        tree = (dependant, *(one for one in dependant.dependencies if one.call not in sources))
        if any(_asks_more(one) for one in tree) or any(one.dependencies for one in tree[1:]):
            return None
        if not all(_is_text(field) for field in dependant.path_params) or any(one.path_params for one in tree[1:]):
            return None
        found = cls(dependant, sources)
        return found if found._request_name or not found._asks_query else None

    def arguments(self, request: Request) -> dict[str, Any] | None:
        """The endpoint's arguments, or None: let FastAPI find them and call `solved`."""
        known = self._solved.get(request.scope["query_string"] if self._asks_query else b"")
        if known is None:
            return None
        return known | {name: source(request) for name, source in self._fresh.items()}

    async def call(self, arguments: dict[str, Any]) -> Response:
        """What `arguments` found."""
        answer: Response = await self._endpoint(**arguments)
        return answer

    async def solved(self, **arguments: Any) -> Response:
        """What FastAPI calls in place of the endpoint, with arguments that passed all checks."""
        if self._asks_query:
            self._remember(arguments[self._request_name].scope["query_string"], arguments)
        return await self.call(arguments)

    def _remember(self, query: bytes, arguments: dict[str, Any]) -> None:
        if len(query) > _LONGEST:
            return
        if len(self._solved) >= _REMEMBERED:
            self._solved.clear()
        self._solved[query] = {name: value for name, value in arguments.items() if name not in self._fresh}


def _fresh(dependant: Dependant, sources: Sources) -> Iterator[tuple[str, Callable[[Request], Any]]]:
    if dependant.request_param_name is not None:
        yield dependant.request_param_name, lambda request: request
    for field in dependant.path_params:
        yield field.name, partial(_path_parameter, field.alias)
    for one in dependant.dependencies:
        if one.name is not None and one.call in sources:
            yield one.name, sources[one.call]


def _path_parameter(name: str, request: Request) -> Any:
    return request.path_params[name]


def _asks_query(dependant: Dependant) -> bool:
    return bool(dependant.query_params)


def _asks_more(one: Dependant) -> bool:
    return any(
        (
            one.header_params,
            one.cookie_params,
            one.body_params,
            one.response_param_name,
            one.background_tasks_param_name,
            one.http_connection_param_name,
            one.security_scopes_param_name,
        )
    )


def _is_text(field: Any) -> bool:
    return field.field_info.annotation is str and not field.field_info.metadata
