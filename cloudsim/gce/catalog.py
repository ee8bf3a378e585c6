"""Google's GPU machine types, where they are sold and what they cost.

Specifications as Google publishes them for the families; prices are list prices of mid 2026, the same everywhere here
(Compute Engine itself returns no prices).
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from types import MappingProxyType

from cloudsim.world import Catalog, Gpu, MachineType, Market, Offer

PROVIDER = "gcp"
DEFAULT_PROJECT = "sim-project"

REGIONS = {
    "us-central1": tuple(f"us-central1-{letter}" for letter in "abcf"),
    "us-east4": tuple(f"us-east4-{letter}" for letter in "abc"),
    "europe-west4": tuple(f"europe-west4-{letter}" for letter in "abc"),
}

GIB = 1024
_GPUS = {
    # family: accelerator type, memory of one in GiB, metric of the regional quota
    "a2-highgpu": ("nvidia-tesla-a100", 40, "NVIDIA_A100_GPUS"),
    "a2-megagpu": ("nvidia-tesla-a100", 40, "NVIDIA_A100_GPUS"),
    "a2-ultragpu": ("nvidia-a100-80gb", 80, "NVIDIA_A100_80GB_GPUS"),
    "a3-highgpu": ("nvidia-h100-80gb", 80, "NVIDIA_H100_GPUS"),
    "a3-megagpu": ("nvidia-h100-mega-80gb", 80, "NVIDIA_H100_MEGA_GPUS"),
    "a3-edgegpu": ("nvidia-h100-80gb", 80, "NVIDIA_H100_GPUS"),
    "a3-ultragpu": ("nvidia-h200-141gb", 141, "NVIDIA_H200_GPUS"),
    "a4-highgpu": ("nvidia-b200", 180, "NVIDIA_B200_GPUS"),
    "n1-t4": ("nvidia-tesla-t4", 16, "NVIDIA_T4_GPUS"),
    "n1-v100": ("nvidia-tesla-v100", 16, "NVIDIA_V100_GPUS"),
    "g2-standard": ("nvidia-l4", 24, "NVIDIA_L4_GPUS"),
    "g4-standard": ("nvidia-rtx-pro-6000", 96, "NVIDIA_RTX_PRO_6000_GPUS"),
}
_SIZES: dict[str, tuple[int, int, int, str, str]] = {
    # name: vCPUs, memory GiB, GPUs, USD per hour on demand and as spot
    "a2-highgpu-1g": (12, 85, 1, "3.67339", "1.80385"),
    "a2-highgpu-2g": (24, 170, 2, "7.34677", "3.6077"),
    "a2-highgpu-4g": (48, 340, 4, "14.69354", "7.2154"),
    "a2-highgpu-8g": (96, 680, 8, "29.38708", "14.4308"),
    "a2-megagpu-16g": (96, 1360, 16, "55.73951", "27.34384"),
    "a2-ultragpu-1g": (12, 170, 1, "5.52382", "1.65653"),
    "a2-ultragpu-2g": (24, 340, 2, "11.04763", "3.31306"),
    "a2-ultragpu-4g": (48, 680, 4, "22.09528", "6.62612"),
    "a2-ultragpu-8g": (96, 1360, 8, "44.19056", "13.25224"),
    "a3-highgpu-1g": (26, 234, 1, "10.97906", "3.35013"),
    "a3-highgpu-2g": (52, 468, 2, "21.95812", "6.70026"),
    "a3-highgpu-4g": (104, 936, 4, "43.91623", "13.40053"),
    "a3-highgpu-8g": (208, 1872, 8, "87.83247", "26.80106"),
    "a3-megagpu-8g": (208, 1872, 8, "92.2143", "37.66478"),
    "a3-edgegpu-8g": (208, 1872, 8, "87.83247", "26.80106"),
    "a3-ultragpu-8g": (224, 2952, 8, "86.75992", "42.2565"),
    "a4-highgpu-8g": (224, 3968, 8, "128.88", "34.2368"),
    "n1-standard-4-1xt4": (4, 15, 1, "0.54", "0.16"),
    "n1-standard-8-1xt4": (8, 30, 1, "0.73", "0.21"),
    "n1-standard-16-2xt4": (16, 60, 2, "1.46", "0.42"),
    "n1-standard-32-4xt4": (32, 120, 4, "2.92", "0.84"),
    "n1-standard-8-1xv100": (8, 30, 1, "2.86", "0.82"),
    "n1-standard-16-2xv100": (16, 60, 2, "5.72", "1.64"),
    "n1-standard-32-4xv100": (32, 120, 4, "11.44", "3.28"),
    "n1-standard-96-8xv100": (96, 360, 8, "24.4", "7.2"),
    "g2-standard-4": (4, 16, 1, "0.70683", "0.29598"),
    "g2-standard-8": (8, 32, 1, "0.85362", "0.35766"),
    "g2-standard-12": (12, 48, 1, "1.00042", "0.41934"),
    "g2-standard-16": (16, 64, 1, "1.14721", "0.48102"),
    "g2-standard-24": (24, 96, 2, "2.00083", "0.83868"),
    "g2-standard-32": (32, 128, 1, "1.73438", "0.72774"),
    "g2-standard-48": (48, 192, 4, "4.00166", "1.67736"),
    "g2-standard-96": (96, 384, 8, "8.00333", "3.35472"),
    "g4-standard-48": (48, 180, 1, "4.49993", "2.25"),
    "g4-standard-96": (96, 360, 2, "8.99986", "4.5"),
    "g4-standard-192": (192, 720, 4, "17.99972", "9"),
    "g4-standard-384": (384, 1440, 8, "35.99944", "18"),
}
_SOLD_IN = {
    "us-central1": {
        "a2-highgpu": "abcf",
        "a2-megagpu": "abcf",
        "a2-ultragpu": "ac",
        "a3-highgpu": "ac",
        "a3-megagpu": "abc",
        "a3-ultragpu": "b",
        "a4-highgpu": "b",
        "n1-t4": "ab",
        "n1-v100": "a",
        "g2-standard": "abc",
        "g4-standard": "b",
    },
    "us-east4": {"a3-edgegpu": "a", "a2-ultragpu": "c", "a3-highgpu": "abc", "a3-megagpu": "abc", "g2-standard": "ac"},
    "europe-west4": {
        "a2-highgpu": "ab",
        "a2-megagpu": "ab",
        "a2-ultragpu": "a",
        "a3-highgpu": "bc",
        "a3-megagpu": "bc",
        "g2-standard": "abc",
    },
}
"""Zone letters per region and family: never every type in every zone."""

SPOT_PREFIX = "PREEMPTIBLE_"
METRICS = tuple(dict.fromkeys(metric for _, _, metric in _GPUS.values()))
_ONLY_IN_CLOUD_QUOTAS = (
    "NVIDIA_H100_MEGA_GPUS",
    "NVIDIA_H200_GPUS",
    "NVIDIA_B200_GPUS",
    "NVIDIA_RTX_PRO_6000_GPUS",
)
UNTOLD = frozenset(
    ("NVIDIA_H100_GPUS", *_ONLY_IN_CLOUD_QUOTAS, *(SPOT_PREFIX + metric for metric in _ONLY_IN_CLOUD_QUOTAS))
)
"""Limits that apply but are absent from regions.get: Cloud Quotas returns them."""
OVERALL = "GPUS_ALL_REGIONS"
"""The limit on GPUs over all regions, models and markets. It holds beside the regional ones."""
QUOTAS = frozenset((*METRICS, *(SPOT_PREFIX + metric for metric in METRICS), OVERALL))


_ATTACHED = re.compile(r"(n1-standard-\d+)-(\d+)x(t4|v100)")
"""A world's name of a machine type with accelerators that a VM adds: Google itself has only the machine type."""
_SPOT_ONLY = frozenset({"a3-ultragpu", "a4-highgpu"})
"""Families that are sold as spot, by queue and reserved, not on demand."""
HYPERDISK_ONLY = frozenset({"a3-ultragpu", "a4-highgpu", "g4-standard"})
"""Families that boot from Hyperdisk alone."""
GVNIC_ONLY = frozenset({"a3-highgpu", "a3-megagpu", "a3-edgegpu", "a3-ultragpu", "a4-highgpu", "g4-standard"})
"""Families without virtio network interfaces."""


