"""Bodies and views about GPU models."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Money, View
from app.api.schemas.hardware import GROWS
from app.domain.offerings import GpuVendor


class GpuPrices(View):
    """The lowest price of one GPU for an hour in each market, in USD, with disks and address. Null: no known price."""

    on_demand: Money | None
    spot: Money | None
    reserved: Money | None


class GpuCounts(View):
    """Numbers of whole GPUs in one VM that each market sells, in ascending order. Empty: the market sells none."""

    on_demand: list[int]
    spot: list[int]
    reserved: list[int]


class GpuModel(View):
    """A GPU model that a lease can get."""

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
    counts_by_market: Annotated[GpuCounts, Field(description="What each market sells.")]
    min_price_per_gpu_hour: GpuPrices


class GpuModelPage(View):
    """All GPU models, sorted by name."""

    items: list[GpuModel]
    next_cursor: str | None
