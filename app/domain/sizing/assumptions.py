"""What a sizing assumes, in plain sentences."""

from collections.abc import Iterator

from app.domain.sizing.fits import USABLE_PERCENT
from app.domain.sizing.memory import (
    QUANTIZED,
    Optimizer,
    Precision,
    Sharding,
    SizingTask,
    Workload,
    trainable_parameters,
)
from app.domain.sizing.shapes import ModelShape


def assumptions(shape: ModelShape, workload: Workload) -> tuple[str, ...]:
    """One sentence for each assumption. The model's own come first."""
    own = _inference(shape, workload) if workload.task is SizingTask.INFERENCE else _training(shape, workload)
    return (*shape.notes, *_model(shape, workload), *own, _USABLE, *_sharding(workload))


_USABLE = f"{USABLE_PERCENT} % of a GPU's memory is usable: the rest is for the driver and for fragmentation."
_BETWEEN = {
    Sharding.NONE: "Each GPU has the whole model: more GPUs raise the throughput only.",
    Sharding.TENSOR: "Several GPUs share the weights and the KV cache by tensor parallelism.",
    Sharding.ZERO_1: "Several GPUs share the optimizer states (ZeRO stage 1).",
    Sharding.ZERO_2: "Several GPUs share the gradients and optimizer states (ZeRO stage 2).",
    Sharding.ZERO_3: "Several GPUs share the weights, gradients and optimizer states (ZeRO stage 3, FSDP).",
}


def _model(shape: ModelShape, workload: Workload) -> Iterator[str]:
    if shape.longest_context is not None and workload.context > shape.longest_context:
        yield f"The context of {workload.context} tokens exceeds the model's {shape.longest_context}."
    if workload.precision is Precision.BF16:
        yield "GPUs without bf16, such as T4 and V100, are left out: request fp16 to include them."
    if workload.precision in QUANTIZED:
        weights = "all weights" if not shape.embedding_parameters else "all weights but embeddings and output head"
        yield f"In {workload.precision}, {weights} are quantized."


def _inference(shape: ModelShape, workload: Workload) -> Iterator[str]:
    yield (
        f"The KV cache has {workload.cache_precision} values for {workload.concurrency} sequences of "
        f"{workload.context} tokens at once."
    )
    if any(window is not None and window < workload.context for window in shape.windows):
        yield "Layers with a sliding window cache only the tokens of the window."
    yield "The overhead is 20 % of weights and KV cache: activations, CUDA graphs and buffers."


def _training(shape: ModelShape, workload: Workload) -> Iterator[str]:
    mixed = workload.mixed_precision and workload.precision is not Precision.FP32
    if workload.task is SizingTask.FINETUNING_LORA:
        count = trainable_parameters(shape, workload)
        yield f"LoRA of rank {workload.lora_rank} on the linear layers trains {count} parameters."
        yield "Expert layers of a mixture of experts get no adapters."
    if mixed and workload.optimizer is Optimizer.ADAMW:
        yield "Mixed precision with AdamW takes 18 bytes for each trained parameter."
    elif mixed:
        yield "Mixed precision has fp32 master weights and fp32 gradients."
    else:
        yield f"Weights, gradients and optimizer states are in {_full_format(workload)}."
    yield f"A step has {workload.batch} sequences of {workload.context} tokens on each GPU, with FlashAttention."
    if workload.gradient_checkpointing:
        yield "Gradient checkpointing stores the input of each layer and computes the rest again."
    else:
        yield "All activations are stored: gradient_checkpointing is false."


def _full_format(workload: Workload) -> str:
    return "fp32" if workload.precision is Precision.FP32 else "16 bits"


def _sharding(workload: Workload) -> Iterator[str]:
    yield _BETWEEN[workload.shared_by]
