"""Reads the shape of a model from its Hugging Face `config.json` and counts its parameters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.sizing.shapes import MOST_PARAMETERS, ModelShape, SizingError

_KNOWN = frozenset(
    [
        "llama",
        "mistral",
        "mistral3",
        "mixtral",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "phi",
        "phi3",
        "gpt2",
        "gpt_neox",
        "gptj",
        "gpt_bigcode",
        "gpt_oss",
        "opt",
        "bloom",
        "falcon",
        "starcoder2",
        "cohere",
        "cohere2",
        "granite",
        "olmo",
        "olmo2",
        "stablelm",
        "glm",
        "glm4",
        "glm4_moe",
        "minimax_m2",
        "nemotron",
        "smollm3",
    ]
)
_TIED = frozenset(
    [
        "gpt2",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "falcon",
        "opt",
        "bloom",
        "cohere",
        "cohere2",
        "starcoder2",
        "gpt_bigcode",
    ]
)
"""Families whose output head is the input embedding, unless the config says otherwise."""
_PLAIN_MLP = frozenset(
    ["gpt2", "gpt_neox", "gptj", "phi", "falcon", "opt", "bloom", "gpt_bigcode", "starcoder2", "nemotron"]
)
"""Families with two matrices in the MLP and a bias on each linear layer. The others have three and no bias."""
_LEARNED_POSITIONS = frozenset(["gpt2", "opt", "gpt_bigcode"])
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""Every so many layers has full attention. The layers between have a sliding window."""
_FULL = frozenset({"full_attention", "attention", "global_attention"})
_WINDOWED = frozenset({"sliding_attention", "chunked_attention"})
_FAMILY = re.compile(r"[A-Za-z0-9_.-]{1,50}")
_MOST = 10**7
_MOST_LAYERS = 1000
_MULTI_HEAD_LATENT = frozenset(["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "minicpm3", "longcat_flash"])


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """The shape that a `config.json` describes. Raises SizingError, which names the member."""
    notes: list[str] = []
    text = config.get("text_config")
    if isinstance(text, Mapping):
        config = {"model_type": config.get("model_type"), **text}
        notes.append("Only the language model is counted: image and audio encoders need extra memory.")
    members = _Members(config)
    _check_covered(members)
    if members.family not in _KNOWN:
        kind = members.family or "absent"
        notes.append(f"The model_type {kind} is not known: it is counted as a transformer such as Llama.")
    return _ParameterCounter(members).shape(notes)


def _check_covered(members: "_Members") -> None:
    config = members.config
    if config.get("kv_lora_rank") is not None or members.family in _MULTI_HEAD_LATENT:
        raise SizingError(
            "config",
            "describes multi-head latent attention (MLA), which is not covered: send parameters, such as 671b, instead. "
            "The weights are then right, and the KV cache is an upper limit",
        )
    layer_types = config.get("layer_types")
    if isinstance(layer_types, list) and any(not _is_one_of(_FULL | _WINDOWED, kind) for kind in layer_types):
        raise _not_attention("config/layer_types")
    attention = config.get("attn_type_list")
    if isinstance(attention, list) and any(kind != 1 for kind in attention):
        raise _not_attention("config/attn_type_list")
    if config.get("is_encoder_decoder") is True:
        raise SizingError(
            "config/is_encoder_decoder",
            "must not be true: encoder-decoder models are not covered; send parameters instead of config",
        )


def _is_one_of(names: frozenset[str], value: object) -> bool:
    """A list from JSON may contain what no set can."""
    return isinstance(value, str) and value in names


def _not_attention(field: str) -> SizingError:
    return SizingError(
        field, "names layers without softmax attention, which are not covered: send parameters instead of config"
    )


@dataclass(frozen=True, slots=True)
class _Members:
    """Reads numbers under the names that the families use."""

    config: Mapping[str, Any]

    @property
    def family(self) -> str:
        """A name that sentences may contain; empty for anything else."""
        name = self.config.get("model_type")
        return name if isinstance(name, str) and _FAMILY.fullmatch(name) else ""

    def number(self, *names: str, most: int = _MOST) -> int:
        value = self.optional(*names, most=most)
        if value is None:
            raise SizingError(f"config/{names[0]}", "is missing; paste the whole config.json, or send parameters")
        return value

    def optional(self, *names: str, most: int = _MOST, least: int = 1) -> int | None:
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise SizingError(f"config/{name}", f"must be a whole number from {least} to {most}")
            return value
        return None

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.config.get(name)
        if value is not None and not isinstance(value, bool):
            raise SizingError(f"config/{name}", "must be true or false")
        return default if value is None else value


class _ParameterCounter:
    """Counts the parameters of one model."""

    def __init__(self, members: _Members) -> None:
        self._members = members
        self._family = members.family
        self._layers = members.number("num_hidden_layers", "n_layer", "num_layers", most=_MOST_LAYERS)
        self._hidden = members.number("hidden_size", "n_embd", "d_model")
        self._heads = members.number("num_attention_heads", "n_head", "num_heads")
        self._kv_heads = self._read_kv_heads()
        self._head_dim = members.optional("head_dim", "attention_head_dim") or max(1, self._hidden // self._heads)
        self._vocabulary = members.number("vocab_size")
        self._plain = self._family in _PLAIN_MLP
        self._experts = members.optional("num_local_experts", "num_experts", "n_routed_experts", least=0) or 0
        self._expert_width = members.optional("moe_intermediate_size")
        self._width = members.optional(
            "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"
        )

    def shape(self, notes: list[str]) -> ModelShape:
        sparse = self._sparse_layers()
        width = self._width or (self._expert_width if sparse == self._layers else None) or 4 * self._hidden
        expert = self._mlp(self._expert_width or self._members.optional("intermediate_size") or width)
        experts = self._members.optional("num_experts_per_tok", "experts_per_token") if sparse else None
        used = min(experts or 1, self._experts or 1)
        shared = self._shared_width()
        dense_mlp = (self._layers - sparse) * self._mlp(width)
        sparse_mlp = sparse * (self._experts * (expert + self._hidden) + (self._mlp(shared) if shared else 0))
        embedding = self._embedding()
        total = self._layers * (self._attention() + self._norms()) + dense_mlp + sparse_mlp + embedding + self._hidden
        if total > MOST_PARAMETERS:
            raise SizingError("config", f"describes {total} parameters; sizing covers at most {MOST_PARAMETERS}")
        active = total - sparse * (self._experts - used) * expert
        token_width = max(width if sparse < self._layers else 0, used * (self._expert_width or width) if sparse else 0)
        if sparse:
            notes.append(f"Mixture of experts: all {self._experts} experts are in memory, {used} serve each token.")
        return ModelShape(
            parameters=total,
            active_parameters=active,
            embedding_parameters=embedding,
            hidden=self._hidden,
            heads=self._heads,
            kv_heads=self._kv_heads,
            head_dim=self._head_dim,
            mlp_width=token_width + shared,
            vocabulary=self._vocabulary,
            windows=self._windows(),
            lora_parameters=self._adapters(sparse, width),
            longest_context=self._members.optional("max_position_embeddings", "n_positions", "seq_length"),
            notes=tuple(notes),
        )

    def _read_kv_heads(self) -> int:
        value = self._members.optional("num_key_value_heads", "num_kv_heads", "n_head_kv")
        if self._family == "falcon" and not self._members.flag("new_decoder_architecture", default=False):
            value = None
        if value is None:
            return 1 if self._members.flag("multi_query", default=self._family == "gpt_bigcode") else self._heads
        if value > self._heads:
            raise SizingError("config/num_key_value_heads", "must not exceed num_attention_heads")
        return value

    def _attention(self) -> int:
        queries, keys = self._heads * self._head_dim, self._kv_heads * self._head_dim
        matrices = self._hidden * (2 * queries + 2 * keys)
        biased = self._plain or self._family.startswith("qwen2") or self._members.flag("attention_bias", default=False)
        return matrices + (queries + 2 * keys + (self._hidden if self._plain else 0) if biased else 0)

    def _mlp(self, width: int) -> int:
        return 2 * self._hidden * width + width + self._hidden if self._plain else 3 * self._hidden * width

    def _norms(self) -> int:
        return (4 if self._plain else 2) * self._hidden

    def _embedding(self) -> int:
        tied = self._members.flag("tie_word_embeddings", default=self._family in _TIED)
        table = self._vocabulary * self._hidden
        positions = self._members.optional("n_positions", "max_position_embeddings") or 0
        return table * (1 if tied else 2) + (positions * self._hidden if self._family in _LEARNED_POSITIONS else 0)

    def _sparse_layers(self) -> int:
        if self._experts <= 1:
            return 0
        dense = set(range(min(self._layers, self._members.optional("first_k_dense_replace", least=0) or 0)))
        listed = self._members.config.get("mlp_only_layers")
        dense |= {layer for layer in listed if isinstance(layer, int)} if isinstance(listed, list) else set()
        step = self._members.optional("decoder_sparse_step", "interleave_moe_layer_step") or 1
        return sum(layer not in dense and (layer + 1) % step == 0 for layer in range(self._layers))

    def _shared_width(self) -> int:
        width = self._members.optional("shared_expert_intermediate_size", "shared_intermediate_size", least=0)
        if width is not None or self._experts <= 1:
            return width or 0
        return (self._members.optional("n_shared_experts", least=0) or 0) * (self._expert_width or self._width or 0)

    def _adapters(self, sparse: int, width: int) -> int:
        queries, keys = self._heads * self._head_dim, self._kv_heads * self._head_dim
        attention = 2 * (self._hidden + queries) + 2 * (self._hidden + keys)
        mlp = (2 if self._plain else 3) * (self._hidden + width)
        return self._layers * attention + (self._layers - sparse) * mlp

    def _windows(self) -> tuple[int | None, ...]:
        window = self._members.optional("sliding_window", "attention_chunk_size")
        layer_types = self._members.config.get("layer_types")
        if isinstance(layer_types, list) and len(layer_types) != self._layers:
            raise SizingError("config/layer_types", f"must have {self._layers} entries, one for each layer")
        if window is None or not self._members.flag("use_sliding_window", default=self._family != "qwen2"):
            return (None,) * self._layers
        if isinstance(layer_types, list):
            return tuple(None if _is_one_of(_FULL, kind) else window for kind in layer_types)
        full_every = self._members.optional("sliding_window_pattern") or _FULL_EVERY.get(self._family)
        first = self._members.optional("max_window_layers", least=0) or 0
        return tuple(
            None if layer < first or (full_every is not None and (layer + 1) % full_every == 0) else window
            for layer in range(self._layers)
        )
