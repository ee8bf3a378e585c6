"""AWS's GPU instance types, where they are sold and what they cost.

Specifications as AWS publishes them for the families; GPU memory is the nominal size of the card. On-demand
prices are list prices of mid 2026 in us-east-1 times a factor per region; spot prices are made up,
different in every zone, and steady until somebody moves them.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal
from functools import cache
from types import MappingProxyType

from cloudsim.world import Catalog, Gpu, MachineType, Market, Offer

PROVIDER = "aws"

REGIONS = {
    "us-east-1": tuple(f"us-east-1{letter}" for letter in "abcdef"),
    "us-east-2": tuple(f"us-east-2{letter}" for letter in "abc"),
    "us-west-2": tuple(f"us-west-2{letter}" for letter in "abcd"),
    "eu-west-1": tuple(f"eu-west-1{letter}" for letter in "abc"),
}
ZONE_ID_PREFIX = {"us-east-1": "use1", "us-east-2": "use2", "us-west-2": "usw2", "eu-west-1": "euw1"}
_PRICE_FACTOR = {
    "us-east-1": Decimal(1),
    "us-east-2": Decimal(1),
    "us-west-2": Decimal(1),
    "eu-west-1": Decimal("1.11"),
}

GIB = 1024
_GPUS = {
    "p4d": ("A100", 40 * GIB),
    "p4de": ("A100", 80 * GIB),
    "p5": ("H100", 80 * GIB),
    "p5e": ("H200", 141 * GIB),
    "p6-b200": ("B200", 180 * GIB),
    "p6-b300": ("B300", 288 * GIB),
    "g4dn": ("T4", 16 * GIB),
    "g5": ("A10G", 24 * GIB),
    "g6": ("L4", 24 * GIB),
    "g6e": ("L40S", 48 * GIB),
    "g6f": ("L4", 3 * GIB),
    "gr6": ("L4", 24 * GIB),
    "g7": ("RTX PRO 4500", 32 * GIB),
    "g7e": ("RTX PRO Server 6000", 96 * GIB),
}
_SIZES: dict[str, tuple[int, int, int, str]] = {
    # name: vCPUs, memory GiB, GPUs, USD per hour on demand in us-east-1
    "p4d.24xlarge": (96, 1152, 8, "21.957642"),
    "p4de.24xlarge": (96, 1152, 8, "27.44705"),
    "p5.48xlarge": (192, 2048, 8, "55.04"),
    "p5e.48xlarge": (192, 2048, 8, "60"),
    "p6-b200.48xlarge": (192, 2048, 8, "113.9328"),
    "p6-b300.48xlarge": (192, 4096, 8, "142.416"),
    "g4dn.xlarge": (4, 16, 1, "0.526"),
    "g4dn.2xlarge": (8, 32, 1, "0.752"),
    "g4dn.4xlarge": (16, 64, 1, "1.204"),
    "g4dn.8xlarge": (32, 128, 1, "2.176"),
    "g4dn.12xlarge": (48, 192, 4, "3.912"),
    "g4dn.16xlarge": (64, 256, 1, "4.352"),
    "g4dn.metal": (96, 384, 8, "7.824"),
    "g5.xlarge": (4, 16, 1, "1.006"),
    "g5.2xlarge": (8, 32, 1, "1.212"),
    "g5.4xlarge": (16, 64, 1, "1.624"),
    "g5.8xlarge": (32, 128, 1, "2.448"),
    "g5.12xlarge": (48, 192, 4, "5.672"),
    "g5.16xlarge": (64, 256, 1, "4.096"),
    "g5.24xlarge": (96, 384, 4, "8.144"),
    "g5.48xlarge": (192, 768, 8, "16.288"),
    "g6.xlarge": (4, 16, 1, "0.8048"),
    "g6.2xlarge": (8, 32, 1, "0.9776"),
    "g6.4xlarge": (16, 64, 1, "1.3232"),
    "g6.8xlarge": (32, 128, 1, "2.0144"),
    "g6.12xlarge": (48, 192, 4, "4.6016"),
    "g6.16xlarge": (64, 256, 1, "3.3968"),
    "g6.24xlarge": (96, 384, 4, "6.6752"),
    "g6.48xlarge": (192, 768, 8, "13.3504"),
    "g6e.xlarge": (4, 32, 1, "1.861"),
    "g6e.2xlarge": (8, 64, 1, "2.24208"),
    "g6e.4xlarge": (16, 128, 1, "3.00424"),
    "g6e.8xlarge": (32, 256, 1, "4.52856"),
    "g6e.12xlarge": (48, 384, 4, "10.49264"),
    "g6e.16xlarge": (64, 512, 1, "7.57719"),
    "g6e.24xlarge": (96, 768, 4, "15.06559"),
    "g6e.48xlarge": (192, 1536, 8, "30.13118"),
    "g6f.large": (2, 8, 1, "0.202"),
    "gr6.4xlarge": (16, 128, 1, "1.539"),
    "g7.2xlarge": (8, 32, 1, "1.6"),
    "g7e.2xlarge": (8, 64, 1, "3.36"),
    "g7e.48xlarge": (192, 2048, 8, "33.14"),
}
_SPOT_ONLY = frozenset({"p5e"})
"""Families that are sold as capacity blocks and as spot, not on demand."""
ENA_EXPRESS = frozenset(
    {"p5.48xlarge", "p5e.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge", "g6.48xlarge", "g7e.48xlarge"}
    | {"g6e.12xlarge", "g6e.24xlarge", "g6e.48xlarge"}
)
"""Types with ENA Express, as DescribeInstanceTypes returns them (`EnaSrdSupported`)."""
EFA_CARDS = MappingProxyType(
    {
        **dict.fromkeys(("p4d.24xlarge", "p4de.24xlarge", "g6e.48xlarge", "g7e.48xlarge"), range(4)),
        **dict.fromkeys(("p5.48xlarge", "p5e.48xlarge"), range(32)),
        "p6-b200.48xlarge": range(8),
        "p6-b300.48xlarge": range(1, 17),
        "g6e.24xlarge": range(2),
        **dict.fromkeys(("g4dn.8xlarge", "g4dn.12xlarge", "g4dn.16xlarge", "g4dn.metal"), range(1)),
        **{f"{family}.{size}xlarge": range(1) for family in ("g5", "g6") for size in (8, 12, 16, 24, 48)},
        **{f"g6e.{size}xlarge": range(1) for size in (8, 12, 16)},
    }
)
"""The network cards that take an EFA interface (`EfaInfo`, `NetworkCards`). p6-b300 has Ethernet alone on the first card."""
_NEW = dict.fromkeys(("p5e", "p6-b200", "p6-b300", "g6f", "gr6", "g7", "g7e"), "a")
_SOLD_IN = {
    "us-east-1": {
        "p4d": "abcd",
        "p4de": "cd",
        "p5": "abdf",
        "g4dn": "abcdf",
        "g5": "abcdf",
        "g6": "abcdf",
        "g6e": "abcd",
    },
    "us-east-2": {"p4d": "abc", "p5": "abc", "g4dn": "abc", "g5": "abc", "g6": "abc", "g6e": "bc", **_NEW},
    "us-west-2": {"p4d": "abcd", "p4de": "abc", "p5": "abcd", "g4dn": "abcd", "g5": "abc", "g6": "abc", "g6e": "bc"},
    "eu-west-1": {"p4d": "b", "g4dn": "abc", "g5": "abc"},
}
"""Zone letters per region and family: never every type in every zone."""

ON_DEMAND_G, ON_DEMAND_P = "L-DB2E81BA", "L-417A185B"
SPOT_G, SPOT_P, SPOT_P5 = "L-3819A6DF", "L-7212CCBC", "L-C4BD4855"
QUOTA_NAMES = {
    ON_DEMAND_P: "Running On-Demand P instances",
    ON_DEMAND_G: "Running On-Demand G and VT instances",
    SPOT_P: "All P4, P3 and P2 Spot Instance Requests",
    SPOT_P5: "All P5 Spot Instance Requests",
    SPOT_G: "All G and VT Spot Instance Requests",
}


def family(instance_type: str) -> str:
    """`p4d` of `p4d.24xlarge`."""
    return instance_type.partition(".")[0]


def _quota_codes(of_family: str) -> MappingProxyType[Market, str]:
    if of_family.startswith("g"):
        codes = {Market.ON_DEMAND: ON_DEMAND_G, Market.SPOT: SPOT_G}
    else:
        codes = {Market.ON_DEMAND: ON_DEMAND_P, Market.SPOT: SPOT_P5 if of_family.startswith("p5") else SPOT_P}
    return MappingProxyType(codes)


def _machine(name: str) -> MachineType:
    vcpus, memory_gib, gpus, _ = _SIZES[name]
    gpu_name, gpu_memory = _GPUS[family(name)]
    gpu = Gpu(gpu_name, "NVIDIA", gpus, gpu_memory)
    sold_as = (Market.SPOT,) if family(name) in _SPOT_ONLY else (Market.ON_DEMAND, Market.SPOT)
    return MachineType(name, vcpus, memory_gib * GIB, gpu, _quota_codes(family(name)), sold_as=sold_as)


def _offer(region: str, zone: str, name: str) -> Offer:
    on_demand = Decimal(_SIZES[name][3]) * _PRICE_FACTOR[region]
    percent = 30 + hashlib.sha256(f"{zone}/{name}".encode()).digest()[0] % 46
    return Offer(on_demand, (on_demand * percent / 100).quantize(Decimal("0.0001")))


@cache
def catalog() -> Catalog:
    """AWS as simulated here."""
    places = [(region, zone) for region, zones in REGIONS.items() for zone in zones]
    return Catalog(
        provider=PROVIDER,
        regions=REGIONS,
        machines={name: _machine(name) for name in _SIZES},
        offers={(zone, name): _offer(region, zone, name) for region, zone in places for name in _SIZES},
        offered=frozenset(
            (zone, name)
            for region, zone in places
            for name in _SIZES
            if zone[-1] in _SOLD_IN[region].get(family(name), "")
        ),
    )
