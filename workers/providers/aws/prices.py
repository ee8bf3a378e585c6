"""Today's on-demand prices from the AWS Price List: Linux, shared tenancy, no pre-installed software.

The adapter sends one query per type: a whole region has thousands of products, each with all its reservations.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from app.domain.offerings import Market
from workers.providers.aws.calls import pages, part
from workers.providers.aws.errors import translated
from workers.providers.common.batch import answered, ask_in_turn
from workers.providers.common.validity import Validity
from workers.providers.errors import ProviderError
from workers.providers.types import ADDRESS, PartPrice, Price, PriceList, PricePage

SOURCE = "AWS Price List"
_PAGE = 100
_HOURLY = "Hrs"
_VALIDITY = Validity(start="effectiveDate")
_PRODUCT: Mapping[str, str] = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "locationType": "AWS Region",
}
"""Product attributes of a plain launch (EC2's offer file): no licence, no dedicated host, no capacity block.

A Local Zone has prices of its own, under the region code of its region.
"""


def on_demand(client: Any, names: Sequence[str], region: str, now: datetime) -> Mapping[tuple[str, Market], Price]:
    """Prices of the types that AWS sells in the region. Omits a type that does not have exactly one price."""
    answers = answered(names, lambda name: _by_region(client, name, now, regionCode=region))
    return {(name, market): price for prices in answers.values() for (_, name, market), price in prices.items()}


def everywhere(client: Any, names: Sequence[str], now: datetime) -> Iterator[PricePage]:
    """A page per type. Omits a type in a region where it does not have exactly one price."""
    for name, answer in ask_in_turn(names, lambda name: _by_region(client, name, now)):
        if isinstance(answer, ProviderError):
            yield PricePage(types=frozenset({name}), error=answer)
        else:
            yield PricePage(types=frozenset({name}), prices=answer)


_PARTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "gp3": (
        "AmazonEC2",
        "GB-Mo",
        {"productFamily": "Storage", "volumeApiName": "gp3", "locationType": "AWS Region"},
    ),
    ADDRESS: ("AmazonVPC", _HOURLY, {"group": "VPCPublicIPv4Address", "locationType": "AWS Region"}),
}
"""By kind: the service whose product it is, the unit of its price, and the product's attributes."""
_IDLE = "IdleAddress"
"""In the usage type of an address that no VM uses: another product of the same group."""


def parts(client: Any, region: str, now: datetime) -> Mapping[str, PartPrice]:
    """Prices of gp3 volumes and of public addresses. Omits a kind that does not have exactly one price."""
    prices: dict[str, PartPrice] = {}
    for kind, (service, unit, attributes) in _PARTS.items():
        amounts = set(_part_amounts(client, service, unit, {**attributes, "regionCode": region}, now))
        if len(amounts) == 1:
            prices[kind] = PartPrice(usd=amounts.pop(), as_of=now, source=SOURCE)
    return prices


def _part_amounts(
    client: Any, service: str, unit: str, attributes: Mapping[str, str], now: datetime
) -> Iterator[Decimal]:
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in attributes.items()]
    for page in pages(client, "get_products", size=_PAGE, ServiceCode=service, Filters=filters):
        for text in part(page, "PriceList"):
            with translated():
                product = json.loads(text)
                if _IDLE not in product["product"]["attributes"].get("usagetype", ""):
                    yield from _amounts(product, unit, now)


def _by_region(client: Any, name: str, now: datetime, **place: str) -> PriceList:
    attributes = {**_PRODUCT, "instanceType": name, **place}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in attributes.items()]
    prices: dict[str, set[Decimal]] = defaultdict(set)
    for page in pages(client, "get_products", size=_PAGE, ServiceCode="AmazonEC2", Filters=filters):
        for text in part(page, "PriceList"):
            with translated():
                product = json.loads(text)
                prices[product["product"]["attributes"]["regionCode"]].update(_amounts(product, _HOURLY, now))
    return {
        (region, name, Market.ON_DEMAND): Price(per_hour=amounts.pop(), as_of=now, source=SOURCE)
        for region, amounts in prices.items()
        if len(amounts) == 1
    }


def _amounts(product: Mapping[str, Any], unit: str, now: datetime) -> Iterator[Decimal]:
    """Prices of a unit in USD by the terms in force. Omits a price of zero, which marks use that is paid for elsewhere."""
    for term in _VALIDITY.in_force(product["terms"].get("OnDemand", {}).values(), now):
        for dimension in term["priceDimensions"].values():
            price = Decimal(dimension["pricePerUnit"].get("USD", 0))
            if dimension["unit"] == unit and price > 0:
                yield price
