"""Models that a request can name. Each entry is the part of the model's published `config.json` that sizing reads.

Source: `https://huggingface.co/NAME/blob/main/config.json`. Tests compare the parameter counts that follow with those of
the model cards.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from app.domain.sizing.configs import shape_of
from app.domain.sizing.shapes import ModelShape, SizingError


def _config(  # noqa: PLR0913, PLR0917 - the members of a config.json
    model_type: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    mlp: int,
    vocabulary: int,
    context: int,
    **more: Any,
) -> Mapping[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        **more,
    }


_LETTERS = re.compile(r"[a-z]{3,}")
_GPT_OSS = {"head_dim": 64, "sliding_window": 128, "num_experts_per_tok": 4, "attention_bias": True}
_QWEN3_MOE = {"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8}

MODELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "google/gemma-2-9b": _config(
            "gemma2", 42, 3584, 16, 8, 14_336, 256_000, 8192, head_dim=256, sliding_window=4096
        ),
        "google/gemma-2-27b": _config(
            "gemma2", 46, 4608, 32, 16, 36_864, 256_000, 8192, head_dim=128, sliding_window=4096
        ),
        "google/gemma-3-27b-it": _config(
            "gemma3_text", 62, 5376, 32, 16, 21_504, 262_208, 131_072, head_dim=128, sliding_window=1024
        ),
        "HuggingFaceH4/zephyr-7b-beta": _config(
            "mistral", 32, 4096, 32, 8, 14_336, 32_000, 32_768, sliding_window=4096
        ),
        "huggyllama/llama-7b": _config("llama", 32, 4096, 32, 32, 11_008, 32_000, 2048),
        "meta-llama/Llama-2-7b-hf": _config("llama", 32, 4096, 32, 32, 11_008, 32_000, 4096),
        "meta-llama/Llama-2-13b-hf": _config("llama", 40, 5120, 40, 40, 13_824, 32_000, 4096),
        "meta-llama/Llama-2-70b-hf": _config("llama", 80, 8192, 64, 8, 28_672, 32_000, 4096),
        "meta-llama/Llama-3.1-8B": _config("llama", 32, 4096, 32, 8, 14_336, 128_256, 131_072),
        "meta-llama/Llama-3.1-70B": _config("llama", 80, 8192, 64, 8, 28_672, 128_256, 131_072),
        "meta-llama/Llama-3.1-405B": _config("llama", 126, 16_384, 128, 8, 53_248, 128_256, 131_072),
        "meta-llama/Llama-3.2-1B": _config(
            "llama", 16, 2048, 32, 8, 8192, 128_256, 131_072, head_dim=64, tie_word_embeddings=True
        ),
        "meta-llama/Llama-3.2-3B": _config(
            "llama", 28, 3072, 24, 8, 8192, 128_256, 131_072, head_dim=128, tie_word_embeddings=True
        ),
        "meta-llama/Llama-3.3-70B-Instruct": _config("llama", 80, 8192, 64, 8, 28_672, 128_256, 131_072),
        "microsoft/phi-2": _config("phi", 32, 2560, 32, 32, 10_240, 51_200, 2048),
        "microsoft/phi-4": _config("phi3", 40, 5120, 40, 10, 17_920, 100_352, 16_384),
        "MiniMaxAI/MiniMax-M2": _config(
            "minimax_m2",
            62,
            3072,
            48,
            8,
            1536,
            200_064,
            196_608,
            head_dim=128,
            num_local_experts=256,
            num_experts_per_tok=8,
        ),
        "mistralai/Mistral-7B-v0.1": _config("mistral", 32, 4096, 32, 8, 14_336, 32_000, 32_768, sliding_window=4096),
        "mistralai/Mixtral-8x7B-v0.1": _config(
            "mixtral", 32, 4096, 32, 8, 14_336, 32_000, 32_768, num_local_experts=8, num_experts_per_tok=2
        ),
        "mistralai/Mixtral-8x22B-v0.1": _config(
            "mixtral", 56, 6144, 48, 8, 16_384, 32_000, 65_536, num_local_experts=8, num_experts_per_tok=2
        ),
        "openai-community/gpt2": _config("gpt2", 12, 768, 12, 12, 3072, 50_257, 1024),
        "openai/gpt-oss-20b": _config(
            "gpt_oss", 24, 2880, 64, 8, 2880, 201_088, 131_072, num_local_experts=32, **_GPT_OSS
        ),
        "openai/gpt-oss-120b": _config(
            "gpt_oss", 36, 2880, 64, 8, 2880, 201_088, 131_072, num_local_experts=128, **_GPT_OSS
        ),
        "EleutherAI/gpt-neox-20b": _config("gpt_neox", 44, 6144, 64, 64, 24_576, 50_432, 2048),
        "Qwen/Qwen2.5-7B": _config("qwen2", 28, 3584, 28, 4, 18_944, 152_064, 131_072),
        "Qwen/Qwen2.5-14B": _config("qwen2", 48, 5120, 40, 8, 13_824, 152_064, 131_072),
        "Qwen/Qwen2.5-32B": _config("qwen2", 64, 5120, 40, 8, 27_648, 152_064, 131_072),
        "Qwen/Qwen2.5-72B": _config("qwen2", 80, 8192, 64, 8, 29_568, 152_064, 131_072),
        "Qwen/Qwen3-8B": _config("qwen3", 36, 4096, 32, 8, 12_288, 151_936, 40_960, head_dim=128),
        "Qwen/Qwen3-32B": _config("qwen3", 64, 5120, 64, 8, 25_600, 151_936, 40_960, head_dim=128),
        "Qwen/Qwen3-30B-A3B": _config(
            "qwen3_moe", 48, 2048, 32, 4, 6144, 151_936, 40_960, moe_intermediate_size=768, **_QWEN3_MOE
        ),
        "Qwen/Qwen3-235B-A22B": _config(
            "qwen3_moe", 94, 4096, 64, 4, 12_288, 151_936, 40_960, moe_intermediate_size=1536, **_QWEN3_MOE
        ),
    }
)


def known_shape(name: str) -> ModelShape:
    """The shape of a model by its name, with or without the organisation; case does not matter. Raises SizingError."""
    spellings = {key: full for full in MODELS for key in (full.lower().partition("/")[2], full.lower())}
    plain = name.strip().lower()
    if plain not in spellings:
        base = sorted((known for known in spellings if plain.startswith(known)), key=len)
        similar = base[-1:] or get_close_matches(plain, spellings, n=1, cutoff=0.5)
        nearest = f"; the nearest name is {spellings[similar[0]]}" if similar else ""
        raise SizingError("model", f"is not in the table; send config or parameters instead{nearest}; {_names(plain)}")
    return shape_of(MODELS[spellings[plain]])


def _names(plain: str) -> str:
    """The names of the table that belong to the family of a name, `llama` of `meta-llama/llama-4`; else all names."""
    words = _LETTERS.findall(plain.rpartition("/")[2])
    family = [full for full in MODELS if words and words[0] in full.lower()]
    which = f"of the family {words[0]}" if family else "of the table"
    return f"names {which}: {', '.join(family or MODELS)}"
