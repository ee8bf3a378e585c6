"""Prices of today from Azure Retail Prices, which answers anybody: Linux, pay as you go and spot.

One question a size: a whole region is thousands of meters. Azure docs, "Azure Retail Prices overview".
"""

import json
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
from workers.providers.common.batch import answered
from workers.providers.errors import OutcomeUnknown
from workers.providers.types import Price

PUBLIC = "https://prices.azure.com"
PATH = "/api/retail/prices"
SOURCE = "Azure Retail Prices"

_SPOT, _LOW_PRIORITY = " Spot", " Low Priority"
_OTHER_PRODUCTS = ("Windows", "CloudServices")
_HOURLY = "1 Hour"


def by_size(
    clients: AzureClients, endpoint: str | None, names: Iterable[str], region: str, now: datetime
) -> Mapping[tuple[str, Market], Price]:
    """Of each size the price that came into force last, in each market that has one."""
    with clients.anonymous as client:
        answers = answered(names, lambda name: list(_meters(client, endpoint or PUBLIC, name, region)))
    found: dict[tuple[str, Market], Price] = {}
    for name, meters in answers.items():
        for meter in sorted(meters, key=lambda one: str(one["effectiveStartDate"])):
            market = Market.SPOT if meter["skuName"].endswith(_SPOT) else Market.ON_DEMAND
            found[name, market] = Price(per_hour=meter["retailPrice"], as_of=now, source=SOURCE)
    return found


def _meters(client: PipelineClient[Any, Any], endpoint: str, name: str, region: str) -> Iterator[Document]:
    """Those that a Linux VM of this size is billed by."""
    wanted = {
        "serviceName": "Virtual Machines",
        "armRegionName": region,
        "armSkuName": name,
        "priceType": "Consumption",
    }
    query = {"$filter": " and ".join(f"{field} eq '{value}'" for field, value in wanted.items())}
    while True:
        page = _page(client, endpoint.rstrip("/") + PATH, query)
        yield from (one for one in part(page, "Items") if _is_meant(one, name, region))
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


def _is_meant(one: Document, name: str, region: str) -> bool:
    """The filter's own words again, and what it has no words for."""
    return (
        (part(one, "armSkuName"), part(one, "armRegionName"), part(one, "type")) == (name, region, "Consumption")
        and (part(one, "currencyCode"), part(one, "unitOfMeasure")) == ("USD", _HOURLY)
        and not part(one, "skuName").endswith(_LOW_PRIORITY)
        and not any(word in part(one, "productName") for word in _OTHER_PRODUCTS)
        and part(one, "retailPrice") > 0
    )
