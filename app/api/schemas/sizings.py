"""Bodies and answers of sizings."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema

from app.api.schemas.base import Body, Moment, Text, View
from app.api.schemas.field_rules import exactly_one
from app.api.schemas.hardware import GROWS
from app.api.schemas.lease_bodies import Ttl
from app.api.schemas.offerings import Offering
from app.domain.offerings import GpuVendor, Interconnect, MarketPreference
from app.domain.sizing.memory import Optimizer, Precision, Sharding, SizingTask
from app.domain.sizing.shapes import FEWEST_PARAMETERS, MOST_PARAMETERS
from app.services.errors import FieldError, InvalidRequest
from app.services.offerings.sizings import SizingRequest

_MOST_TOKENS = 10_000_000
_MOST_MEMBERS = 500
_SOURCES = ("model", "config", "parameters")
_Count = Annotated[int, WithJsonSchema({"type": "integer", "minimum": FEWEST_PARAMETERS, "maximum": MOST_PARAMETERS})]
"""`parse_parameters` checks the limits, with a message for both forms."""
_REQUEST = {*_SOURCES, "market", "ttl_seconds", "tenant_id"}
"""Fields that are no part of the workload."""


class NewSizing(Body):
    """A model and what is done with it. Set exactly one of `model`, `config` and `parameters`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"task": "inference", "model": "meta-llama/Llama-3.1-70B"}],
            **exactly_one("model", "config", "parameters"),
        }
    )

    task: Annotated[SizingTask, Field(strict=False, description="What the GPUs do with the model. " + GROWS)]
    model: Annotated[
        Text | None,
        Field(
            max_length=200,
            description="A name from the shipped table, with or without the organisation.",
            examples=["meta-llama/Llama-3.1-70B"],
        ),
    ] = None
    config: Annotated[
        Annotated[dict[str, Any], Field(max_length=_MOST_MEMBERS)] | None,
        Field(description="The content of the model's Hugging Face `config.json`. Unknown members are ignored."),
    ] = None
    parameters: Annotated[
        _Count | Annotated[Text, Field(max_length=40)] | None,
        Field(
            description="The number of parameters: a number, or text such as `7b` or `350m`. The shape is then a guess.",
            examples=["7b"],
        ),
    ] = None
    precision: Annotated[
        Precision, Field(strict=False, description="The format in which the weights are stored. " + GROWS)
    ] = Precision.BF16
    context: Annotated[int, Field(ge=1, le=_MOST_TOKENS, description="Tokens of one sequence.")] = 4096
    concurrency: Annotated[int, Field(ge=1, le=100_000, description="Inference: sequences at once.")] = 1
    batch: Annotated[
        int, Field(ge=1, le=100_000, description="Training: sequences of one step on one GPU, without accumulation.")
    ] = 1
    optimizer: Annotated[Optimizer, Field(strict=False, description="Training: the optimizer. " + GROWS)] = (
        Optimizer.ADAMW
    )
    sharding: Annotated[
        Sharding | None,
        Field(
            strict=False,
            description="How several GPUs share the memory. Null: `tensor` for inference, `zero_3` for training.",
        ),
    ] = None
    kv_precision: Annotated[
        Precision | None,
        Field(strict=False, description="Inference: the format of the KV cache. Null: bf16, or fp32 for fp32 weights."),
    ] = None
    mixed_precision: Annotated[
        bool, Field(description="Training: 16-bit weights with fp32 master weights, gradients and states.")
    ] = True
    gradient_checkpointing: Annotated[
        bool, Field(description="Training: store the input of each layer and compute the rest again.")
    ] = True
    lora_rank: Annotated[int, Field(ge=1, le=1024, description="`finetuning_lora`: the rank of the adapters.")] = 16
    market: Annotated[MarketPreference, Field(strict=False, description="The market of the lease in the response.")] = (
        MarketPreference.ON_DEMAND
    )
    ttl_seconds: Annotated[Ttl, Field(description="The term of the lease in the response.")] = 3600
    tenant_id: Annotated[
        str | None,
        Field(max_length=40, description="For operators: the tenant for which the lease in the response is."),
    ] = None


