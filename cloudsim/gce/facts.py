"""Google's GPU machine types, where they are sold and what they cost.

Specifications as Google publishes them for the families; prices are list prices of mid 2026, the same everywhere here
(Compute Engine itself tells no prices).
"""

from __future__ import annotations

from decimal import Decimal
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
    "g2-standard": ("nvidia-l4", 24, "NVIDIA_L4_GPUS"),
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
    "g2-standard-4": (4, 16, 1, "0.70683", "0.29598"),
    "g2-standard-8": (8, 32, 1, "0.85362", "0.35766"),
    "g2-standard-12": (12, 48, 1, "1.00042", "0.41934"),
    "g2-standard-16": (16, 64, 1, "1.14721", "0.48102"),
    "g2-standard-24": (24, 96, 2, "2.00083", "0.83868"),
    "g2-standard-32": (32, 128, 1, "1.73438", "0.72774"),
    "g2-standard-48": (48, 192, 4, "4.00166", "1.67736"),
    "g2-standard-96": (96, 384, 8, "8.00333", "3.35472"),
}
_SOLD_IN = {
    "us-central1": {
        "a2-highgpu": "abcf",
        "a2-megagpu": "abcf",
        "a2-ultragpu": "ac",
        "a3-highgpu": "ac",
        "a3-megagpu": "abc",
        "g2-standard": "abc",
    },
    "us-east4": {"a2-ultragpu": "c", "a3-highgpu": "abc", "a3-megagpu": "abc", "g2-standard": "ac"},
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
UNTOLD = frozenset(("NVIDIA_H100_GPUS", "NVIDIA_H100_MEGA_GPUS", f"{SPOT_PREFIX}NVIDIA_H100_MEGA_GPUS"))
"""Limits that hold and that regions.get has no words for: Cloud Quotas tells them."""
QUOTAS = frozenset((*METRICS, *(SPOT_PREFIX + metric for metric in METRICS)))


def family(machine_type: str) -> str:
    """`a2-highgpu` of `a2-highgpu-8g`."""
    return machine_type.rpartition("-")[0]


def _machine(name: str) -> MachineType:
    vcpus, memory_gib, gpus, _, _ = _SIZES[name]
    accelerator, gpu_gib, metric = _GPUS[family(name)]
    codes = MappingProxyType({Market.ON_DEMAND: metric, Market.SPOT: SPOT_PREFIX + metric})
    gpu = Gpu(accelerator, "NVIDIA", gpus, gpu_gib * GIB)
    return MachineType(name, vcpus, memory_gib * GIB, gpu, codes, quota_amount=gpus)


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
