"""The Cloud Billing Catalog: what the parts of the machine types sold here cost, among SKUs that look like them.

Compute Engine's own prices are per machine type in `facts`; cores and memory have rates of their own here, and the GPU is the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import GIB, PROVIDER, REGIONS, family
from cloudsim.gce.errors import GceError, not_found
from cloudsim.world import Catalog, Market, World

SERVICE = "6F81-5844-456A"
_MOST = 5_000
_FAMILIES = {
    # family: what its instances and its GPUs are called
    "a2-highgpu": ("A2", "Nvidia Tesla A100 GPU"),
    "a2-ultragpu": ("A2", "Nvidia Tesla A100 80GB GPU"),
    "a3-highgpu": ("A3", "Nvidia H100 80GB GPU"),
    "a3-megagpu": ("A3Plus", "Nvidia H100 80GB Mega GPU"),
    "a3-edgegpu": ("A3", "Nvidia H100 80GB GPU"),
    "a3-ultragpu": ("A3Ultra", "H200 141GB GPU"),
    "a4-highgpu": (None, "A4 Nvidia B200 (1 gpu slice)"),
    "n1-t4": ("N1 Predefined", "Nvidia Tesla T4 GPU"),
    "n1-v100": ("N1 Predefined", "Nvidia Tesla V100 GPU"),
    "g2-standard": ("G2", "Nvidia L4 GPU"),
    "g4-standard": ("G4", "RTX 6000 96GB"),
}
_RATES = {
    # instances: USD per hour of a core and of a GiB, on demand and as spot
    "A2": {Market.ON_DEMAND: ("0.031611", "0.004237"), Market.SPOT: ("0.01581", "0.002118")},
    "A3": {Market.ON_DEMAND: ("0.029", "0.0025"), Market.SPOT: ("0.008", "0.0007")},
    "A3Plus": {Market.ON_DEMAND: ("0.029", "0.0025"), Market.SPOT: ("0.008", "0.0007")},
    "A3Ultra": {Market.ON_DEMAND: ("0.029", "0.0025"), Market.SPOT: ("0.008", "0.0007")},
    "N1 Predefined": {Market.ON_DEMAND: ("0.031611", "0.004237"), Market.SPOT: ("0.00698", "0.00094")},
    "G2": {Market.ON_DEMAND: ("0.024988", "0.002927"), Market.SPOT: ("0.0105", "0.00123")},
    "G4": {Market.ON_DEMAND: ("0.04891", "0.00587"), Market.SPOT: ("0.02446", "0.00294")},
}
_GPUS = {gpu: machine_family for machine_family, (_, gpu) in reversed(_FAMILIES.items())}
"""By the GPU's name, the first family that has it."""
_AMERICAN = {"Nvidia H100 80GB Mega GPU": "Nvidia H100 80GB Plus GPU"}
"""What Google calls a GPU in the Americas."""
_OTHER = Decimal("0.1")
"""USD per hour of a GPU under terms that nobody here launches with."""

_DISKS = {
    "Balanced PD Capacity": Decimal("0.11"),
    "SSD backed PD Capacity": Decimal("0.18"),
    "Hyperdisk Balanced Capacity": Decimal("0.09"),
    "Hyperdisk Balanced IOPS": Decimal("0.005"),
}
"""USD for a GiB and month, and for one more operation a second."""
_ADDRESSES = {
    "External IP Charge on a Standard VM": Decimal("0.006"),
    "External IP Charge on a Spot Preemptible VM": Decimal("0.003"),
}
"""USD an hour. These prices are not those of the adapter's list, so that a test can distinguish them."""
_USAGE = {Market.ON_DEMAND: "OnDemand", Market.SPOT: "Preemptible"}


