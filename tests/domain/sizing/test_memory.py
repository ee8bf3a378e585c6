"""Memory of models: published figures within 3 %, and what must hold for any model."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.offerings import GpuVendor, Interconnect
from app.domain.sizing.fits import GIB, GpuClass, GpuFit, fits
from app.domain.sizing.known_models import known_shape
from app.domain.sizing.memory import (
    Optimizer,
    Precision,
    Sharding,
    SizingTask,
    Workload,
    kv_cache_bytes,
    memory_parts,
    memory_per_gpu,
    weight_bytes,
)
from app.domain.sizing.shapes import ModelShape, SizingError, typical_shape
from tests.domain.sizing.samples import any_shape, parameters, workloads

INFERENCE = Workload(task=SizingTask.INFERENCE)
TRAINING = Workload(task=SizingTask.TRAINING)
LORA = Workload(task=SizingTask.FINETUNING_LORA)


def fit(shape: ModelShape, workload: Workload, gpu: GpuClass) -> GpuFit | None:
    """The smallest number of GPUs that fits."""
    return next(fits(shape, workload, gpu), None)


def near(value: float) -> object:
    return pytest.approx(value, rel=0.03)


def test_zephyr_7b_as_accelerate_documents_it() -> None:
    """`accelerate estimate-memory`, in units of 1024**3: 13.74 GB in bf16, and 54.98 GB to train it with Adam in bf16."""
    zephyr = known_shape("zephyr-7b-beta")
    assert weight_bytes(zephyr, Precision.BF16) == near(13.74 * GIB)
    states = memory_parts(zephyr, replace(TRAINING, mixed_precision=False))
    assert states.total - states.activations == near(54.98 * GIB)


def test_minimax_m2_as_hf_mem_documents_it() -> None:
    """The README of hf-mem: fp8 weights, and an fp8 KV cache for the model's longest context and one sequence."""
    minimax = known_shape("MiniMax-M2")
    workload = replace(INFERENCE, precision=Precision.FP8, kv_precision=Precision.FP8, context=196_608)
    parts = memory_parts(minimax, workload)
    assert minimax.longest_context == workload.context
    assert parts.weights == near(230_121_630_720)
    assert parts.kv_cache == 24_964_497_408


def test_llama_7b_as_published() -> None:
    """28 GB in fp32 and 14 GB in fp16, of 10**9 bytes, for the nominal 7 billion parameters; the model has 6.74."""
    nominal = typical_shape(7 * 10**9)
    assert weight_bytes(nominal, Precision.FP32) == 28 * 10**9
    assert weight_bytes(nominal, Precision.FP16) == 14 * 10**9
    assert weight_bytes(known_shape("llama-7b"), Precision.FP16) == 2 * 6_738_415_616


def test_llama_2_7b_keeps_half_a_mebibyte_for_each_token() -> None:
    """The figure of the vLLM and GQA literature: 2 * 32 layers * 32 heads * 128 * 2 bytes."""
    assert kv_cache_bytes(known_shape("Llama-2-7b-hf"), replace(INFERENCE, context=1)) == 524_288


def test_embeddings_keep_16_bits_when_the_weights_are_quantized() -> None:
    llama = known_shape("Llama-3.1-8B")
    tables = 2 * 128_256 * 4096
    assert weight_bytes(llama, Precision.INT4) == (llama.parameters - tables) // 2 + 2 * tables
    assert weight_bytes(llama, Precision.INT8) == llama.parameters + tables


def test_mixed_training_with_adamw_takes_18_bytes_for_each_parameter() -> None:
    shape = known_shape("Llama-3.1-8B")
    parts = memory_parts(shape, TRAINING)
    assert (parts.weights, parts.gradients, parts.optimizer) == tuple(shape.parameters * n for n in (6, 4, 8))
    assert (parts.kv_cache, parts.overhead) == (0, 0)
    assert parts.total == 18 * shape.parameters + parts.activations


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [(Optimizer.ADAMW, 8), (Optimizer.ADAMW_8BIT, 2), (Optimizer.SGD, 4), (Optimizer.ADAFACTOR, 4)],
)
def test_an_optimizer_keeps_states(optimizer: Optimizer, states: int) -> None:
    shape = typical_shape(10**9)
    assert memory_parts(shape, replace(TRAINING, optimizer=optimizer)).optimizer == states * 10**9


def test_lora_takes_the_frozen_weights_and_18_bytes_for_each_trained_parameter() -> None:
    shape = known_shape("Llama-2-7b-hf")
    adapters = 39_976_960  # PEFT prints this number for rank 16 on all seven linear layers
    parts = memory_parts(shape, LORA)
    assert parts.total - parts.activations == 2 * shape.parameters + 18 * adapters
    four_bits = memory_parts(shape, replace(LORA, precision=Precision.INT4))
    assert parts.weights - four_bits.weights == pytest.approx(
        1.5 * (shape.parameters - shape.embedding_parameters), abs=1
    )


def test_a_window_limits_the_cache() -> None:
    zephyr = known_shape("zephyr-7b-beta")
    assert kv_cache_bytes(zephyr, replace(INFERENCE, context=32_768)) == kv_cache_bytes(zephyr, INFERENCE)
    gemma = known_shape("gemma-2-9b")
    short, long = (kv_cache_bytes(gemma, replace(INFERENCE, context=n)) for n in (4096, 8192))
    assert long == short * 3 // 2, "half of the layers have a window of 4096"


