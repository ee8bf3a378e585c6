"""What the tools about GPUs, offerings and placement answer."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, Field

from app.cli.errors import Json
from app.cli.mcp.answers import Answer
from app.cli.money.price_comparison import availability
from app.cli.render.output import at
from app.cli.render.texts import gpus, placement, quota_text

_MARKETS = ("on_demand", "spot", "reserved")
_MOST_REGIONS, _MOST_PLACES = 5, 5
_OF_FIT = ("memory_gib", "count", "margin_percent", "interconnect")
_GB = 10**9


class SoldAs(BaseModel):
    """How a market sells a model."""

    counts: Annotated[list[int], Field(description="Numbers of GPUs in one VM.")]
    per_gpu_hour: Annotated[str | None, Field(description="Lowest price of one GPU, USD an hour. Null: unknown.")]


class Model(BaseModel):
    """A GPU model."""

    model: str
    memory_gib: Annotated[list[int], Field(description="Sizes of one GPU's memory.")]
    markets: Annotated[dict[str, SoldAs], Field(description="The markets that sell it: on_demand, spot, reserved.")]

    @classmethod
    def of(cls, item: Json) -> Self:
        """From the API's document."""
        counts, prices = item["counts_by_market"], item["min_price_per_gpu_hour"]
        markets = {
            market: SoldAs(counts=counts[market], per_gpu_hour=prices.get(market))
            for market in _MARKETS
            if counts.get(market)
        }
        return cls(model=item["model"], memory_gib=item["memory_gib"], markets=markets)


class ModelsAnswer(Answer):
    """GPU models."""

    models: list[Model]


class Offering(BaseModel):
    """A VM that can be leased, in every zone with this price."""

    provider: str
    regions: Annotated[list[str], Field(description="The first five.")]
    instance_type: str
    market: str
    gpus: str | None
    price_per_hour: Annotated[
        str | None, Field(description="USD for the VM. plan adds its disks and public address. Null: unknown.")
    ]
    availability: Annotated[str, Field(description="Whether a launch would succeed, as far as known.")]

    @classmethod
    def of(cls, item: Json) -> Self:
        """From an offering of the API, with `places` where several have its price."""
        regions = dict.fromkeys(str(place["region"]) for place in item.get("places") or [item])
        return cls(
            **{name: item[name] for name in ("provider", "instance_type", "market", "price_per_hour")},
            regions=list(regions)[:_MOST_REGIONS],
            gpus=gpus(item),
            availability=availability(item),
        )


class OfferingsAnswer(Answer):
    """Offerings, the cheapest first."""

    offerings: list[Offering]
    more: Annotated[bool, Field(description="There are more offerings than these.")]


class Fit(BaseModel):
    """GPUs that have the memory."""

    gpu_model: str
    memory_gib: Annotated[int, Field(description="Memory of one GPU.")]
    count: int
    margin_percent: Annotated[float, Field(description="Part of the usable memory that stays free.")]
    interconnect: Annotated[str | None, Field(description="What the GPUs need between each other.")] = None


class SizeAnswer(Answer):
    """Which GPUs fit a model."""

    total_gb: Annotated[float, Field(description="GPU memory that the model needs, in GB.")]
    fits: Annotated[list[Fit], Field(description="The cheapest first.")]
    offerings: Annotated[list[Offering], Field(description="The cheapest VMs that fit, with disk and address.")]
    assumptions: list[str]

    @classmethod
    def fields_of(cls, document: Json) -> Json:
        """The fields, from the API's sizing."""
        return {
            "total_gb": round(at(document, "bytes.total") / _GB, 2),
            "fits": [Fit(gpu_model=fit["gpu"], **{name: fit[name] for name in _OF_FIT}) for fit in document["fits"]],
            "offerings": [Offering.of(item) for item in document["offerings"]],
            "assumptions": document["assumptions"],
        }


class Change(BaseModel):
    """A change of the request that would fit now."""

    message: str
    change: Annotated[Json, Field(description="Fields of the request, with their new values.")]
    offering: Annotated[str | None, Field(description="What a lease with the change would try first.")]
    price_per_hour: str | None = None


class ExplainAnswer(Answer):
    """Why a lease waits, or why it ended."""

    state: str
    code: str
    summary: str
    next_try_at: str | None
    gives_up_at: Annotated[str | None, Field(description="When the wait ends.")]
    retryable: Annotated[bool | None, Field(description="Whether the same request may succeed later. Null: not ended.")]
    candidates: Annotated[
        list[str], Field(description="The first five, and what keeps the lease from launching there.")
    ]
    candidates_count: int
    excluded: Annotated[list[str], Field(description="Why other offerings do not fit.")]
    quota: Annotated[list[str], Field(description="Quotas that are too small.")]
    suggestions: list[Change]

    @classmethod
    def fields_of(cls, document: Json) -> Json:
        """The fields, from the API's explanation."""
        plain = ("state", "code", "summary", "next_try_at", "gives_up_at", "retryable", "candidates_count")
        candidates = document["candidates"][:_MOST_PLACES]
        return {
            **{name: document.get(name) for name in plain},
            "candidates": [f"{placement(item['offering'])}: {item['message']}" for item in candidates],
            "excluded": [group["message"] for group in document["excluded"]],
            "quota": [_quota(need) for need in document["quota"] if not need["fits"]],
            "suggestions": [_suggestion(item) for item in document["suggestions"]],
        }


def _suggestion(item: Json) -> Change:
    return Change(
        message=item["message"],
        change=item["change"],
        offering=placement(item["offering"]),
        price_per_hour=at(item, "offering.price_per_hour"),
    )


def _quota(need: Mapping[str, object]) -> str:
    return quota_text({**need, "asked": need["needed"], "available": need.get("free")})
