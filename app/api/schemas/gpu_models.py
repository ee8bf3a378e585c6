"""Bodies and views about GPU models."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Money, View
from app.api.schemas.hardware import GROWS
from app.domain.offerings import GpuVendor


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