def test_zero_shards_more_with_each_stage() -> None:
    shape = typical_shape(7 * 10**9)
    stages = (Sharding.NONE, Sharding.ZERO_1, Sharding.ZERO_2, Sharding.ZERO_3)
    needs = [memory_per_gpu(shape, replace(TRAINING, sharding=stage), 8) for stage in stages]
    assert needs == sorted(needs, reverse=True)
    assert len(set(needs)) == 4
    activations = memory_parts(shape, TRAINING).activations
    assert needs[3] == pytest.approx(18 * 7 * 10**9 / 8 + activations, abs=8)


@pytest.mark.parametrize("precision", [Precision.FP8, Precision.INT8, Precision.INT4])
def test_training_in_few_bits_is_refused_with_what_to_do(precision: Precision) -> None:
    with pytest.raises(SizingError, match=r"precision: must be bf16, fp16 or fp32"):
        Workload(task=SizingTask.TRAINING, precision=precision)


def test_sharding_of_another_task_is_refused() -> None:
    with pytest.raises(SizingError, match="none or tensor"):
        Workload(task=SizingTask.INFERENCE, sharding=Sharding.ZERO_3)
    with pytest.raises(SizingError, match="zero_3"):
        Workload(task=SizingTask.TRAINING, sharding=Sharding.TENSOR)


def test_an_impossible_amount_is_refused() -> None:
    with pytest.raises(SizingError, match="context: together with concurrency"):
        memory_parts(typical_shape(10**14), replace(INFERENCE, context=10**9, concurrency=10**6))


@given(any_shape, workloads())
def test_the_parts_add_up_and_none_is_negative(shape: ModelShape, workload: Workload) -> None:
    parts = memory_parts(shape, workload)
    each = (parts.weights, parts.kv_cache, parts.gradients, parts.optimizer, parts.activations, parts.overhead)
    assert min(each) >= 0
    assert parts.total == sum(each)
    assert parts.weights > 0
    assert 0 <= parts.master <= parts.weights


@given(any_shape, workloads(), st.sampled_from(["context", "concurrency", "batch", "lora_rank"]), st.integers(1, 1000))
def test_more_work_never_takes_less(shape: ModelShape, workload: Workload, name: str, more: int) -> None:
    larger = replace(workload, **{name: getattr(workload, name) + more})
    for gpus in (1, 8):
        assert memory_per_gpu(shape, larger, gpus) >= memory_per_gpu(shape, workload, gpus)


@given(parameters, parameters, workloads())
def test_more_parameters_never_take_less(one: int, other: int, workload: Workload) -> None:
    small, large = (typical_shape(count) for count in sorted((one, other)))
    assert memory_parts(large, workload).total >= memory_parts(small, workload).total


@given(any_shape, workloads())
def test_more_gpus_never_need_more_of_each(shape: ModelShape, workload: Workload) -> None:
    needs = [memory_per_gpu(shape, workload, gpus) for gpus in (1, 2, 4, 8, 16)]
    assert all(later <= earlier + 8 for earlier, later in pairwise(needs)), "but for rounding up"
    assert needs[0] == pytest.approx(memory_parts(shape, workload).total, abs=8)


@given(any_shape, workloads(), st.integers(min_value=1, max_value=300))
def test_a_fit_is_the_smallest_number_that_has_the_memory(shape: ModelShape, workload: Workload, memory: int) -> None:
    links = dict.fromkeys((1, 2, 4, 8), Interconnect.NVSWITCH)
    gpu = GpuClass(model="X", memory_gib=memory, vendor=GpuVendor.NVIDIA, links=links)
    enough = [n for n in links if memory_per_gpu(shape, workload, n) <= gpu.usable_bytes]
    found = fit(shape, workload, gpu)
    if found is None:
        assert not enough
        return
    assert found.count == min(enough)
    assert 0 <= found.margin_percent <= 100
    assert (found.interconnect is None) == (found.count == 1)


def test_tensor_parallelism_uses_as_many_gpus_as_divide_the_heads() -> None:
    qwen = known_shape("Qwen2.5-7B")
    assert (qwen.heads, qwen.kv_heads) == (28, 4)
    assert memory_per_gpu(qwen, INFERENCE, 8) == memory_per_gpu(qwen, INFERENCE, 7)
    long = replace(INFERENCE, context=100_000)
    assert memory_per_gpu(qwen, long, 7) - memory_per_gpu(qwen, INFERENCE, 7) == pytest.approx(
        1.2 * (kv_cache_bytes(qwen, long) - kv_cache_bytes(qwen, INFERENCE)) / 4, abs=8
    ), "each GPU keeps at least one KV head"


def test_a_gpu_without_bf16_is_no_fit_for_it() -> None:
    old = GpuClass(model="V100", memory_gib=32, vendor=GpuVendor.NVIDIA, links={1: Interconnect.PCIE})
    assert fit(typical_shape(10**9), INFERENCE, old) is None
    found = fit(typical_shape(10**9), replace(INFERENCE, precision=Precision.FP16), old)
    assert found is not None


def test_a_70b_model_in_bf16_needs_four_h100_and_nvlink() -> None:
    links = dict.fromkeys((1, 2, 4, 8), Interconnect.NVSWITCH)
    h100 = GpuClass(model="H100", memory_gib=80, vendor=GpuVendor.NVIDIA, links=links)
    found = fit(known_shape("Llama-3.1-70B"), INFERENCE, h100)
    assert found is not None
    assert (found.count, found.interconnect) == (4, Interconnect.NVLINK)
