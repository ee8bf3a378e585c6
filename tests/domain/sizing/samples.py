"""Random models and workloads."""

from hypothesis import strategies as st

from app.domain.sizing.memory import QUANTIZED, Optimizer, Precision, Sharding, SizingTask, Workload
from app.domain.sizing.shapes import ModelShape, typical_shape

parameters = st.integers(min_value=10**6, max_value=10**12)


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    """A model with its own attention."""
    kv_heads = draw(st.integers(min_value=1, max_value=64))
    count = draw(parameters)
    return ModelShape(
        parameters=count,
        active_parameters=count,
        embedding_parameters=draw(st.integers(min_value=0, max_value=count)),
        hidden=draw(st.integers(min_value=64, max_value=20_000)),
        heads=kv_heads * draw(st.integers(min_value=1, max_value=16)),
        kv_heads=kv_heads,
        head_dim=draw(st.integers(min_value=16, max_value=256)),
        mlp_width=draw(st.integers(min_value=64, max_value=60_000)),
        vocabulary=draw(st.integers(min_value=1000, max_value=300_000)),
        windows=tuple(draw(st.lists(st.none() | st.integers(min_value=1, max_value=10_000), min_size=1, max_size=80))),
        lora_parameters=draw(st.integers(min_value=1, max_value=10**8)),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A workload that sizing accepts."""
    task = draw(st.sampled_from(SizingTask))
    inference = task is SizingTask.INFERENCE
    precisions = [p for p in Precision if task is not SizingTask.TRAINING or p not in QUANTIZED]
    shardings = [None, Sharding.NONE] + [s for s in Sharding if (s is Sharding.TENSOR) is inference]
    return Workload(
        task=task,
        precision=draw(st.sampled_from(precisions)),
        context=draw(st.integers(min_value=1, max_value=1_000_000)),
        concurrency=draw(st.integers(min_value=1, max_value=1000)),
        batch=draw(st.integers(min_value=1, max_value=1000)),
        optimizer=draw(st.sampled_from(Optimizer)),
        sharding=draw(st.sampled_from(shardings)),
        kv_precision=draw(st.sampled_from([None, Precision.FP8, Precision.BF16, Precision.FP32])),
        mixed_precision=draw(st.booleans()),
        gradient_checkpointing=draw(st.booleans()),
        lora_rank=draw(st.integers(min_value=1, max_value=256)),
    )


any_shape = shapes() | parameters.map(typical_shape)