def family(name: str) -> str:
    """`a2-highgpu` of `a2-highgpu-8g`, `n1-t4` of an N1 type with T4s."""
    attached = _ATTACHED.fullmatch(name)
    return name.rpartition("-")[0] if attached is None else f"n1-{attached[3]}"


def machine_type(name: str) -> str:
    """Google's machine type of a world's machine: without its added accelerators."""
    attached = _ATTACHED.fullmatch(name)
    return name if attached is None else attached[1]


def accelerator(name: str) -> tuple[str, int]:
    """Accelerator type and count of a machine, built in or added."""
    return _GPUS[family(name)][0], _SIZES[name][2]


def with_accelerators(machine: str, accelerator_type: str, count: int) -> str | None:
    """The world's machine of a machine type with added accelerators; None if they do not go together."""
    return next(
        (
            name
            for name in _SIZES
            if name != machine and machine_type(name) == machine and accelerator(name) == (accelerator_type, count)
        ),
        None,
    )


def _machine(name: str) -> MachineType:
    vcpus, memory_gib, gpus, _, _ = _SIZES[name]
    accelerator_type, gpu_gib, metric = _GPUS[family(name)]
    codes = MappingProxyType({Market.ON_DEMAND: metric, Market.SPOT: SPOT_PREFIX + metric})
    gpu = Gpu(accelerator_type, "NVIDIA", gpus, gpu_gib * GIB)
    sold_as = (Market.SPOT,) if family(name) in _SPOT_ONLY else (Market.ON_DEMAND, Market.SPOT)
    return MachineType(name, vcpus, memory_gib * GIB, gpu, codes, quota_amount=gpus, sold_as=sold_as)


@cache
def catalog() -> Catalog:
    """Google as simulated here."""
    places = [(region, zone) for region, zones in REGIONS.items() for zone in zones]
    offers = {name: Offer(Decimal(size[3]), Decimal(size[4])) for name, size in _SIZES.items()}
    return Catalog(
        provider=PROVIDER,
        regions=REGIONS,
        machines={name: _machine(name) for name in _SIZES},
        offers={(zone, name): offer for _, zone in places for name, offer in offers.items()},
        offered=frozenset(
            (zone, name)
            for region, zone in places
            for name in _SIZES
            if zone[-1] in _SOLD_IN[region].get(family(name), "")
        ),
    )
