"""Spellings of GPU models."""

import tomllib
from pathlib import Path

import pytest

from app.domain.gpus.models import ALIASES, GpuModel, is_arm64_system, is_confidential, nearest, resolve

ROOT = Path(__file__).resolve().parents[3]
CATALOGUE = {
    gpu["model"]: gpu["memory_gib"]
    for path in ROOT.glob("workers/providers/*/catalogue.toml")
    for gpu in (entry["gpu"] for entry in tomllib.loads(path.read_text())["types"])
}


@pytest.mark.parametrize(
    ("text", "name", "memory_gib"),
    [
        ("H100", "H100", None),
        ("h100", "H100", None),
        ("H100 SXM", "H100", None),
        ("nvidia-h100-80gb", "H100", 80),
        ("nvidia-h100-mega-80gb", "H100", 80),
        ("A100-80GB", "A100", 80),
        ("A100:80GB", "A100", 80),
        ("A100 80G", "A100", 80),
        ("a100_80gib", "A100", 80),
        ("NVIDIA A100-SXM4-80GB", "A100", 80),
        ("nvidia-tesla-t4", "T4", None),
        ("Tesla V100-SXM2-16GB", "V100", 16),
        ("a10g", "A10G", None),
        ("A10", "A10", None),
        ("AMD Instinct MI300X", "MI300X", None),
        ("rtx pro 6000", "RTX PRO 6000", None),
        ("B200-192GB", "B200", 180),
    ],
)
def test_a_spelling_stands_for_a_model_and_perhaps_its_memory(text: str, name: str, memory_gib: int | None) -> None:
    assert resolve(text, CATALOGUE) == GpuModel(name=name, memory_gib=memory_gib)


@pytest.mark.parametrize(
    ("text", "near"), [("H1000", "H100"), ("A100-60GB", "A100"), ("L40", "L40S"), ("nvidia", None), ("quantum", None)]
)
def test_an_unknown_model_has_perhaps_a_similar_one(text: str, near: str | None) -> None:
    assert resolve(text, CATALOGUE) is None
    assert nearest(text, CATALOGUE) == near


def test_only_models_of_the_catalogue_are_known() -> None:
    assert resolve("H100", ["T4"]) is None
    assert nearest("nvidia-tesla-t40", ["T4"]) == "T4"


def test_every_model_of_the_shipped_catalogues_has_spellings_and_each_spelling_one_meaning() -> None:
    assert set(CATALOGUE) == set(ALIASES)
    for name, aliases in ALIASES.items():
        for alias in aliases:
            assert resolve(alias.text, CATALOGUE) == GpuModel(name=name, memory_gib=alias.memory_gib), alias
    assert all(resolve(name, CATALOGUE) == GpuModel(name=name) for name in CATALOGUE)


@pytest.mark.parametrize(
    ("text", "is_arm64"),
    [
        ("a4x-highgpu-4g", True),
        ("a4x-maxgpu-4g-metal", True),
        ("u-p6e-gb200x72", True),
        ("p6e-gb200.36xlarge", True),
        ("Standard_ND128isr_NDR_GB200_v6", True),
        ("Standard_ND128isr_GB300_v6", True),
        ("NVIDIA GB200", True),
        ("GH200", True),
        ("a4-highgpu-8g", False),
        ("p6-b200.48xlarge", False),
        ("B300", False),
        ("H200", False),
    ],
)
def test_systems_with_arm_cpus_are_known_by_name(text: str, *, is_arm64: bool) -> None:
    assert is_arm64_system(text) is is_arm64


@pytest.mark.parametrize(
    ("text", "confidential"),
    [("Standard_NCC40ads_H100_v5", True), ("Standard_NC40ads_H100_v5", False), ("Standard_NC24ads_A100_v4", False)],
)
def test_sizes_of_confidential_vms_are_known_by_name(text: str, *, confidential: bool) -> None:
    assert is_confidential(text) is confidential
