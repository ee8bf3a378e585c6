"""Tools that read: GPU models, offerings, sizes, and why a lease waits."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from app.cli import lookup
from app.cli.leases import sizes
from app.cli.mcp.arguments import Amount, Arguments
from app.cli.mcp.catalogue_answers import ExplainAnswer, Model, ModelsAnswer, Offering, OfferingsAnswer, SizeAnswer
from app.cli.mcp.creation import LEASES
from app.cli.mcp.remaining import left_for, left_for_new
from app.cli.money.price_comparison import merge_places
from app.cli.paths import path_of

if TYPE_CHECKING:
    from app.cli.client import Api

_READ_AT_ONCE = 200
"Offerings of one page. Zones with the same price become one line, so that this many give enough lines."


@dataclass(frozen=True, kw_only=True)
class OfferingFilters(Arguments):
    """Query parameters of GET /v1/offerings."""

    gpu_model: Annotated[str | None, Field(description="GPU model of the tool models.")] = None
    min_gpus: Annotated[int | None, Field(ge=1, description="Minimum GPUs of a VM.")] = None
    min_gpu_memory_gib: Annotated[int | None, Field(ge=1, description="Minimum memory of each GPU, in GiB.")] = None
    market: Annotated[Literal["on_demand", "spot", "reserved"] | None, Field(description="Default: all.")] = None
    provider: Annotated[str | None, Field(description="Default: all clouds.")] = None
    region: Annotated[str | None, Field(description="Default: all.")] = None
    max_price_per_hour: Annotated[Amount | None, Field(description="USD per hour for the VM.")] = None


@dataclass(frozen=True)
class CatalogueTools:
    """Every public method is a tool, as of `Tools`."""

    connect: Callable[[], AbstractContextManager["Api"]]
    labels: Mapping[str, str] = field(default_factory=dict)

    def models(self) -> ModelsAnswer:
        """List the GPU models with memory, and with counts and lowest price in each market."""
        with self.connect() as api:
            items = api.get("/v1/gpu-models")["items"]
            models = [model for model in map(Model.of, items) if model.markets]
            return ModelsAnswer(models=models, remaining_budget=left_for_new(api, self.labels))

    def offerings(
        self,
        filters: OfferingFilters,
        *,
        limit: Annotated[int, Field(ge=1, le=50, description="Maximum number.")] = 10,
    ) -> OfferingsAnswer:
        """List VMs that can be leased, the cheapest first. Filter: there are many."""
        with self.connect() as api:
            page = api.page("/v1/offerings", asdict(filters), limit=_READ_AT_ONCE)
            merged = merge_places(page["items"])
            return OfferingsAnswer(
                offerings=[Offering.of(item) for item in merged[:limit]],
                more=len(merged) > limit or bool(page.get("next_cursor")),
                remaining_budget=left_for_new(api, self.labels),
            )

    def size(
        self,
        task: Annotated[Literal["inference", "training", "finetuning_lora"], Field(description="What the GPUs do.")],
        *,
        model: Annotated[
            str | None, Field(description="Name such as meta-llama/Llama-3.1-70B. Give either model or parameters.")
        ] = None,
        parameters: Annotated[
            str | None, Field(description="Number of parameters such as 7b, instead of model.")
        ] = None,
        precision: Annotated[
            Literal["bf16", "fp16", "fp32", "fp8", "int8", "int4"], Field(description="Format of the weights.")
        ] = "bf16",
        context: Annotated[int, Field(ge=1, description="Tokens of one sequence.")] = 4096,
        concurrency: Annotated[int, Field(ge=1, description="Inference: sequences at once.")] = 1,
        batch: Annotated[int, Field(ge=1, description="Training: sequences of one step on one GPU.")] = 1,
    ) -> SizeAnswer:
        """Find the GPUs whose memory fits a language model, and the cheapest VMs with them."""
        body = {
            "task": task,
            "model": model,
            "parameters": parameters,
            "precision": precision,
            "context": context,
            "concurrency": concurrency,
            "batch": batch,
        }
        with self.connect() as api:
            document = api.post(sizes.PATH, {name: value for name, value in body.items() if value is not None})
            members = SizeAnswer.fields_of(document)
            return SizeAnswer(**members, remaining_budget=left_for_new(api, self.labels))

    def explain(self, lease: Annotated[str, Field(description="Id or name of the lease.")]) -> ExplainAnswer:
        """Explain why a lease waits or has failed, and which change of the request would fit now."""
        with self.connect() as api:
            path = path_of(LEASES, lookup.lease_id(api, lease))
            members = ExplainAnswer.fields_of(api.get(f"{path}/explain"))
            return ExplainAnswer(**members, remaining_budget=left_for(api, api.get(path)))
