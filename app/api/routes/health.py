"""Health endpoints for load balancers and Prometheus. They need no key and return no data of tenants."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.http.auth import Gate
from app.api.http.responses import answer
from app.api.http.routing import UseServices
from app.api.schemas.health import Liveness, ReadinessView
from app.observability.installation_metrics import text_of
from app.observability.metrics import ApiMetrics

router = APIRouter(tags=["health"], generate_unique_id_function=lambda route: route.name)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/livez", response_model=Liveness)
async def get_liveness() -> Response:
    """Check that the process responds. The check uses no other component."""
    return answer(Liveness(status="ok"))


@router.get("/readyz", response_model=ReadinessView, responses={503: {"model": ReadinessView}})
async def get_readiness(request: Request, services: UseServices) -> Response:
    """Check that the process can serve requests.

    The database must respond, accept writes, have the schema that this version expects, and run statements with the API's own role.
    `warnings` reports missing workers, a host's clock that differs from the database's, a missing dead-man switch where one is required,
    and Redis without answers.
    """
    gate: Gate = request.app.state.gate
    with gate.outside_queue():
        readiness = await services.health.readiness()
    view = ReadinessView(ready=readiness.ready, checks=readiness.checks, warnings=readiness.warnings)
    return answer(view, 200 if readiness.ready else 503, {"Cache-Control": "no-store"})


_METRICS_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in Prometheus' text format.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/metrics", response_class=Response, responses=_METRICS_RESPONSE)
async def get_metrics(request: Request, services: UseServices) -> Response:
    """Return metrics of this process and of the whole installation in Prometheus' text format.

    Do not expose this path publicly: it names accounts, regions and routes.
    """
    metrics: ApiMetrics = request.app.state.metrics
    installation = text_of(await services.metrics.snapshot())
    return Response(metrics.text() + installation, headers={"Content-Type": METRICS_TYPE})
