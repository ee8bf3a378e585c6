"""Azure's GPU sizes, where they are sold and what they cost.

Specifications and prices as Azure publishes them; a size is sold either by zone or in the region as a whole, which is then
its zone. On-demand prices are list prices of mid 2026 in eastus times a factor per region; spot is a steady share of them.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from types import MappingProxyType

from cloudsim.world import Catalog, Gpu, MachineType, Market, Offer

PROVIDER = "azure"
SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
"""Where the local stack and most tests are."""
GROUP = "gpulease"
"""The resource group of planted VMs."""

ZONED = {"eastus": "123", "eastus2": "123", "westeurope": "123"}
REGIONS = {region: (*(f"{region}-{number}" for number in numbers), region) for region, numbers in ZONED.items()}
_PRICE_FACTOR = {"eastus": Decimal(1), "eastus2": Decimal(1), "westeurope": Decimal("1.25")}

GIB = 1024
ND_A100, NDM_A100 = "standardNDASv4_A100Family", "standardNDAMSv4_A100Family"
ND_H100, ND_H200, ND_MI300X = "standardNDSH100v5Family", "standardNDISRH200V5Family", "standardNDISRMI300XV5Family"
NC_T4, NC_A100 = "Standard NCASv3_T4 Family", "StandardNCADSA100v4Family"
NC_H100, NV_A10 = "StandardNCadsH100v5Family", "StandardNVADSA10v5Family"
NC_RTX = "StandardNCdsRTXPRO6000BSEv6XLFamily"
GENERATION_2 = frozenset({ND_H100, ND_H200, ND_MI300X, NC_H100, NC_RTX})
"""Families whose sizes boot images of hypervisor generation 2 alone."""
SPOT_CORES = "lowPriorityCores"
CORES = "cores"
"""The quota of all on-demand VMs of a region. It holds beside that of each family."""
QUOTA_NAMES = {
    CORES: "Total Regional vCPUs",
    SPOT_CORES: "Total Regional Spot vCPUs",
    ND_A100: "Standard NDASv4_A100 Family vCPUs",
    NDM_A100: "Standard NDAMSv4_A100 Family vCPUs",
    ND_H100: "Standard NDSH100v5 Family vCPUs",
    ND_H200: "Standard NDISRH200V5 Family vCPUs",
    ND_MI300X: "Standard NDISRMI300XV5 Family vCPUs",
    NC_T4: "Standard NCASv3_T4 Family vCPUs",
    NC_A100: "Standard NCADSA100v4 Family vCPUs",
    NC_H100: "Standard NCadsH100v5 Family vCPUs",
    NV_A10: "Standard NVADSA10v5 Family vCPUs",
    NC_RTX: "Standard NCdsRTXPRO6000BSEv6XL Family vCPUs",
}

_SIZES: dict[str, tuple[str, int, int, tuple[str, str, int, int], str]] = {
    # name: family, vCPUs, memory GiB, (GPU, maker, count, GiB each), USD per hour on demand in eastus
    "Standard_ND96asr_v4": (ND_A100, 96, 900, ("A100", "NVIDIA", 8, 40), "27.197"),
    "Standard_ND96amsr_A100_v4": (NDM_A100, 96, 1800, ("A100", "NVIDIA", 8, 80), "32.77"),
    "Standard_ND96isr_H100_v5": (ND_H100, 96, 1900, ("H100", "NVIDIA", 8, 80), "98.32"),
    "Standard_ND96isr_H200_v5": (ND_H200, 96, 1850, ("H200", "NVIDIA", 8, 141), "84.8"),
    "Standard_ND96isr_MI300X_v5": (ND_MI300X, 96, 1850, ("MI300X", "AMD", 8, 192), "48"),
    "Standard_ND96is_MI300X_v5": (ND_MI300X, 96, 1850, ("MI300X", "AMD", 8, 192), "48"),
    "Standard_NC4as_T4_v3": (NC_T4, 4, 28, ("T4", "NVIDIA", 1, 16), "0.526"),
    "Standard_NC8as_T4_v3": (NC_T4, 8, 56, ("T4", "NVIDIA", 1, 16), "0.752"),
    "Standard_NC16as_T4_v3": (NC_T4, 16, 110, ("T4", "NVIDIA", 1, 16), "1.204"),
    "Standard_NC64as_T4_v3": (NC_T4, 64, 440, ("T4", "NVIDIA", 4, 16), "4.352"),
    "Standard_NC24ads_A100_v4": (NC_A100, 24, 220, ("A100", "NVIDIA", 1, 80), "3.673"),
    "Standard_NC48ads_A100_v4": (NC_A100, 48, 440, ("A100", "NVIDIA", 2, 80), "7.346"),
    "Standard_NC96ads_A100_v4": (NC_A100, 96, 880, ("A100", "NVIDIA", 4, 80), "14.692"),
    "Standard_NC40ads_H100_v5": (NC_H100, 40, 320, ("H100", "NVIDIA", 1, 94), "6.98"),
    "Standard_NC80adis_H100_v5": (NC_H100, 80, 640, ("H100", "NVIDIA", 2, 94), "13.96"),
    "Standard_NC24lds_xl_RTXPRO6000BSE_v6": (NC_RTX, 24, 72, ("RTX PRO 6000", "NVIDIA", 1, 24), "1.15"),
    "Standard_NC36ds_xl_RTXPRO6000BSE_v6": (NC_RTX, 36, 132, ("RTX PRO 6000", "NVIDIA", 1, 24), "1.465"),
    "Standard_NC36lds_xl_RTXPRO6000BSE_v6": (NC_RTX, 36, 72, ("RTX PRO 6000", "NVIDIA", 1, 24), "1.243"),
    "Standard_NC72ds_xl_RTXPRO6000BSE_v6": (NC_RTX, 72, 264, ("RTX PRO 6000", "NVIDIA", 1, 48), "2.75"),
    "Standard_NC72lds_xl_RTXPRO6000BSE_v6": (NC_RTX, 72, 132, ("RTX PRO 6000", "NVIDIA", 1, 48), "2.486"),
    "Standard_NC144ds_xl_RTXPRO6000BSE_v6": (NC_RTX, 144, 516, ("RTX PRO 6000", "NVIDIA", 1, 96), "5.5"),
    "Standard_NC144lds_xl_RTXPRO6000BSE_v6": (NC_RTX, 144, 264, ("RTX PRO 6000", "NVIDIA", 1, 96), "4.972"),
    "Standard_NC288ds_xl_RTXPRO6000BSE_v6": (NC_RTX, 288, 1032, ("RTX PRO 6000", "NVIDIA", 2, 96), "11"),
    "Standard_NC288lds_xl_RTXPRO6000BSE_v6": (NC_RTX, 288, 516, ("RTX PRO 6000", "NVIDIA", 2, 96), "9.944"),
    "Standard_NV6ads_A10_v5": (NV_A10, 6, 55, ("A10", "NVIDIA", 1, 4), "0.454"),
    "Standard_NV36ads_A10_v5": (NV_A10, 36, 440, ("A10", "NVIDIA", 1, 24), "3.2"),
}
_SOLD_IN: dict[str, dict[str, str]] = {
    # zone numbers per family; none: in the region as a whole
    "eastus": {NC_T4: "123", NC_A100: "12", ND_A100: "", NDM_A100: "", ND_H100: "2", NV_A10: "1", NC_RTX: "3"},
    "eastus2": {NC_T4: "123", NC_A100: "123", NC_H100: "12", ND_H100: "", ND_H200: "", ND_MI300X: ""},
    "westeurope": {NC_T4: "12", NC_A100: "13", ND_A100: ""},
}


def family(size: str) -> str:
    """The quota that a size counts against on demand."""
    return _SIZES[size][0]


def zones_of(region: str, sold: set[tuple[str, str]], size: str) -> list[str]:
    """Numbers of the region's zones in which a size is sold now."""
    return [number for number in ZONED[region] if (f"{region}-{number}", size) in sold]


