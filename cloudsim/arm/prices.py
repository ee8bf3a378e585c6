"""Azure Retail Prices: the meters of the sizes sold here, in pages, among meters of the same sizes that are something else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from cloudsim.arm.catalog import PROVIDER
from cloudsim.world import World

NAME = "RetailPrices.List"
PATH = "/api/retail/prices"
_PAGE = 100
_EQUALS = re.compile(r"(\w+) eq '([^']*)'")
_SINCE = "2026-07-01T00:00:00Z"
_DISKS = {
    ("Premium SSD Managed Disks", "P10 LRS"): Decimal("20.48"),
    ("Premium SSD Managed Disks", "P15 LRS"): Decimal("40.10"),
    ("Standard SSD Managed Disks", "E10 LRS"): Decimal("10.24"),
    ("Standard HDD Managed Disks", "S10 LRS"): Decimal("6.40"),
}
"""By product and SKU: USD for a disk and month."""
_ADDRESS = Decimal("0.006")
"""USD an hour. These prices are not those of the adapter's list, so that a test can distinguish them."""
_FIELDS = {"priceType": "type"}
"""Filters whose field has another name in the items."""


def retail(world: World, query: Mapping[str, str], url: str) -> dict[str, Any]:
    """One page. `url`: where this was asked, for the link to the next. What is not an equality is not filtered by."""
    filters = {_FIELDS.get(field, field): value for field, value in _EQUALS.findall(query.get("$filter", ""))}
    matches = [meter for meter in _items(world) if all(meter.get(k) == v for k, v in filters.items())]
    start = int(query.get("$skip") or 0)
    following = urlencode({**query, "$skip": str(start + _PAGE)}) if start + _PAGE < len(matches) else None
    items = matches[start : start + _PAGE]
    link = f"{url}?{following}" if following else None
    return {"BillingCurrency": "USD", "Items": items, "NextPageLink": link, "Count": len(items)}


def _items(world: World) -> Iterator[dict[str, Any]]:
    catalog = world.catalogs[PROVIDER]
    yield from _addresses()
    for region, zones in catalog.regions.items():
        yield from _disks(region)
        for size in catalog.machines:
            offer = catalog.offers[zones[0], size]
            yield _item(region, size, "", offer.on_demand)
            yield _item(region, size, "", offer.on_demand * 2, product=" Windows")
            yield _item(region, size, " Spot", offer.spot * world.spot_factor(PROVIDER, region))
            yield _item(region, size, " Low Priority", offer.on_demand / 5)
            yield {
                **_item(region, size, "", offer.on_demand * 5_000),
                "type": "Reservation",
                "reservationTerm": "1 Year",
            }


def _addresses() -> Iterator[dict[str, Any]]:
    for meter, price in (("Standard IPv4 Static Public IP", _ADDRESS), ("Basic IPv4 Dynamic Public IP", _ADDRESS / 2)):
        names = {"meterName": meter, "productName": "IP Addresses", "skuName": "Standard", "armSkuName": ""}
        yield {**_item("Global", "", "", price), "serviceName": "Virtual Network", **names}


def _disks(region: str) -> Iterator[dict[str, Any]]:
    for (product, sku), price in _DISKS.items():
        for meter, amount in ((f"{sku} Disk", price), (f"{sku} Disk Mount", price / 10)):
            names = {"meterName": meter, "productName": product, "skuName": sku, "armSkuName": ""}
            storage = {"serviceName": "Storage", "unitOfMeasure": "1/Month"}
            yield {**_item(region, "", "", amount), **storage, **names}


def _item(region: str, size: str, kind: str, price: Decimal, product: str = "") -> dict[str, Any]:
    short = size.removeprefix("Standard_").replace("_", " ")
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": float(price),
        "unitPrice": float(price),
        "armRegionName": region,
        "location": region,
        "effectiveStartDate": _SINCE,
        "meterName": short + kind,
        "productName": f"Virtual Machines {short.partition(' ')[0]} Series{product}",
        "skuName": short + kind,
        "serviceName": "Virtual Machines",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
    }
