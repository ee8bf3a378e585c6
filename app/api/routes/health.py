"""For load balancers and Prometheus: no key is needed, and nothing about tenants is told."""

from fastapi import APIRouter, Request, Response

from app.api.http.responses import answer
from app.api.http.routing import UseServices
from app.api.schemas.base import View
from app.observability.installation_metrics import text_of
from app.observability.metrics import ApiMetrics

router = APIRouter(tags=["health"], generate_unique_id_function=lambda route: route.name)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Liveness(View):
    """The process answers."""

    status: str


class ReadinessView(View):
    """`ready` is false, and the status 503, when requests cannot be served. `warnings` tell what else is missing."""

    ready: bool
    checks: dict[str, str]
    warnings: list[str]


@router.get("/livez", response_model=Liveness)
async def get_liveness() -> Response:
    """Whether the process answers. Touches nothing else."""
    return answer(Liveness(status="ok"))


@router.get("/readyz", response_model=ReadinessView, responses={503: {"model": ReadinessView}})
async def get_readiness(services: UseServices) -> Response:
    """Whether the database answers, has the schema this program expects and runs statements as the API's own role; warns of missing workers, and of a missing dead-man switch where that is a must."""
    found = await services.health.readiness()
    view = ReadinessView(ready=found.ready, checks=found.checks, warnings=found.warnings)
    return answer(view, 200 if found.ready else 503, {"Cache-Control": "no-store"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(request: Request, services: UseServices) -> Response:
    """What this process counts, and what the database tells of the whole installation, in Prometheus' text format.

    Keep the path inside: it names accounts, regions and routes.
    """
    metrics: ApiMetrics = request.app.state.metrics
    installation = text_of(await services.metrics.snapshot())
    return Response(metrics.text() + installation, headers={"Content-Type": METRICS_TYPE})
