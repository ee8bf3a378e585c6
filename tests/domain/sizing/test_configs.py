"""Shapes from `config.json`: parameter counts against published ones, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.sizing.configs import shape_of
from app.domain.sizing.known_models import MODELS, known_shape
from app.domain.sizing.shapes import SizingError, parse_parameters, typical_shape

B = 10**9
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "vocab_size": 128_256,
}
EXPERTS: dict[str, Any] = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 1024,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "decoder_sparse_step": 2,
    "mlp_only_layers": [0],
    "layer_types": ["full_attention"],
    "max_window_layers": 2,
    "sliding_window_pattern": 3,
    "attn_type_list": [1],
    "multi_query": True,
    "text_config": {},
}


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        # "model size" or the parameter count on each model card, and the active ones where the card has them
        ("openai-community/gpt2", 124_439_808, None),
        ("huggyllama/llama-7b", 6_738_415_616, None),
        ("HuggingFaceH4/zephyr-7b-beta", 7_241_732_096, None),
        ("meta-llama/Llama-3.2-1B", 1_235_814_400, None),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248, None),
        ("meta-llama/Llama-3.1-70B", 70_553_706_496, None),
        ("meta-llama/Llama-3.1-405B", 405_853_388_800, None),
        ("google/gemma-2-9b", 9_241_705_984, None),
        ("google/gemma-2-27b", 27_227_128_320, None),
        ("microsoft/phi-2", 2_779_683_840, None),
        ("microsoft/phi-4", 14_659_507_200, None),
        ("EleutherAI/gpt-neox-20b", 20_554_567_680, None),
        ("Qwen/Qwen2.5-7B", 7_615_616_512, None),
        ("Qwen/Qwen2.5-72B", 72_706_203_648, None),
        ("Qwen/Qwen3-8B", 8_190_735_360, None),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704, 12.9 * B),
        ("mistralai/Mixtral-8x22B-v0.1", 140_620_634_112, 39.1 * B),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624, 3.3 * B),
        ("Qwen/Qwen3-235B-A22B", 235_093_634_560, 22.2 * B),
        ("openai/gpt-oss-20b", 20_914_757_184, 3.6 * B),
        ("openai/gpt-oss-120b", 116_829_156_672, 5.1 * B),
        ("MiniMaxAI/MiniMax-M2", 228_700_000_000, None),
    ],
)
def test_counted_parameters_are_those_of_the_model_card(name: str, total: int, active: float | None) -> None:
    shape = known_shape(name)
    assert shape.parameters == pytest.approx(total, rel=0.005)
    if active is not None:
        # cards differ in whether the embeddings count as active
        low, high = shape.active_parameters - shape.embedding_parameters, shape.active_parameters
        assert low * 0.97 <= active <= high * 1.03
    else:
        assert name.startswith("MiniMax") or shape.active_parameters == shape.parameters


@pytest.mark.parametrize("name", MODELS)
def test_every_named_model_has_a_shape_without_a_guess(name: str) -> None:
    shape = known_shape(name.partition("/")[2].upper())
    assert shape.heads % shape.kv_heads == 0
    assert shape.longest_context is not None
    assert not any("not known" in note for note in shape.notes)
    size = name.lower().replace("-", " ").split()
    for word in size:
        if word.endswith("b") and word[:-1].replace(".", "").isdigit():
            assert shape.parameters == pytest.approx(float(word[:-1]) * B, rel=0.25), name


def test_a_layer_may_have_a_window() -> None:
    assert known_shape("gemma-2-9b").windows[:4] == (4096, None, 4096, None)
    gemma3 = known_shape("google/gemma-3-27b-it").windows
    assert gemma3[:6] == (1024,) * 5 + (None,)
    assert set(known_shape("zephyr-7b-beta").windows) == {4096}
    assert set(known_shape("Llama-3.1-8B").windows) == {None}
    listed = {
        **LLAMA,
        "num_hidden_layers": 2,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    assert shape_of(listed).windows == (128, None)


def test_a_window_that_the_model_does_not_use_does_not_count() -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096}
    assert set(shape_of(qwen).windows) == {None}
    assert set(shape_of({**LLAMA, "sliding_window": 4096, "use_sliding_window": False}).windows) == {None}
    partly = shape_of({**qwen, "use_sliding_window": True, "max_window_layers": 28}).windows
    assert partly == (None,) * 28 + (4096,) * 4


def test_tied_embeddings_are_one_table() -> None:
    table = 128_256 * 4096
    tied, apart = shape_of({**LLAMA, "tie_word_embeddings": True}), shape_of(LLAMA)
    assert (tied.embedding_parameters, apart.embedding_parameters) == (table, 2 * table)
    assert apart.parameters - tied.parameters == table
    assert shape_of({**LLAMA, "model_type": "gemma"}).embedding_parameters == table


def test_a_head_may_be_wider_than_its_share() -> None:
    assert shape_of({**LLAMA, "head_dim": 256}).head_dim == 256
    assert shape_of(LLAMA).head_dim == 128


def test_layers_before_the_experts_and_shared_experts_count() -> None:
    experts = {name: EXPERTS[name] for name in ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")}
    every = shape_of({**LLAMA, **experts}).parameters
    first = shape_of({**LLAMA, **experts, "first_k_dense_replace": 1}).parameters
    assert first - every == 3 * 4096 * 14_336 - 8 * (3 * 4096 * 1024 + 4096)
    shared = shape_of({**LLAMA, **experts, "n_shared_experts": 1}).parameters
    assert shared - every == 32 * 3 * 4096 * 1024
    half = shape_of({**LLAMA, **experts, "decoder_sparse_step": 2}).parameters
    assert half - every == 16 * (first - every)


def test_the_language_model_of_a_multimodal_one_is_read() -> None:
    text = {key: value for key, value in LLAMA.items() if key != "model_type"}
    shape = shape_of({"model_type": "mistral3", "text_config": text, "vision_config": {"hidden_size": 1024}})
    assert shape.parameters == shape_of(LLAMA).parameters
    assert any("language model" in note for note in shape.notes)


def test_an_unknown_family_is_counted_with_a_note() -> None:
    assert any("brandnew" in note for note in shape_of({**LLAMA, "model_type": "brandnew"}).notes)
    assert any("absent" in note for note in shape_of({**LLAMA, "model_type": "\ud800"}).notes)


@pytest.mark.parametrize(
    ("changes", "field", "advice"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "config", "send parameters"),
        ({"model_type": "kimi_k2"}, "config", "MLA"),
        ({"layer_types": ["linear_attention"] * 32}, "config/layer_types", "send parameters"),
        ({"layer_types": ["full_attention"], "sliding_window": 8}, "config/layer_types", "32 entries"),
        ({"attn_type_list": [0, 1]}, "config/attn_type_list", "send parameters"),
        ({"is_encoder_decoder": True}, "config/is_encoder_decoder", "send parameters"),
        ({"num_hidden_layers": None}, "config/num_hidden_layers", "paste the whole config.json"),
        ({"num_hidden_layers": 10**6}, "config/num_hidden_layers", "from 1 to 1000"),
        ({"hidden_size": "4096"}, "config/hidden_size", "whole number"),
        ({"hidden_size": True}, "config/hidden_size", "whole number"),
        ({"vocab_size": -1}, "config/vocab_size", "whole number"),
        ({"num_key_value_heads": 64}, "config/num_key_value_heads", "num_attention_heads"),
        ({"tie_word_embeddings": 1}, "config/tie_word_embeddings", "true or false"),
        ({"hidden_size": 10**7, "intermediate_size": 10**7}, "config", "at most"),
    ],
)
def test_what_cannot_be_sized_names_the_member_and_what_to_do(changes: dict[str, Any], field: str, advice: str) -> None:
    with pytest.raises(SizingError) as caught:
        shape_of({**LLAMA, **changes})
    assert caught.value.field == field
    assert advice in caught.value.detail


MEMBERS = sorted({key for config in MODELS.values() for key in config} | EXPERTS.keys())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(sorted(MODELS)), st.dictionaries(st.sampled_from(MEMBERS), JSON | st.integers(0, 300), max_size=4)
)
def test_any_config_is_read_or_refused_by_its_member(name: str, changes: dict[str, Any]) -> None:
    shape, refused = None, ""
    try:
        shape = shape_of({**MODELS[name], **changes})
    except SizingError as error:
        refused = error.field
    if shape is None:
        assert refused.startswith("config")
        return
    assert 0 < shape.active_parameters <= shape.parameters
    assert 0 < shape.kv_heads <= shape.heads
    assert shape.layers > 0


@pytest.mark.parametrize(
    ("value", "count"),
    [("7b", 7 * B), ("1.3B", 1_300_000_000), ("350m", 350_000_000), ("671 b", 671 * B), (6738415616, 6738415616)],
)
def test_a_number_of_parameters_is_read(value: object, count: int) -> None:
    assert parse_parameters(value) == count


@pytest.mark.parametrize("value", ["", "b", "7x", "-7b", "1e9", 0, -1, 10**15, True, None, float("nan"), "9" * 40])
def test_what_is_no_number_of_parameters_is_refused(value: object) -> None:
    with pytest.raises(SizingError, match="such as 7b"):
        parse_parameters(value)


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SizingError, match=r"send config or parameters.*meta-llama/Llama-3.1-8B"):
        known_shape("llama-3.1-8b-instruct")


def test_a_bare_number_gets_the_shape_of_the_next_larger_model() -> None:
    assert typical_shape(7 * B).layers == 32
    assert typical_shape(9 * B).layers == 48
    assert typical_shape(10**13).layers == 126


def test_an_unknown_name_gets_the_names_of_its_family_or_all() -> None:
    with pytest.raises(SizingError) as family:
        known_shape("meta-llama/Llama-4-Scout")
    assert "names of the family llama: huggyllama/llama-7b, " in str(family.value)
    assert "Qwen" not in str(family.value)
    with pytest.raises(SizingError) as unknown:
        known_shape("falcon-180b")
    assert f"names of the table: {', '.join(MODELS)}" in str(unknown.value)
