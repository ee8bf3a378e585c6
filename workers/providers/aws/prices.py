"""On-demand prices of today: Linux, shared tenancy, nothing pre-installed, as the AWS Price List tells them.

One question a type: a whole region is thousands of products, each with all its reservations.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from app.domain.offerings import Market
from workers.providers.aws.calls import pages, part
from workers.providers.aws.errors import translated
from workers.providers.common.batch import answered
from workers.providers.types import Price

SOURCE = "AWS Price List"
_PAGE = 100
_HOURLY = "Hrs"
_PRODUCT: Mapping[str, str] = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Attributes of what a plain launch buys (EC2's offer file): no licence, no dedicated host, no capacity block."""


def on_demand(client: Any, names: Sequence[str], region: str, now: datetime) -> Mapping[tuple[str, Market], Price]:
    """Those that AWS sells in the region, each with exactly one price."""
    found = answered(names, lambda name: set(_prices(client, name, region)))
    return {
        (name, Market.ON_DEMAND): Price(per_hour=prices.pop(), as_of=now, source=SOURCE)
        for name, prices in found.items()
        if len(prices) == 1
    }


def _prices(client: Any, name: str, region: str) -> Iterator[Decimal]:
    wanted = {**_PRODUCT, "instanceType": name, "regionCode": region}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    for page in pages(client, "get_products", size=_PAGE, ServiceCode="AmazonEC2", Filters=filters):
        for product in part(page, "PriceList"):
            with translated():
                yield from _hourly(json.loads(product))


def _hourly(product: Mapping[str, Any]) -> Iterator[Decimal]:
    """USD; a price of nothing stands for hours that something else pays."""
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = Decimal(dimension["pricePerUnit"].get("USD", 0))
            if dimension["unit"] == _HOURLY and price > 0:
                yield price
