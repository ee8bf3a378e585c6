"""Benchmarks that agents report: parsed strictly."""

import json
import math
from typing import Any

import pytest

from app.domain.gpus.benchmarks import MeasuredGpu, parse_benchmark

GPU = {"uuid": "GPU-1", "bf16_tflops": 271.5, "fp16_tflops": None, "memory_gbps": 1400.0}
REPORT: dict[str, Any] = {
    "agent": "1.0",
    "driver_version": "570.1",
    "libraries": {"nccl": None, "cublas": "12.8.4"},
    "gpus": [GPU, {"uuid": "GPU-2", "bf16_tflops": 250}],
    "allreduce_gbps": 180.0,
    "seconds": 41.0,
}


def test_a_report_is_read_whole() -> None:
    benchmark = parse_benchmark(json.loads(json.dumps(REPORT)))
    assert benchmark.gpus[0] == MeasuredGpu(uuid="GPU-1", bf16_tflops=271.5, memory_gbps=1400.0)
    assert benchmark.libraries == {"cublas": "12.8.4", "nccl": None}
    assert (benchmark.agent, benchmark.driver_version, benchmark.allreduce_gbps) == ("1.0", "570.1", 180.0)
    assert benchmark.slowest("bf16_tflops") == 250
    assert benchmark.slowest("fp32_tflops") is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"agent": None}, "benchmark.agent"),
        ({"agent": "x" * 101}, "benchmark.agent"),
        ({"driver_version": 570}, "benchmark.driver_version"),
        ({"gpus": []}, "benchmark.gpus"),
        ({"gpus": None}, "benchmark.gpus"),
        ({"gpus": [GPU, GPU]}, "benchmark.gpus"),
        ({"gpus": [{"uuid": f"GPU-{n}"} for n in range(65)]}, "benchmark.gpus"),
        ({"gpus": [{"bf16_tflops": 1}]}, "benchmark.gpus[0].uuid"),
        ({"gpus": [{**GPU, "bf16_tflops": math.nan}]}, "benchmark.gpus[0].bf16_tflops"),
        ({"gpus": [{**GPU, "fp32_tflops": "19"}]}, "benchmark.gpus[0].fp32_tflops"),
        ({"libraries": {"cublas": 12}}, "benchmark.libraries.cublas"),
        ({"libraries": {f"l{n}": "1" for n in range(9)}}, "benchmark.libraries"),
        ({"libraries": []}, "benchmark.libraries"),
        ({"allreduce_gbps": math.inf}, "benchmark.allreduce_gbps"),
        ({"seconds": -0.1}, "benchmark.seconds"),
        ({f"m{n}": 1 for n in range(20)}, "benchmark"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field.replace("[", r"\[")):
        parse_benchmark({**REPORT, **changes})


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_only_an_object_is_a_benchmark(value: object) -> None:
    with pytest.raises(ValueError, match="must be an object"):
        parse_benchmark(value)


@pytest.mark.parametrize("value", [-1, 1e7])
def test_a_figure_that_cannot_be_true_is_not_measured(value: float) -> None:
    read = parse_benchmark({"agent": "1.0", "gpus": [GPU, {**GPU, "uuid": "GPU-b", "bf16_tflops": value}]})
    assert [gpu.bf16_tflops for gpu in read.gpus] == [GPU["bf16_tflops"], None]
    assert read.gpus[1].memory_gbps == GPU["memory_gbps"]