def skus(call: Call) -> Result:
    """`GET /v1/services/{service}/skus`: one page. Raises GceError for another service or a page token that is none."""
    if call.path["service"] != SERVICE:
        raise not_found(f"services/{call.path['service']}")
    size = min(int(call.query.get("pageSize") or _MOST), _MOST)
    token = call.query.get("pageToken") or "0"
    if not token.isdecimal():
        raise GceError("invalid", "The page token is invalid.")
    start, every = int(token), list(_all(call.world))
    following = str(start + size) if start + size < len(every) else ""
    return {"skus": every[start : start + size], "nextPageToken": following}


def _all(world: World) -> Iterator[Result]:
    catalog = world.catalogs[PROVIDER]
    yield from _parts()
    for region in REGIONS:
        for market in Market:
            for name, rates in _RATES.items():
                for group, usd in zip(("Core", "Ram"), rates[market], strict=True):
                    description = f"{_instance(name, market)} Instance {group} running in {region}"
                    yield _sku(description, group, _USAGE[market], region, Decimal(usd))
            for gpu, machine_family in _GPUS.items():
                rate = _gpu_rate(catalog, region, machine_family, market)
                rate *= 1 if market is Market.ON_DEMAND else world.spot_factor(PROVIDER, region)
                name = _gpu(_AMERICAN.get(gpu, gpu) if region.startswith("us-") else gpu, market)
                yield _sku(f"{name} running in {region}", "GPU", _USAGE[market], region, rate)
        for gpu in _GPUS:
            yield _sku(
                f"{gpu} attached to DWS Defined Duration VMs running in {region}", "GPU", "OnDemand", region, _OTHER
            )
            yield _sku(f"Commitment v1: {gpu} running in {region} for 1 Year", "GPU", "Commit1Yr", region, _OTHER)


def _parts() -> Iterator[Result]:
    """Disks in each region, and addresses."""
    for description, rate in _ADDRESSES.items():
        yield _sku(description, "IpAddress", "OnDemand", "global", rate)
    for region in REGIONS:
        for description, rate in _DISKS.items():
            yield _sku(f"{description} in {region}", "SSD", "OnDemand", region, rate)


def _instance(name: str, market: Market) -> str:
    return name if market is Market.ON_DEMAND else f"Spot Preemptible {name}"


def _gpu(name: str, market: Market) -> str:
    return name if market is Market.ON_DEMAND else f"{name} attached to Spot Preemptible VMs"


def _gpu_rate(catalog: Catalog, region: str, of_family: str, market: Market) -> Decimal:
    """What is left of the price of the family's smallest type."""
    machine = next(candidate for name, candidate in catalog.machines.items() if family(name) == of_family)
    offer = catalog.offers[catalog.regions[region][0], machine.name]
    instance = _FAMILIES[of_family][0]
    core, ram = (Decimal(rate) for rate in (_RATES[instance][market] if instance is not None else (0, 0)))
    whole = offer.on_demand if market is Market.ON_DEMAND else offer.spot
    return (whole - core * machine.vcpus - ram * machine.memory_mib / GIB) / machine.gpu.count


def _sku(description: str, group: str, usage: str, region: str, rate: Decimal) -> dict[str, Any]:
    whole, _, fraction = f"{rate:.9f}".partition(".")
    price = {"currencyCode": "USD", "units": whole, "nanos": int(fraction)}
    expression = {
        "usageUnit": {"Ram": "GiBy.h", "SSD": "GiBy.mo"}.get(group, "h"),
        "displayQuantity": 1,
        "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}],
    }
    name = f"services/{SERVICE}/skus/{description.replace(' ', '-').upper()}"
    return {
        "name": name,
        "skuId": name.rpartition("/")[2],
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Compute",
            "resourceGroup": {"Core": "CPU", "Ram": "RAM"}.get(group, group),
            "usageType": usage,
        },
        "serviceRegions": [region],
        "pricingInfo": [{"summary": "", "pricingExpression": expression, "currencyConversionRate": 1}],
        "serviceProviderName": "Google",
    }
