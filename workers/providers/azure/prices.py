"""Prices of today from Azure Retail Prices, which answers anybody: Linux, pay as you go and spot.

One question a size: a whole region is thousands of meters. Azure docs, "Azure Retail Prices overview".
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from azure.core import PipelineClient
from azure.core.rest import HttpRequest

from app.domain.offerings import Market
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import AzureClients
from workers.providers.azure.errors import translated
from workers.providers.common.batch import answered, ask_in_turn
from workers.providers.common.validity import Validity
from workers.providers.errors import OutcomeUnknown, ProviderError
from workers.providers.types import ADDRESS, ListedKey, PartPrice, Price, PriceList, PricePage

PUBLIC = "https://prices.azure.com"
PATH = "/api/retail/prices"
SOURCE = "Azure Retail Prices"

_SPOT, _LOW_PRIORITY = " Spot", " Low Priority"
_OTHER_PRODUCTS = ("Windows", "CloudServices")
_HOURLY = "1 Hour"
_VALIDITY = Validity(start="effectiveStartDate", end="effectiveEndDate")
"""Azure lists a price before it takes effect."""


def by_size(
    clients: AzureClients, endpoint: str | None, names: Iterable[str], region: str, now: datetime
) -> Mapping[tuple[str, Market], Price]:
    """Of each size the price that is in force at `now`, in each market that has one."""
    with clients.anonymous as client:
        answers = answered(names, lambda name: _by_region(client, endpoint, name, now, armRegionName=region))
    return {(name, market): price for prices in answers.values() for (_, name, market), price in prices.items()}


def everywhere(clients: AzureClients, endpoint: str | None, names: Iterable[str], now: datetime) -> Iterator[PricePage]:
    """A page per size, with the prices that are in force at `now`."""
    with clients.anonymous as client:
        for name, answer in ask_in_turn(names, lambda name: _by_region(client, endpoint, name, now)):
            if isinstance(answer, ProviderError):
                yield PricePage(types=frozenset({name}), error=answer)
            else:
                yield PricePage(types=frozenset({name}), prices=answer)


_TIERS: Mapping[str, tuple[str, str]] = {
    "Premium_LRS": ("Premium SSD Managed Disks", "P10 LRS"),
    "Premium_ZRS": ("Premium SSD Managed Disks", "P10 ZRS"),
    "StandardSSD_LRS": ("Standard SSD Managed Disks", "E10 LRS"),
    "StandardSSD_ZRS": ("Standard SSD Managed Disks", "E10 ZRS"),
    "Standard_LRS": ("Standard HDD Managed Disks", "S10 LRS"),
}
"""By disk type: the product, and the SKU of a disk of `_TIER_GIB`. The price of other sizes for a GiB is much the same."""
_TIER_GIB = 128
_MONTHLY = "1/Month"
_ADDRESS_METER = "Standard IPv4 Static Public IP"
_ANYWHERE = ("Global", "")


def parts(
    clients: AzureClients, endpoint: str | None, disk_type: str, region: str, now: datetime
) -> Mapping[str, PartPrice]:
    """The price of managed disks for a GiB and month, and of a standard public address."""
    product, sku = _TIERS[disk_type]
    with clients.anonymous as client:
        disks = list(
            _every_meter(
                client,
                endpoint or PUBLIC,
                {"serviceName": "Storage", "productName": product, "skuName": sku, "armRegionName": region},
            )
        )
        addresses = list(
            _every_meter(client, endpoint or PUBLIC, {"serviceName": "Virtual Network", "meterName": _ADDRESS_METER})
        )
    disk = [m for m in disks if m["unitOfMeasure"] == _MONTHLY and part(m, "meterName").endswith("Disk")]
    address = [m for m in addresses if m["unitOfMeasure"] == _HOURLY and m["armRegionName"] in (region, *_ANYWHERE)]
    meters_by_kind = {disk_type: (disk, Decimal(_TIER_GIB)), ADDRESS: (address, Decimal(1))}
    prices = {kind: (_price(meters, now), size) for kind, (meters, size) in meters_by_kind.items()}
    return {
        kind: PartPrice(usd=usd / size, as_of=now, source=SOURCE)
        for kind, (usd, size) in prices.items()
        if usd is not None
    }


def _price(meters: Iterable[Document], now: datetime) -> Decimal | None:
    """The price above zero that is in force. Of several that came into force together, the highest."""
    priced = [meter for meter in meters if meter["retailPrice"] > 0 and meter["currencyCode"] == "USD"]
    return max((Decimal(meter["retailPrice"]) for meter in _VALIDITY.in_force(priced, now)), default=None)


def _by_region(
    client: PipelineClient[Any, Any], endpoint: str | None, name: str, now: datetime, **place: str
) -> PriceList:
    listed: dict[ListedKey, list[Document]] = defaultdict(list)
    for meter in _meters(client, endpoint or PUBLIC, {"armSkuName": name, **place}):
        market = Market.SPOT if meter["skuName"].endswith(_SPOT) else Market.ON_DEMAND
        listed[meter["armRegionName"], name, market].append(meter)
    prices = {key: _price(meters, now) for key, meters in listed.items()}
    return {key: Price(per_hour=usd, as_of=now, source=SOURCE) for key, usd in prices.items() if usd is not None}


def _meters(client: PipelineClient[Any, Any], endpoint: str, place: Mapping[str, str]) -> Iterator[Document]:
    """The meters by which Azure bills a Linux VM of this size (and region)."""
    meters = _every_meter(client, endpoint, {"serviceName": "Virtual Machines", **place})
    return (meter for meter in meters if _is_meant(meter, place))


def _every_meter(client: PipelineClient[Any, Any], endpoint: str, fields: Mapping[str, str]) -> Iterator[Document]:
    """The meters of pay as you go with these fields."""
    fields = {**fields, "priceType": "Consumption"}
    query = {"$filter": " and ".join(f"{field} eq '{value}'" for field, value in fields.items())}
    while True:
        page = _page(client, endpoint.rstrip("/") + PATH, query)
        yield from (meter for meter in part(page, "Items") if part(meter, "type") == "Consumption")
        following = page.get("NextPageLink")
        if not following:
            return
        query = dict(parse_qsl(urlsplit(following).query))


def _page(client: PipelineClient[Any, Any], url: str, query: Mapping[str, str]) -> Document:
    """Amounts are decimals from the start."""
    with translated():
        answer = client.send_request(HttpRequest("GET", url, params=query))
        answer.raise_for_status()
        text = answer.text()
    try:
        page: Document = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    except ValueError:
        raise OutcomeUnknown("the answer is not JSON: it is not one of Azure's", code="MalformedAnswer") from None
    return page


def _is_meant(meter: Document, place: Mapping[str, str]) -> bool:
    """The filter's own words again, and what it has no words for."""
    return (
        all(part(meter, field) == value for field, value in place.items())
        and part(meter, "type") == "Consumption"
        and part(meter, "armRegionName") != ""
        and (part(meter, "currencyCode"), part(meter, "unitOfMeasure")) == ("USD", _HOURLY)
        and not part(meter, "skuName").endswith(_LOW_PRIORITY)
        and not any(word in part(meter, "productName") for word in _OTHER_PRODUCTS)
        and part(meter, "retailPrice") > 0
    )
