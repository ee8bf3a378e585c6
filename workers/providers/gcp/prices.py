"""Prices of today from the Cloud Billing Catalog: GPUs, cores and memory are SKUs of their own, added up for each machine type.

Descriptions are compared word for word. What is sold otherwise (committed use, Dynamic Workload Scheduler, calendar mode, sole
tenancy) has other ones, although some of it says OnDemand too. Disks and local SSDs are not in these prices. The same list has the
prices of disks and addresses, which are read beside them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from app.domain.offerings import LISTED_MARKETS, InstanceType, Market
from workers.providers.common.validity import Validity
from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp.catalogue import GcpCatalogue
from workers.providers.gcp.clients import GcpClients
from workers.providers.part_price_list import EVERY_REGION, PartPriceList, in_region
from workers.providers.types import ADDRESS, PartPrice, Price, PriceList

PUBLIC = "https://cloudbilling.googleapis.com"
PATH = "/v1/services/6F81-5844-456A/skus"
"""Compute Engine's (Cloud Billing API reference, `services.skus.list`)."""

SOURCE = "Cloud Billing Catalog"
_PAGE = "5000"
_MARKETS: Mapping[str, Market] = {"OnDemand": Market.ON_DEMAND, "Preemptible": Market.SPOT}
_DESCRIPTION = re.compile(r"(?:Spot Preemptible )?(.+?)(?: attached to Spot Preemptible VMs)? running in .+")
_NANO = Decimal("1e-9")
_VALIDITY = Validity(start="effectiveTime")
_PARTS: Mapping[str, str] = {
    "Storage PD Capacity": "pd-standard",
    "Balanced PD Capacity": "pd-balanced",
    "SSD backed PD Capacity": "pd-ssd",
    "Hyperdisk Balanced Capacity": "hyperdisk-balanced",
    "External IP Charge on a Standard VM": ADDRESS,
}
"""Kinds by the description of their SKU, which may name a place."""
_PLACE = re.compile(r" in .+$")
_GLOBAL = "global"
"""In place of a region: every region."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the SKUs of a family are called before "running in".

    `gpus`: the names that Google uses for the GPU; a region has one of them. `instance` None: the GPU's price includes
    the host.
    """

    instance: str | None
    gpus: tuple[str, ...]

    def amounts(self, kind: InstanceType) -> Iterator[tuple[tuple[str, ...], Decimal]]:
        """How much of each SKU one VM takes, by the SKU's names."""
        if self.instance is not None:
            yield (f"{self.instance} Instance Core",), Decimal(kind.vcpus)
            yield (f"{self.instance} Instance Ram",), kind.memory_gib
        yield self.gpus, Decimal(kind.gpu.count)


