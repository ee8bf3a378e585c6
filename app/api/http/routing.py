"""Routes that check the key before anything else is read, and say in one place which role they need."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

import structlog
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from app.api.http.auth import Gate
from app.api.http.body_limits import announced_length, limited, too_large
from app.api.http.query_parameters import check_query, known_parameters
from app.domain.gpus.reports import LONGEST_REPORT
from app.services.container import Services
from app.services.errors import BodyTooLarge, InvalidToken, ResourceNotFound
from app.services.gpus.agents import Agent
from app.services.principal import Principal, Role

PRINCIPAL = "gpulease.principal"
"""Scope key of the checked principal."""


class RoleRule:
    """The dependency behind `Viewer`, `Member` …: hands out the principal that the route has checked already."""

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Principal:
        """What FastAPI calls."""
        return _scope_principal(request)


OPERATORS_ONLY = Depends(RoleRule(Role.OPERATOR))
"""For `dependencies=[…]` of a route that needs the role and not the principal."""
DEADMAN_OR_OPERATOR = Depends(RoleRule(Role.DEADMAN))
"""The same."""

Viewer = Annotated[Principal, Depends(RoleRule(Role.VIEWER))]
Member = Annotated[Principal, Depends(RoleRule(Role.MEMBER))]
Admin = Annotated[Principal, Depends(RoleRule(Role.ADMIN))]
Operator = Annotated[Principal, Depends(RoleRule(Role.OPERATOR))]


def path_part(text: str) -> str:
    """A name in a path. Raises ResourceNotFound for U+0000: PostgreSQL's text holds none, so nothing has such a name."""
    if "\x00" in text:
        raise ResourceNotFound
    return text


