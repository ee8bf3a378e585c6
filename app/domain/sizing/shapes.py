"""The shape of a transformer: the numbers on which its memory depends."""

import re
from dataclasses import dataclass

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_COUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmbt]?)", re.IGNORECASE)

FEWEST_PARAMETERS = 10**5
MOST_PARAMETERS = 10**14


class SizingError(ValueError):
    """A request that sizing cannot answer. `field` is a path in the request, such as `config/num_hidden_layers`."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer with grouped-query attention.

    `parameters` counts all of them, and `active_parameters` those that one token uses. `embedding_parameters` are the
    input embeddings and the output head. `windows` has the attention window of each layer in tokens; None: all tokens.
    `mlp_width` is the width that one token passes in a layer. `lora_parameters` is the size of an adapter of rank 1 on
    all adapted layers. `longest_context` None: unknown. `notes` are assumptions, in sentences.
    """

    parameters: int
    active_parameters: int
    embedding_parameters: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    vocabulary: int
    windows: tuple[int | None, ...]
    lora_parameters: int
    longest_context: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.windows)

    def cached_tokens(self, context: int) -> int:
        """Tokens in the KV cache of one sequence, summed over the layers."""
        return sum(context if window is None else min(context, window) for window in self.windows)


def parse_parameters(value: object) -> int:
    """A number of parameters: a number, or text such as `7b`, `1.3B` or `350m`. Raises SizingError."""
    if isinstance(value, str):
        match = _COUNT.fullmatch(value.strip())
        count = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    else:
        count = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not FEWEST_PARAMETERS <= count <= MOST_PARAMETERS:
        raise SizingError("parameters", "must be a number from 100k to 100t, such as 7b, 350m or 6738415616")
    return round(count)


@dataclass(frozen=True, slots=True)
class _PublishedModel:
    """The attention of a published model."""

    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int


_TYPICAL = (
    _PublishedModel(1_235_814_400, 16, 2048, 32, 8, 64, 8192),  # Llama 3.2 1B
    _PublishedModel(3_212_749_824, 28, 3072, 24, 8, 128, 8192),  # Llama 3.2 3B
    _PublishedModel(8_030_261_248, 32, 4096, 32, 8, 128, 14_336),  # Llama 3.1 8B
    _PublishedModel(14_770_033_664, 48, 5120, 40, 8, 128, 13_824),  # Qwen2.5 14B
    _PublishedModel(32_763_876_352, 64, 5120, 40, 8, 128, 27_648),  # Qwen2.5 32B
    _PublishedModel(70_553_706_496, 80, 8192, 64, 8, 128, 28_672),  # Llama 3.1 70B
    _PublishedModel(405_853_388_800, 126, 16_384, 128, 8, 128, 53_248),  # Llama 3.1 405B
)
"""By size. A model of unknown shape gets that of the next larger one, so that its memory is not underestimated."""

_TYPICAL_VOCABULARY = 128_256
_LORA_SHARE = 1600
"""An adapter of rank 16 on all linear layers has about 1 % of the parameters: one of rank 1 has 1/1600."""


def typical_shape(parameters: int) -> ModelShape:
    """A shape for a model of which only the number of parameters is known."""
    typical = next((entry for entry in _TYPICAL if entry.parameters >= parameters), _TYPICAL[-1])
    note = (
        f"Only the number of parameters is known: the KV cache and activations are those of a dense model with "
        f"{typical.layers} layers and {typical.kv_heads} KV heads."
    )
    return ModelShape(
        parameters=parameters,
        active_parameters=parameters,
        embedding_parameters=0,
        hidden=typical.hidden,
        heads=typical.heads,
        kv_heads=typical.kv_heads,
        head_dim=typical.head_dim,
        mlp_width=typical.mlp_width,
        vocabulary=_TYPICAL_VOCABULARY,
        windows=(None,) * typical.layers,
        lora_parameters=max(1, parameters // _LORA_SHARE),
        notes=(note,),
    )