class SizedModel(View):
    """The model as it was read."""

    parameters: Annotated[int, Field(description="All parameters.")]
    active_parameters: Annotated[int, Field(description="Those that one token uses: fewer with a mixture of experts.")]
    layers: Annotated[int, Field(description="The number of layers.")]


class SizingBytes(View):
    """GPU memory by part, for one GPU that has everything. `total` is the sum of the others."""

    weights: Annotated[int, Field(description="Training in mixed precision: with the fp32 master weights.")]
    kv_cache: Annotated[int, Field(description="Inference: keys and values of all sequences.")]
    gradients: Annotated[int, Field(description="Training: one for each trained parameter.")]
    optimizer: Annotated[int, Field(description="The states of the optimizer.")]
    activations: Annotated[int, Field(description="Training: of one step on one GPU.")]
    overhead: Annotated[int, Field(description="Inference: 20 % of weights and KV cache.")]
    total: Annotated[int, Field(description="The sum of the others.")]


class SizingFit(View):
    """A class of GPUs that has the memory, and how many of them in one VM."""

    gpu: Annotated[str, Field(description="The model, as `GET /v1/gpu-models` names it.")]
    memory_gib: Annotated[int, Field(description="Memory of one GPU.")]
    vendor: Annotated[GpuVendor, Field(description="The vendor of the GPUs. " + GROWS)]
    count: int
    margin_percent: Annotated[float, Field(description="The part of the usable memory that stays free.")]
    interconnect: Annotated[
        Interconnect | None, Field(description="What the GPUs need between each other. Null: there is one. " + GROWS)
    ]


class SizedGpus(View):
    """The GPUs of the lease."""

    model: str
    count: int
    memory_gib: Annotated[int, Field(description="Memory of each GPU, at least.")]
    interconnect: Annotated[Interconnect | None, Field(description="Null: any. " + GROWS)]


class SizedLease(View):
    """A body for `POST /v1/leases` and `POST /v1/leases/plan`."""

    gpu: SizedGpus
    market: MarketPreference
    ttl_seconds: int
    disk_gib: Annotated[int, Field(description="Room for the system and the model's files.")]
    tenant_id: str | None


def sizing_request(body: NewSizing) -> SizingRequest:
    """Converts the body. Raises InvalidRequest unless it describes the model exactly once."""
    if sum(getattr(body, name) is not None for name in _SOURCES) != 1:
        detail = "is not valid: set exactly one of model, config and parameters"
        raise InvalidRequest(errors=[FieldError(f"#/body/{name}", detail) for name in _SOURCES])
    workload: dict[str, Any] = {name: getattr(body, name) for name in NewSizing.model_fields if name not in _REQUEST}
    return SizingRequest(
        workload=workload,
        model=body.model,
        config=body.config,
        parameters=body.parameters,
        market=body.market,
        ttl_seconds=body.ttl_seconds,
        tenant_id=body.tenant_id,
    )


class Sizing(View):
    """How much GPU memory a model needs, and which GPUs have it. `fits` and `offerings` begin with the cheapest."""

    task: Annotated[SizingTask, Field(description="What the GPUs do with the model. " + GROWS)]
    precision: Annotated[Precision, Field(description="The format in which the weights are stored. " + GROWS)]
    model: SizedModel
    bytes: Annotated[SizingBytes, Field(description="GPU memory by part, for one GPU that has everything.")]
    assumptions: Annotated[list[str], Field(description="What the figures assume, in sentences.")]
    fits: Annotated[list[SizingFit], Field(description="The classes of GPUs that have the memory, the cheapest first.")]
    offerings: Annotated[
        list[Offering], Field(description="The cheapest instance types, with the price of such a lease: at most five.")
    ]
    lease: Annotated[SizedLease | None, Field(description="A request for the cheapest one. Null: none can be had.")]
    as_of: Moment