PlainHandler = Callable[[Request, Principal, Services], Coroutine[Any, Any, Response | None]]
"""Answers a common form of a request by itself. None: the request has another form, and FastAPI parses it."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def plainly(handler: PlainHandler) -> Callable[[Endpoint], Endpoint]:
    """For reads that clients repeat all day: what FastAPI's parsing costs is a third of such a read."""

    def marked(endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["plain_handler"] = handler
        return endpoint

    return marked


COST = 20
"""A costly request counts as so many in the tenant's rate limit."""


def costly(endpoint: Endpoint) -> Endpoint:
    """For operations that take 5 ms of CPU or more, or many locks. Of a tenant, one runs at once in a process."""
    endpoint.__dict__["cost"] = COST
    return endpoint


_WRITING = {"POST", "PUT", "PATCH"}
_READING = {"plan_lease", "plan_group", "create_sizing"}
"""POST with a body that only asks."""


class SecuredRoute(APIRoute):
    """Key, role and rate limit first, so that nobody unknown makes us read a body. Needs one RoleRule."""

    @property
    def required_role(self) -> Role:
        """The least role that may call this. Raises TypeError when the endpoint declares none."""
        for dependency in self.dependant.dependencies:
            if isinstance(dependency.call, RoleRule):
                return dependency.call.role
        raise TypeError(
            f"{self.endpoint.__name__} takes no principal: annotate one as Viewer, Member, Admin or Operator"
        )

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler behind the checks."""
        handler = super().get_route_handler()
        role, writes, parameters = self.required_role, self._writes, known_parameters(self)
        cost: int = getattr(self.endpoint, "cost", 1)
        has_body = bool(_WRITING & (self.methods or set()))
        plain: PlainHandler | None = getattr(self.endpoint, "plain_handler", None)

        async def secured(request: Request) -> Response:
            gate: Gate = request.app.state.gate
            principal = await gate.admit(request, cost)
            principal.require(role)
            request.scope[PRINCIPAL] = principal
            _bind_log_context(principal, request.scope["path_params"])
            check_query(request, parameters)
            if writes:
                gate.count_write(principal)
            if has_body:
                await _read_body(request)
            async with gate.turn(request, principal, costly=cost > 1):
                response = None if plain is None else await plain(request, principal, _state_services(request))
                return response or await handler(request)

        return secured

    @property
    def _writes(self) -> bool:
        """Whether a call leaves rows behind. DELETE does too, but it ends what costs money."""
        return bool(_WRITING & (self.methods or set())) and self.endpoint.__name__ not in _READING


class TokenRoute(APIRoute):
    """For VMs with a token and no key: the token first, so that nobody unknown makes us read a body."""

    largest_body: ClassVar[int]
    """Bytes."""
    security_scheme: ClassVar[str] = "agentToken"
    """As openapi.json names the token."""

    async def find(self, request: Request, token: str) -> bool:
        """Whether the token is valid for this route."""
        raise NotImplementedError

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler behind the checks."""
        handler = super().get_route_handler()

        async def checked(request: Request) -> Response:
            gate: Gate = request.app.state.gate
            await gate.admit_token(request, lambda token: self.find(request, token))
            if announced_length(request.scope) > self.largest_body:
                raise BodyTooLarge(too_large(self.largest_body))
            try:
                return await handler(Request(request.scope, limited(request.receive, self.largest_body)))
            except InvalidToken:
                gate.count_refused_token(request)
                raise

        return checked


class OneTimeRoute(TokenRoute):
    """For the token with which a VM reports its host keys, once."""

    security_scheme = "oneTimeToken"
    largest_body = 32 * 1024
    """Bytes. Five host keys of the greatest length need 21 KiB."""

    async def find(self, request: Request, token: str) -> bool:
        """Whether the token belongs to a VM that has not ended."""
        return await _state_services(request).host_keys.is_known(token)


class AgentRoute(TokenRoute):
    """For the token of a VM's agent, which works until the VM's attempt ends. `calling_agent` returns the agent."""

    largest_body = LONGEST_REPORT

    async def find(self, request: Request, token: str) -> bool:
        """Whether the token belongs to the newest attempt of a lease, and the attempt has not ended."""
        agent = await _state_services(request).agents.find(token)
        request.scope[AGENT] = agent
        return agent is not None


AGENT = "gpulease.agent"
"""Scope key of the checked agent."""


def calling_agent(request: Request) -> Agent:
    """The agent that calls an `AgentRoute`."""
    agent: Agent = request.scope[AGENT]
    structlog.contextvars.bind_contextvars(tenant_id=agent.tenant_id, lease_id=agent.lease_id)
    return agent


def count_report(request: Request, agent: Agent) -> None:
    """Counts a report of a kind that an agent sends rarely. Raises RateLimited for too many of them."""
    gate: Gate = request.app.state.gate
    gate.count_report(agent.attempt_id)


def agent_router() -> APIRouter:
    """A router for agents in VMs."""
    return APIRouter(route_class=AgentRoute, tags=["agent"], generate_unique_id_function=lambda route: route.name)


def router(tag: str) -> APIRouter:
    """A router whose routes all need a key. Paths are written in full; operation ids are the functions' names."""
    return APIRouter(route_class=SecuredRoute, tags=[tag], generate_unique_id_function=lambda route: route.name)


async def _read_body(request: Request) -> None:
    """Before the turn, which a sender that takes its time would hold."""
    try:
        await request.body()
    except ClientDisconnect:
        raise HTTPException(400) from None


def _bind_log_context(principal: Principal, parameters: Mapping[str, Any]) -> None:
    """Names the tenant and the lease in every log line of the request."""
    about: dict[str, str | None] = {"tenant_id": principal.tenant_id, "lease_id": parameters.get("lease_id")}
    structlog.contextvars.bind_contextvars(**{name: value for name, value in about.items() if value is not None})


def _state_services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _scope_principal(request: Request) -> Principal:
    principal: Principal = request.scope[PRINCIPAL]
    return principal


async def _services(request: Request) -> Services:
    return _state_services(request)


UseServices = Annotated[Services, Depends(_services)]
