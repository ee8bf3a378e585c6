"""The GPU models that lease requests can name."""

from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import Field
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Money, View
from app.api.schemas.hardware import GROWS
from app.domain.money import format_money
from app.domain.offerings import GpuVendor, Market
from app.services.gpu_models import OfferedGpuModel
from app.services.preconditions import list_tag

router = make_router("offerings")


class GpuPrices(View):
    """The lowest price of one GPU for an hour in each market, in USD. Null: the market does not sell the model."""

    on_demand: Money | None
    spot: Money | None
    reserved: Money | None


class GpuModel(View):
    """A GPU model that this installation offers."""

    model: Annotated[str, Field(description="The catalogue's name, which responses use.")]
    aliases: Annotated[
        list[str],
        Field(
            description=(
                "Other spellings that a request may use. Case, separators and a leading vendor do not matter. A "
                "spelling with a memory size requests at least that memory."
            )
        ),
    ]
    vendor: Annotated[GpuVendor, Field(description="The vendor of the GPUs. " + GROWS)]
    memory_gib: Annotated[list[int], Field(description="Sizes of one GPU's memory, in ascending order.")]
    counts: Annotated[list[int], Field(description="Numbers of whole GPUs in one VM, in ascending order.")]
    min_price_per_gpu_hour: GpuPrices


class GpuModelPage(View):
    """All GPU models, sorted by name."""

    items: list[GpuModel]
    next_cursor: str | None


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
        "counts": model.counts,
        "min_price_per_gpu_hour": {
            market: None if price is None else format_money(price) for market, price in prices.items()
        },
    }