def _machine(size: str) -> MachineType:
    of_family, vcpus, memory_gib, (name, maker, count, gpu_gib), _ = _SIZES[size]
    codes = MappingProxyType({Market.ON_DEMAND: of_family, Market.SPOT: SPOT_CORES})
    return MachineType(size, vcpus, memory_gib * GIB, Gpu(name, maker, count, gpu_gib * GIB), codes)


def _offer(region: str, size: str) -> Offer:
    on_demand = Decimal(_SIZES[size][4]) * _PRICE_FACTOR[region]
    return Offer(on_demand, (on_demand * 35 / 100).quantize(Decimal("0.0001")))


def _is_sold(region: str, zone: str, size: str) -> bool:
    numbers = _SOLD_IN[region].get(family(size))
    return numbers is not None and (zone == region if numbers == "" else zone.removeprefix(f"{region}-") in numbers)


@cache
def catalog() -> Catalog:
    """Azure as simulated here."""
    places = [(region, zone) for region, zones in REGIONS.items() for zone in zones]
    return Catalog(
        provider=PROVIDER,
        regions=REGIONS,
        machines={size: _machine(size) for size in _SIZES},
        offers={(zone, size): _offer(region, size) for region, zone in places for size in _SIZES},
        offered=frozenset((zone, size) for region, zone in places for size in _SIZES if _is_sold(region, zone, size)),
    )