_FAMILIES: Mapping[str, _Parts] = {
    "a2-highgpu": _Parts("A2", ("Nvidia Tesla A100 GPU",)),
    "a2-megagpu": _Parts("A2", ("Nvidia Tesla A100 GPU",)),
    "a2-ultragpu": _Parts("A2", ("Nvidia Tesla A100 80GB GPU",)),
    "a3-highgpu": _Parts("A3", ("Nvidia H100 80GB GPU",)),
    "a3-edgegpu": _Parts("A3", ("Nvidia H100 80GB GPU",)),
    "a3-megagpu": _Parts("A3Plus", ("Nvidia H100 80GB Mega GPU", "Nvidia H100 80GB Plus GPU")),
    "a3-ultragpu": _Parts("A3Ultra", ("H200 141GB GPU", "Nvidia H200 141GB GPU")),
    "a4-highgpu": _Parts(None, ("A4 Nvidia B200 (1 gpu slice)",)),
    "g2-standard": _Parts("G2", ("Nvidia L4 GPU",)),
    "g4-standard": _Parts("G4", ("RTX 6000 96GB",)),
}
_N1: Mapping[str, _Parts] = {
    "T4": _Parts("N1 Predefined", ("Nvidia Tesla T4 GPU",)),
    "V100": _Parts("N1 Predefined", ("Nvidia Tesla V100 GPU",)),
}
"""By GPU: N1 machine types have none of their own."""
_Rates = Mapping[tuple[str, Market], set[Decimal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GooglePrices:
    """Google's price list: prices of types, and prices of disks and addresses by region and kind."""

    types: PriceList = field(default_factory=dict)
    parts: PartPriceList = field(default_factory=dict)

    def parts_in(self, region: str) -> Mapping[str, PartPrice]:
        """By kind: the region's own price, else that of every region."""
        return in_region(self.parts, region)


def everywhere(clients: GcpClients, endpoint: str | None, catalogue: GcpCatalogue, now: datetime) -> GooglePrices:
    """Of the types whose parts all have exactly one price in a region, in the markets that they are sold in."""
    published = _rates(clients, (endpoint or PUBLIC).rstrip("/") + PATH, now)
    sums = {
        (region, name, market): _sum(kind, market, rates)
        for region, rates in published.types.items()
        for name, kind in catalogue.types.items()
        for market in LISTED_MARKETS
        if market in catalogue.markets[name]
    }
    types = {key: Price(per_hour=price, as_of=now, source=SOURCE) for key, price in sums.items() if price is not None}
    parts = {
        key: PartPrice(usd=next(iter(amounts)), as_of=now, source=SOURCE)
        for key, amounts in published.parts.items()
        if len(amounts) == 1
    }
    return GooglePrices(types=types, parts=parts)


def _sum(kind: InstanceType, market: Market, rates: _Rates) -> Decimal | None:
    parts = _N1.get(kind.gpu.model) if kind.name.startswith("n1-") else _FAMILIES.get(kind.name.rpartition("-")[0])
    if parts is None:
        return None
    total = Decimal(0)
    for names, amount in parts.amounts(kind):
        known = {price for name in names for price in rates.get((name, market), ())}
        if len(known) != 1:
            return None
        total += amount * next(iter(known))
    return total


@dataclass(frozen=True, slots=True)
class _PublishedRates:
    """What a list says. `types`, by region: USD for an hour of one core, GiB or GPU. `parts`, by region and kind."""

    types: Mapping[str, _Rates]
    parts: Mapping[tuple[str, str], set[Decimal]]


def _rates(clients: GcpClients, url: str, now: datetime) -> _PublishedRates:
    """More than one price of a name: which one counts is not known."""
    rates: dict[str, dict[tuple[str, Market], set[Decimal]]] = defaultdict(lambda: defaultdict(set))
    parts: dict[tuple[str, str], set[Decimal]] = defaultdict(set)
    for sku in _skus(clients, url):
        kind = _part_kind(sku)
        if kind is not None:
            for region in sku.get("serviceRegions", ()):
                parts[EVERY_REGION if region == _GLOBAL else region, kind].update(_usd(sku, now))
        match = _DESCRIPTION.fullmatch(sku.get("description", ""))
        market = _MARKETS.get(sku.get("category", {}).get("usageType", ""))
        if match is not None and market is not None:
            for region in sku.get("serviceRegions", ()):
                rates[region][match[1], market].update(_usd(sku, now))
    return _PublishedRates(types=rates, parts=parts)


def _part_kind(sku: Mapping[str, Any]) -> str | None:
    """The kind of disk whose capacity an SKU sells, or a standard VM's address. None: something else."""
    if sku.get("category", {}).get("usageType") != "OnDemand":
        return None
    name = _PLACE.sub("", sku.get("description", ""))
    return _PARTS.get(name)


def _skus(clients: GcpClients, url: str) -> Iterator[Mapping[str, Any]]:
    token = ""
    while True:
        page = clients.get(url, {"pageSize": _PAGE, "currencyCode": "USD", **({"pageToken": token} if token else {})})
        if not isinstance(page, Mapping) or "skus" not in page:
            raise OutcomeUnknown("the answer has no skus: it is not one of Google's", code="MalformedAnswer")
        yield from page["skus"]
        token = page.get("nextPageToken", "")
        if not token:
            return


def _usd(sku: Mapping[str, Any], now: datetime) -> Iterator[Decimal]:
    """The price in force, of its last tier: earlier ones are free amounts. Omits a price of zero, which is unknown."""
    for pricing in _VALIDITY.in_force(sku.get("pricingInfo", ()), now):
        for tier in pricing.get("pricingExpression", {}).get("tieredRates", ())[-1:]:
            money = tier.get("unitPrice", {})
            if money.get("currencyCode") == "USD":
                price = Decimal(money.get("units", 0)) + money.get("nanos", 0) * _NANO
                if price > 0:
                    yield price
