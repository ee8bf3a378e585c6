"""The application: routers, error handlers, middleware. Built by the composition root."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import APIRouter, FastAPI

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
    app.router.routes.sort(key=lambda route: not getattr(route, "path", "").startswith(_HOTTEST))
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


def routed() -> FastAPI:
    """The routes alone: enough to describe the API."""
    app = FastAPI(title="gpulease", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    return app
