"""How much GPU memory a task needs. The formulas are those of the model's published memory layouts.

Inference: (weights + KV cache) * 1.2. Training in mixed precision with AdamW: 18 bytes for each parameter, and the
activations. LoRA: the frozen weights, 18 bytes for each trainable parameter, and the activations.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import ceil

from app.domain.sizing.shapes import ModelShape, SizingError


class SizingTask(StrEnum):
    """What is done with the model."""

    INFERENCE = "inference"
    TRAINING = "training"
    FINETUNING_LORA = "finetuning_lora"


class Precision(StrEnum):
    """The number format of the weights. The list may grow."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


class Optimizer(StrEnum):
    """The optimizer of a training. `sgd` has momentum. The list may grow."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw_8bit"
    SGD = "sgd"
    ADAFACTOR = "adafactor"


class Sharding(StrEnum):
    """How several GPUs of a VM share the memory. The list may grow.

    `none`: each GPU has everything. `tensor`: tensor parallelism, for inference. `zero_1` shards the optimizer states,
    `zero_2` also the gradients, and `zero_3` (FSDP) also the weights.
    """

    NONE = "none"
    TENSOR = "tensor"
    ZERO_1 = "zero_1"
    ZERO_2 = "zero_2"
    ZERO_3 = "zero_3"


BYTES = {
    Precision.FP32: Decimal(4),
    Precision.BF16: Decimal(2),
    Precision.FP16: Decimal(2),
    Precision.FP8: Decimal(1),
    Precision.INT8: Decimal(1),
    Precision.INT4: Decimal("0.5"),
}
TRAINABLE = frozenset({Precision.BF16, Precision.FP16, Precision.FP32})
QUANTIZED = frozenset(Precision) - TRAINABLE
_STATE_VALUES = {Optimizer.ADAMW: 2, Optimizer.ADAMW_8BIT: 2, Optimizer.SGD: 1, Optimizer.ADAFACTOR: 1}
_OVERHEAD = Decimal("0.2")
_MOST_BYTES = 2**63 - 1
_MASTER = 4
"""Bytes of an fp32 copy of a parameter, and of an fp32 gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What runs. `context` is in tokens; `concurrency` counts sequences at once, `batch` those of a GPU in a step.

    `kv_precision` None: 16 bits, or 32 with fp32. `mixed_precision`: 16-bit weights with fp32 master weights,
    gradients and optimizer states. `sharding` None: `tensor` for inference and `zero_3` for the rest.
    """

    task: SizingTask
    precision: Precision = Precision.BF16
    context: int = 4096
    concurrency: int = 1
    batch: int = 1
    optimizer: Optimizer = Optimizer.ADAMW
    sharding: Sharding | None = None
    kv_precision: Precision | None = None
    mixed_precision: bool = True
    gradient_checkpointing: bool = True
    lora_rank: int = 16

    def __post_init__(self) -> None:
        if self.task is SizingTask.TRAINING and self.precision in QUANTIZED:
            raise SizingError(
                "precision",
                f"must be bf16, fp16 or fp32 to train: {self.precision} is for inference and finetuning_lora",
            )
        if self.kv_precision in {Precision.INT4, Precision.INT8}:
            raise SizingError("kv_precision", "must be bf16, fp16, fp32 or fp8")
        inference = self.task is SizingTask.INFERENCE
        if self.sharding not in {None, Sharding.NONE} and (self.sharding is Sharding.TENSOR) is not inference:
            choices = "none or tensor" if inference else "none, zero_1, zero_2 or zero_3"
            raise SizingError("sharding", f"must be {choices} for the task {self.task}")

    @property
    def shared_by(self) -> Sharding:
        """The sharding that applies."""
        default = Sharding.TENSOR if self.task is SizingTask.INFERENCE else Sharding.ZERO_3
        return self.sharding or default

    @property
    def cache_precision(self) -> Precision:
        """The number format of the KV cache."""
        return self.kv_precision or (Precision.FP32 if self.precision is Precision.FP32 else Precision.BF16)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParts:
    """Bytes by part, for one GPU that has everything. `master`: the part of `weights` that ZeRO counts as states."""

    weights: int
    kv_cache: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    overhead: int = 0
    master: int = 0

    @property
    def total(self) -> int:
        """The sum of all parts; `master` is within `weights`."""
        return self.weights + self.kv_cache + self.gradients + self.optimizer + self.activations + self.overhead


def memory_parts(shape: ModelShape, workload: Workload) -> MemoryParts:
    """The memory of a model on one GPU that has everything. Raises SizingError for more bytes than 63 bits count."""
    parts = _parts(shape, workload)
    if parts.total > _MOST_BYTES:
        raise SizingError("context", "together with concurrency or batch describes an impossible amount of memory")
    return parts


def _parts(shape: ModelShape, workload: Workload) -> MemoryParts:
    match workload.task:
        case SizingTask.INFERENCE:
            return _inference(shape, workload)
        case SizingTask.TRAINING:
            return _trained(shape, workload, shape.parameters, frozen=0)
        case SizingTask.FINETUNING_LORA:
            frozen = weight_bytes(shape, workload.precision)
            return _trained(shape, workload, trainable_parameters(shape, workload), frozen=frozen)


def memory_per_gpu(shape: ModelShape, workload: Workload, gpus: int) -> int:
    """Bytes on the fullest of `gpus` GPUs of one VM."""
    parts = memory_parts(shape, workload)
    match workload.shared_by:
        case Sharding.NONE:
            return parts.total
        case Sharding.TENSOR:
            ways = tensor_ways(shape, gpus)
            divided = _share(parts.weights, ways) + _share(parts.kv_cache, min(ways, shape.kv_heads))
            return ceil(divided * (1 + _OVERHEAD))
        case Sharding.ZERO_3:
            return _share(parts.total - parts.activations, gpus) + parts.activations
    states = parts.optimizer + parts.master + (parts.gradients if workload.shared_by is Sharding.ZERO_2 else 0)
    return parts.total - states + _share(states, gpus)


def tensor_ways(shape: ModelShape, gpus: int) -> int:
    """The number of GPUs among which tensor parallelism divides a model: it divides the attention heads evenly."""
    return next(ways for ways in range(gpus, 0, -1) if shape.heads % ways == 0)


def weight_bytes(shape: ModelShape, precision: Precision) -> int:
    """Bytes of the weights. In 8 and 4 bits, the embeddings and the output head keep 16 bits."""
    size = BYTES[precision]
    if precision not in QUANTIZED:
        return ceil(shape.parameters * size)
    return ceil((shape.parameters - shape.embedding_parameters) * size + shape.embedding_parameters * 2)


def kv_cache_bytes(shape: ModelShape, workload: Workload) -> int:
    """2 * kv_heads * head_dim * bytes * concurrency * the sum over the layers of min(context, window)."""
    tokens = workload.concurrency * shape.cached_tokens(workload.context)
    return ceil(2 * shape.kv_heads * shape.head_dim * BYTES[workload.cache_precision] * tokens)


def trainable_parameters(shape: ModelShape, workload: Workload) -> int:
    """The parameters of the LoRA adapters."""
    return shape.lora_parameters * workload.lora_rank


def _inference(shape: ModelShape, workload: Workload) -> MemoryParts:
    weights, cache = weight_bytes(shape, workload.precision), kv_cache_bytes(shape, workload)
    return MemoryParts(weights=weights, kv_cache=cache, overhead=ceil((weights + cache) * _OVERHEAD))


def _trained(shape: ModelShape, workload: Workload, trainable: int, *, frozen: int) -> MemoryParts:
    full = workload.precision is Precision.FP32
    mixed = workload.mixed_precision and not full
    value = 4 if full else 2
    state = 1 if workload.optimizer is Optimizer.ADAMW_8BIT else (_MASTER if mixed else value)
    master = _MASTER * trainable if mixed else 0
    return MemoryParts(
        weights=frozen + value * trainable + master,
        gradients=(_MASTER if mixed else value) * trainable,
        optimizer=_STATE_VALUES[workload.optimizer] * state * trainable,
        activations=_activations(shape, workload, value),
        master=master,
    )


def _activations(shape: ModelShape, workload: Workload, value: int) -> int:
    """Activations of a step with FlashAttention, which stores no matrix of context * context.

    A layer keeps its two inputs, queries, keys, values, the attention's output and three times the MLP's width. The
    logits exist in the weights' format, in fp32 and as an fp32 gradient.
    """
    tokens = workload.batch * workload.context
    attention = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim
    layer = value * (4 * shape.hidden + attention + 3 * shape.mlp_width)
    logits = shape.vocabulary * (value + 2 * _MASTER)
    if workload.gradient_checkpointing:
        return tokens * (shape.layers * value * shape.hidden + 2 * layer + logits)
    return tokens * (shape.layers * layer + layer + logits)


def _share(amount: int, gpus: int) -> int:
    return -(-amount // gpus)
