"""The application: routers, error handlers, middleware. Built by the composition root."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import cache

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from app.api.http.auth import Gate
from app.api.http.errors import add_handlers
from app.api.http.middleware import RequestMiddleware
from app.api.routes import (
    agent_program,
    audit,
    budgets,
    costs,
    dashboard,
    docs,
    event_stream,
    events,
    explanations,
    forecast,
    gpu_metrics,
    gpu_models,
    gpu_samples,
    groups,
    health,
    host_keys,
    idleness,
    images,
    keys,
    lease_access,
    leases,
    me,
    offerings,
    ops,
    ops_accounts,
    ops_tenants,
    proofs,
    quotas,
    quotes,
    reconciliation,
    regions,
    reservations,
    sizings,
    ssh_keys,
    summary,
    tenants,
    usage,
    volumes,
    webhooks,
)
from app.observability.metrics import ApiMetrics
from app.observability.traces import Traces
from app.services.container import Services

ROUTERS: tuple[APIRouter, ...] = (
    me.router,
    tenants.router,
    keys.router,
    ssh_keys.router,
    quotas.router,
    budgets.router,
    summary.router,
    usage.router,
    costs.router,
    forecast.router,
    offerings.router,
    gpu_models.router,
    regions.router,
    images.router,
    reservations.router,
    sizings.router,
    offerings.plan_router,
    quotes.router,
    leases.router,
    lease_access.router,
    idleness.router,
    gpu_metrics.router,
    groups.router,
    explanations.router,
    events.router,
    event_stream.router,
    volumes.router,
    webhooks.router,
    ops.router,
    ops_accounts.router,
    ops_tenants.router,
    reconciliation.router,
    audit.router,
    host_keys.router,
    proofs.router,
    agent_program.router,
    gpu_samples.router,
    groups.member_router,
    health.router,
    docs.router,
    dashboard.router,
)
"""In the order of the documentation. Their paths are full, so they are merged and not nested: one list to search."""

_HOTTEST = "/v1/leases"
"""The list of routes is searched from its beginning: these come first."""

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(services: Services, *, gate: Gate, metrics: ApiMetrics, traces: Traces, lifespan: Lifespan) -> FastAPI:
    """`lifespan` opens and closes what the services use."""
    app = routed()
    app.router.lifespan_context = lifespan
    app.router.routes[:] = _searched()
    app.state.services = services
    app.state.metrics = metrics
    app.state.gate = gate
    add_handlers(app)
    settings = services.context.settings
    app.add_middleware(
        RequestMiddleware,
        body_limit=settings.body_limit_bytes,
        metrics=metrics,
        traces=traces,
        trusted_proxies=settings.trusted_proxies,
    )
    return app


@cache
def _searched() -> tuple[BaseRoute, ...]:
    """All routes in the order of the search. The same for each application of a process, and slow to put together."""
    routes = routed().router.routes
    return tuple(sorted([*_refusals(routes), *routes], key=lambda r: not getattr(r, "path", "").startswith(_HOTTEST)))


def _refusals(routes: Iterable[BaseRoute]) -> list[Route]:
    """For each fixed path that a pattern covers too, a route that refuses the methods of the pattern with 405."""
    secured = [route for route in routes if isinstance(route, Route)]
    methods: dict[str, set[str]] = {}
    for route in secured:
        methods.setdefault(route.path, set()).update(route.methods or ())
    refused: list[Route] = []
    for path, own in methods.items():
        covering = [r for r in secured if r.path != path and r.path_regex.match(path) and "{" not in path]
        others = {method for route in covering for method in route.methods or ()} - own
        if others:
            refused.append(Route(path, _refuse_method, methods=sorted(others), include_in_schema=False))
    return refused


async def _refuse_method(_request: Request) -> Response:
    raise HTTPException(405)


def routed() -> FastAPI:
    """The routes alone: enough to describe the API."""
    app = FastAPI(title="gpulease", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    return app
