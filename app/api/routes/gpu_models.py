"""The GPU models that lease requests can name."""

from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.gpu_models import GpuModelPage
from app.domain.money import format_money
from app.domain.offerings import Market
from app.services.gpus.models import OfferedGpuModel
from app.services.preconditions import list_tag

router = make_router("offerings")


@router.get("/v1/gpu-models", response_model=GpuModelPage)
async def list_gpu_models(request: Request, principal: Viewer, services: UseServices) -> Response:
    """List the GPU models that a lease can request, with their spellings and lowest prices."""
    items = [_gpu_model(model) for model in await services.gpu_models.list(principal.tenant_id)]
    content = to_json({"items": items, "next_cursor": None})
    return tagged(request, content, list_tag((), also=content.decode()))


def _gpu_model(model: OfferedGpuModel) -> dict[str, Any]:
    prices = {market: model.prices.get(market) for market in Market}
    return {
        "model": model.model,
        "aliases": model.aliases,
        "vendor": model.vendor,
        "memory_gib": model.memory_gib,
        "counts_by_market": {market: model.counts_by_market.get(market, ()) for market in Market},
        "min_price_per_gpu_hour": {
            market: None if price is None else format_money(price) for market, price in prices.items()
        },
    }
